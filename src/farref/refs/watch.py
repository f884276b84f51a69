"""Shows the table again and again while the system works, with changes highlighted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from rich.console import Group, RenderableType

from ..actors.inspect.inspection import ReferenceInfo
from ..actors.inspect.snapshot import Snapshot
from ..console import Console, Text
from ..top.figures import ObjectFigures
from ..top.screen import ALL, TopView, foot, objects_pane
from ..top.terminal import interact
from .choice import Order, ordered
from .table import LEGEND, QUIET, WIDEST, Key, cells, summary, table

Look = Callable[[], tuple[Snapshot, list[ReferenceInfo]]]

PANES = ("references", "objects by type")


@dataclass(frozen=True)
class _Seen:
    """The result of one look."""

    snapshot: Snapshot
    rows: list[ReferenceInfo]
    before: dict[Key, list[str]]
    """The rows of the look before, as they were told."""


def watch(look: Look, console: Console, seconds: float, order: Order) -> None:
    """Show the result of *look*, every so many *seconds*, until a key or an exception ends it.

    A terminal shows as much as fits, in a screen of its own; at the end the last table is printed
    whole.
    """
    view = TopView(pane=PANES[0], sort=order, panes=PANES, sorts=get_args(Order))
    last: _Seen | None = None

    def again() -> tuple[_Seen, float]:
        nonlocal last
        snapshot, rows = look()
        last = _Seen(snapshot, rows, _told(rows if last is None else last.rows))
        return last, time.monotonic() + seconds

    def draw(seen: _Seen, width: int, height: int) -> Group:
        return _picture(seen, view, console, width, height)

    if not console.is_terminal:
        while True:
            seen, due = again()
            console.print(draw(seen, console.width, ALL))
            time.sleep(max(0.0, due - time.monotonic()))
    try:
        interact(again, draw, view, console)
    finally:
        if last is not None:
            console.print(draw(last, console.width, ALL))


def _height(lines: Iterable[Text], console: Console) -> int:
    """The number of lines that *lines* take once they are wrapped."""
    return sum(len(line.wrap(console, console.width)) for line in lines)


def _told(rows: Sequence[ReferenceInfo]) -> dict[Key, list[str]]:
    return {(row.worker, row.rref): cells(row) for row in rows}


def _picture(seen: _Seen, view: TopView, console: Console, width: int, height: int) -> Group:
    head = Text(f"{seen.snapshot.system}   {time.strftime('%H:%M:%S')}   ", style="bold", end="")
    head.append("+ new   * changed   - gone   Ctrl-C ends", style=QUIET)
    below = list(summary(seen.snapshot, seen.rows))
    if width < WIDEST and view.pane == PANES[0]:
        below.insert(0, Text(LEGEND, style=QUIET, no_wrap=True, overflow="ellipsis"))
    # Less the head, the titles, the line that tells how many are left, the foot, and a spare one.
    room = max(1, height - 5 - _height(below, console))
    if view.pane == PANES[0]:
        there = {(row.worker, row.rref) for row in seen.rows}
        gone = [told for key, told in seen.before.items() if key not in there]
        found = [row for row in seen.rows if view.has(*cells(row))]
        rows = view.shown(ordered(found, cast("Order", view.sort)), room)
        made = table(rows, width, seen.before, gone[: max(0, room - len(rows))])
    else:
        pane = objects_pane(_groups(seen.rows), view)
        found, rows = [*pane.items], view.shown(pane.items, room)
        made = pane.table(rows, width)
    parts: list[RenderableType] = [head, Text(), made]
    if left := len(found) - view.first - len(rows):
        parts.append(Text(f"... {left} rows more below", style=QUIET))
    parts += below
    if height < ALL:
        parts.append(foot(view, width))
    return Group(*parts)


def _groups(rows: Iterable[ReferenceInfo]) -> list[ObjectFigures]:
    """The objects by owner, type and line, the largest group first."""
    counts = Counter(
        (row.type or "?", row.worker, row.site or "") for row in rows if row.role == "owner"
    )
    return [ObjectFigures(count, *group) for group, count in counts.most_common()]

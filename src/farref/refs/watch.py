"""Shows the table again and again while the system works, with changes highlighted."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live

from ..console import Text
from .table import LEGEND, QUIET, WIDEST, cells, summary, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..actors.inspect.inspection import ReferenceInfo
    from ..actors.inspect.snapshot import Snapshot
    from ..console import Console
    from .table import Key

    Look = Callable[[], tuple[Snapshot, list[ReferenceInfo]]]


def watch(look: Look, console: Console, seconds: float) -> None:
    """Show the result of *look*, every so many *seconds*, until an exception ends it.

    A terminal shows as much as fits, in a screen of its own; at the end the last table is printed
    whole.
    """
    before: dict[Key, list[str]] | None = None
    rows: list[ReferenceInfo] = []
    if not console.is_terminal:
        while True:
            snapshot, rows = look()
            console.print(_picture(snapshot, rows, before, console, len(rows)))
            before = _told(rows)
            time.sleep(seconds)
    draw: Callable[[int], Group] | None = None
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                snapshot, rows = look()
                draw = partial(_picture, snapshot, rows, before, console)
                room = console.height - 4 - _height(summary(snapshot, rows), console)
                live.update(draw(room), refresh=True)
                before = _told(rows)
                time.sleep(seconds)
    finally:
        if draw is not None:
            console.print(draw(len(rows)))


def _height(lines: Iterable[Text], console: Console) -> int:
    """The number of lines that *lines* take once they are wrapped."""
    return sum(len(line.wrap(console, console.width)) for line in lines)


def _told(rows: Sequence[ReferenceInfo]) -> dict[Key, list[str]]:
    return {(row.worker, row.rref): cells(row) for row in rows}


def _picture(
    snapshot: Snapshot,
    rows: Sequence[ReferenceInfo],
    before: dict[Key, list[str]] | None,
    console: Console,
    room: int,
) -> Group:
    there = {(row.worker, row.rref) for row in rows}
    old = before if before is not None else _told(rows)
    gone = [told for key, told in old.items() if key not in there]
    shown = list(rows[: max(1, room)])
    gone = gone[: max(0, room - len(shown))]
    head = Text(f"{snapshot.system}   {time.strftime('%H:%M:%S')}   ", style="bold", end="")
    head.append("+ new   * changed   - gone   Ctrl-C ends", style=QUIET)
    parts: list[Text] = list(summary(snapshot, rows))
    left = len(rows) - len(shown)
    if left:
        parts.insert(0, Text(f"... {left} rows more: filter or sort them", style=QUIET))
    if console.width < WIDEST:
        parts.insert(0, Text(LEGEND, style=QUIET, no_wrap=True, overflow="ellipsis"))
    return Group(head, Text(""), table(shown, console.width, old, gone), *parts)

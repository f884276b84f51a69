"""The picture of `farref top`: endpoints, objects and events, as many as there is room for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table

from ..actors.inspect.why import seconds_text, size_text
from ..console import Text
from ..plurals import counted
from ..refs.table import BAD, QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from .figures import EndpointFigures, Figures

SORTS: dict[str, Callable[[EndpointFigures], float]] = {
    "calls/s": lambda each: -(each.calls or 0),
    "p99": lambda each: -(each.p99 or 0),
    "queue": lambda each: -each.queue,
    "cpu": lambda each: -(each.cpu or 0),
    "memory": lambda each: -each.memory,
    "objects": lambda each: -each.objects,
    "name": lambda _: 0,
}
"""The orders of the endpoints; of equal ones the name decides."""
ALL = 1_000_000
"""Lines, where there is no screen."""
PANES = ("all", "endpoints", "objects", "newest", "who holds what", "events")


@dataclass
class TopView:
    """What the user has chosen to see."""

    pane: str = "all"
    sort: str = "calls/s"
    search: str = ""
    """Only rows with this text in a name, a type or a line."""
    typing: bool = False
    """The keys go to `search`."""
    first: int = 0
    """The number of the first row that is shown, of the pane alone."""
    rows: int = field(default=0, init=False)
    """How many rows the pane had when it was drawn last."""

    def press(self, key: str) -> bool:
        """Take one *key*. Returns false if it ends the command."""
        if self.typing:
            if key in ("\r", "\n", "\x1b"):
                self.typing = False
                self.search = "" if key == "\x1b" else self.search
            else:
                self.search = self.search[:-1] if key in ("\x7f", "\b") else self.search + key
            return True
        match key:
            case "q":
                return False
            case "/":
                self.typing, self.search = True, ""
            case "\x1b":
                self.search, self.pane, self.first = "", "all", 0
            case "\t" | "p":
                after = PANES.index(self.pane) + 1
                self.pane, self.first = PANES[after % len(PANES)], 0
            case "s":
                orders = list(SORTS)
                self.sort = orders[(orders.index(self.sort) + 1) % len(orders)]
            case "down" | "j":
                self.first = min(self.first + 1, max(0, self.rows - 1))
            case "up" | "k":
                self.first = max(self.first - 1, 0)
        return True

    def has(self, *texts: str) -> bool:
        """Whether one of *texts* has the text that the user searches for."""
        return any(self.search.lower() in text.lower() for text in texts)


def rate(value: float | None) -> str:
    """*value* a second, in few digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def latency(seconds: float | None) -> str:
    """*seconds*, in few digits."""
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else seconds_text(seconds)


def picture(figures: Figures, view: TopView, width: int, height: int) -> Group:
    """The figures in *width* columns and *height* lines."""
    parts: list[RenderableType] = [_head(figures)]
    panes = {
        "endpoints": _endpoints,
        "objects": _objects,
        "newest": _newest,
        "who holds what": _holds,
        "events": _events,
    }
    room = height - 3
    if view.pane == "all":
        shown = ["endpoints", "objects", "events"]
        wanted = [len(panes[name](figures, view, width)[1]) for name in shown]
        rooms = _shares(wanted, room - 3 * len(shown))
    else:
        shown, rooms = [view.pane], [room - 3]
    for name, most in zip(shown, rooms, strict=True):
        table, rows = panes[name](figures, view, width)
        first = 0 if view.pane == "all" else min(view.first, max(0, len(rows) - most))
        view.rows = len(rows)
        for row in rows[first : first + most]:
            table.add_row(*row)
        left = len(rows) - first - most
        title = Text(f"{name}", style="bold")
        title.append(f"  {len(rows)}" + (f", {left} more below" if left > 0 else ""), style=QUIET)
        parts += [Text(), title, table if rows else Text("none", style=QUIET)]
    if height < ALL:
        parts.append(_foot(view, width))
    return Group(*parts)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many rows each pane gets: what it wants, or half of what is left, but 2 at least."""
    shares = []
    for number, rows in enumerate(wanted):
        later = sum(min(each, 2) for each in wanted[number + 1 :])
        last = number == len(wanted) - 1
        most = (
            room
            if last
            else max(2, min(room - later, max(room // 2, room - sum(wanted[number + 1 :]))))
        )
        shares.append(max(1, min(rows, most)))
        room -= min(rows, most)
    return shares


def _head(figures: Figures) -> Text:
    endpoints = figures.endpoints
    calls = sum(each.calls or 0 for each in endpoints)
    deaths = sum(event.kind == "death" for event in figures.events)
    text = Text(figures.system, style="bold", no_wrap=True, overflow="ellipsis")
    text.append(f"   {time.strftime('%H:%M:%S', time.localtime(figures.time))}", style=QUIET)
    text.append(
        f"   {counted(figures.hosts, 'host')}, {counted(len(endpoints), 'endpoint')}, "
        f"{counted(sum(each.objects for each in endpoints), 'object')}; {rate(calls)} calls/s, "
        f"{counted(sum(each.queue for each in endpoints), 'request')} waiting",
        style=QUIET,
    )
    if deaths:
        text.append(f", {counted(deaths, 'death')}", style=BAD)
    if figures.refused:
        text.append(f", {counted(figures.refused, 'message')} refused", style=BAD)
    return text


def _foot(view: TopView, width: int) -> Text:
    if view.typing:
        said = f" search: {view.search}_   Enter keeps it, Esc drops it"
    else:
        found = f"only {view.search!r}   " if view.search else ""
        said = f" {found}/ search   s sort: {view.sort}   Tab {view.pane}   q quit"
    return Text(said[:width].ljust(width), style="reverse")


def _table(width: int, *columns: tuple[str, str]) -> Table:
    """A table with these *columns*: titles, each with ``left``, ``right`` or ``rest``."""
    made = Table(box=None, padding=(0, 1, 0, 0), header_style=f"bold {QUIET}", width=width)
    for title, how in columns:
        made.add_column(
            title,
            justify="right" if how == "right" else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if how == "rest" else None,
        )
    return made


Rows = list[list[Text]]


def _endpoints(figures: Figures, view: TopView, width: int) -> tuple[Table, Rows]:
    several = figures.hosts > 1
    columns = [("endpoint", "rest"), ("calls/s", "right"), ("p50", "right"), ("p99", "right")]
    columns += [("queue", "right"), ("cpu", "right"), ("memory", "right"), ("objects", "right")]
    wide = width >= 100
    if wide:
        columns += [("references", "right"), ("in flight", "right"), ("threads", "right")]
        columns += [("errors/s", "right")]
    if several and width >= 120:
        columns.insert(1, ("host", "left"))
    rows: Rows = []
    for each in sorted(figures.endpoints, key=lambda each: (SORTS[view.sort](each), each.name)):
        if not view.has(each.name, each.host):
            continue
        if each.silent:
            rows.append([Text(f"{each.name}: {each.silent}", style=BAD)])
            continue
        cpu = "" if each.cpu is None else f"{each.cpu:.0%}"
        said = [each.name, rate(each.calls), latency(each.p50), latency(each.p99)]
        said += [str(each.queue or ""), cpu, size_text(each.memory), f"{each.objects:,}"]
        if wide:
            said += [f"{each.references:,}", str(each.in_flight or ""), str(each.threads)]
            said += [rate(each.errors) if each.errors else ""]
        if several and width >= 120:
            said.insert(1, each.host)
        row = [Text(each) for each in said]
        if each.queue:
            row[said.index(str(each.queue))].stylize("bold")
        rows.append(row)
    return _table(width, *columns), rows


def _objects(figures: Figures, view: TopView, width: int) -> tuple[Table, Rows]:
    table = _table(
        width, ("objects", "right"), ("type", "left"), ("owner", "left"), ("created at", "rest")
    )
    rows = [
        [Text(f"{each.count:,}"), Text(each.type), Text(each.owner), Text(each.site, style=QUIET)]
        for each in figures.objects
        if view.has(each.type, each.owner, each.site)
    ]
    return table, rows


def _newest(figures: Figures, view: TopView, width: int) -> tuple[Table, Rows]:
    table = _table(
        width,
        *(("reference", "left"), ("type", "left"), ("age", "right"), ("held by", "right")),
        ("created at", "rest"),
    )
    rows = [
        [
            Text(each.rref),
            Text(each.type),
            Text(seconds_text(each.age)),
            Text(str(each.holders)),
            Text(each.site, style=QUIET),
        ]
        for each in figures.newest
        if view.has(each.rref, each.type, each.site)
    ]
    return table, rows


def _holds(figures: Figures, view: TopView, width: int) -> tuple[Table, Rows]:
    table = _table(width, ("holder", "left"), ("objects", "right"), ("of", "rest"))
    rows = [
        [Text(holder), Text(f"{count:,}"), Text(owner)]
        for holder, owner, count in sorted(figures.holds, key=lambda each: -each[2])
        if view.has(holder, owner)
    ]
    return table, rows


def _events(figures: Figures, view: TopView, width: int) -> tuple[Table, Rows]:
    table = _table(width, ("time", "left"), ("endpoint", "left"), ("event", "rest"))
    rows = []
    for event in figures.events:
        if view.has(event.endpoint, event.text):
            when = time.strftime("%H:%M:%S", time.localtime(event.time))
            text = f"died: {event.text}" if event.kind == "death" else event.text
            rows.append([Text(when, style=QUIET), Text(event.endpoint), Text(text, style=BAD)])
            if view.pane == "events":
                details = event.details.rstrip().splitlines()
                rows += [[Text(), Text(), Text(line, style=QUIET)] for line in details]
    return table, rows

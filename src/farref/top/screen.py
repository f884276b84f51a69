"""The picture of `farref top`: endpoints, objects and events, as many as there is room for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from ..actors.inspect.overview import NewObject
from ..actors.inspect.why import seconds_text, size_text
from ..console import Text
from ..plurals import counted
from ..refs.table import BAD, QUIET
from .figures import EndpointFigures, Event, Figures, ObjectFigures, StreamFigures

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
    """The number of the first row that is shown, of the pane alone. `picture` keeps it within."""
    page: int = 1
    """How many rows of the pane alone were shown."""
    panes: Sequence[str] = field(default_factory=lambda: PANES)
    sorts: Sequence[str] = tuple(SORTS)

    def press(self, key: str) -> bool:
        """Take one *key*. Returns false if it ends the command."""
        if self.typing:
            if key in ("\r", "\n", "\x1b"):
                self.typing = False
                self.search = "" if key == "\x1b" else self.search
            elif key in ("\x7f", "\b"):
                self.search = self.search[:-1]
            elif len(key) == 1:  # no arrow
                self.search += key
            return True
        match key:
            case "q":
                return False
            case "/":
                self.typing, self.search = True, ""
            case "\x1b":
                self.search, self.pane, self.first = "", self.panes[0], 0
            case "\t" | "p":
                self.pane, self.first = _after(self.pane, self.panes), 0
            case "s":
                self.sort = _after(self.sort, self.sorts)
            case "down" | "j":
                self.first += 1
            case "up" | "k":
                self.first = max(self.first - 1, 0)
            case "page down" | " ":
                self.first += self.page
            case "page up" | "b":
                self.first = max(self.first - self.page, 0)
        return True

    def shown(self, items: Sequence[Any], room: int) -> Sequence[Any]:
        """The *items* of the pane alone for which there is *room*, after scrolling."""
        self.page = room
        self.first = min(self.first, max(0, len(items) - room))
        return items[self.first : self.first + room]

    def has(self, *texts: str) -> bool:
        """Whether one of *texts* has the text that the user searches for."""
        return any(self.search.lower() in text.lower() for text in texts)


def _after(name: str, names: Sequence[str]) -> str:
    return names[(names.index(name) + 1) % len(names)]


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
    parts: list[RenderableType] = [head(figures)]
    together = view.pane == "all"
    names = [each for each in TOGETHER if each != "streams" or figures.streams]
    shown = [MAKERS[name](figures, view, width) for name in (names if together else [view.pane])]
    room = height - 3 - 3 * len(shown)
    rooms = _shares([len(pane.items) for pane in shown], room) if together else [room]
    for pane, most in zip(shown, rooms, strict=True):
        count = len(pane.items)
        items = pane.items[:most] if together else view.shown(pane.items, most)
        left = count - most - (0 if together else view.first)
        title = Text(pane.title, style="bold")
        title.append(f"  {count}" + (f", {left} more below" if left > 0 else ""), style=QUIET)
        parts += [Text(), title, pane.table(items, width) if count else Text("none", style=QUIET)]
    if height < ALL:
        parts.append(foot(view, width))
    return Group(*parts)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many rows each pane gets: what it wants, or half of what is left, but 2 at least."""
    shares = []
    for number, rows in enumerate(wanted):
        later = wanted[number + 1 :]
        most = min(max(room // 2, room - sum(later)), room - sum(min(each, 2) for each in later))
        most = min(rows, max(2, most) if later else most)
        shares.append(max(1, most))
        room -= most
    return shares


def head(figures: Figures) -> Text:
    """The system as a whole, in one line."""
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


def foot(view: TopView, width: int) -> Text:
    """The last line: what the keys do."""
    if view.typing:
        said = f" search: {view.search}_   Enter keeps it, Esc drops it"
    else:
        found = f"only {view.search!r}   " if view.search else ""
        said = f" {found}/ search   s sort: {view.sort}   Tab {view.pane}   q quit"
    return Text(said[:width].ljust(width), style="reverse")


@dataclass(frozen=True)
class Pane:
    """One table: what it has, and how a row of it is made, as only some are shown."""

    title: str
    columns: Sequence[tuple[str, str]]
    """Titles, each with ``left``, ``right`` or ``rest``."""
    items: Sequence[Any]
    row: Callable[[Any], Iterable[Text]]

    def table(self, items: Iterable[Any], width: int) -> Table:
        made = Table(box=None, padding=(0, 1, 0, 0), header_style=f"bold {QUIET}", width=width)
        for title, how in self.columns:
            made.add_column(
                title,
                justify="right" if how == "right" else "left",
                no_wrap=True,
                overflow="ellipsis",
                ratio=1 if how == "rest" else None,
            )
        for item in items:
            made.add_row(*self.row(item))
        return made


def _endpoints(figures: Figures, view: TopView, width: int) -> Pane:
    shown = [
        (title, how, tell)
        for title, how, least, tell in COLUMNS
        if width >= least and (title != "host" or figures.hosts > 1)
    ]

    def row(each: EndpointFigures) -> Iterable[Text]:
        if each.silent:
            return [Text(f"{each.name}: {each.silent}", style=BAD)]
        return (
            Text(tell(each), style="bold" if title == "queue" else "") for title, _, tell in shown
        )

    order = SORTS[view.sort]
    found = [each for each in figures.endpoints if view.has(each.name, each.host)]
    found.sort(key=lambda each: (order(each), each.name))
    return Pane("endpoints", [(title, how) for title, how, _ in shown], found, row)


COLUMNS: tuple[tuple[str, str, int, Callable[[EndpointFigures], str]], ...] = (
    ("endpoint", "rest", 0, lambda each: each.name),
    ("host", "left", 120, lambda each: each.host),
    ("calls/s", "right", 0, lambda each: rate(each.calls)),
    ("p50", "right", 0, lambda each: latency(each.p50)),
    ("p99", "right", 0, lambda each: latency(each.p99)),
    ("queue", "right", 0, lambda each: str(each.queue or "")),
    ("cpu", "right", 0, lambda each: "" if each.cpu is None else f"{each.cpu:.0%}"),
    ("memory", "right", 0, lambda each: size_text(each.memory)),
    ("objects", "right", 0, lambda each: f"{each.objects:,}"),
    ("references", "right", 100, lambda each: f"{each.references:,}"),
    ("in flight", "right", 100, lambda each: str(each.in_flight or "")),
    ("threads", "right", 100, lambda each: str(each.threads)),
    ("errors/s", "right", 100, lambda each: rate(each.errors or None)),
)
"""Of the endpoints: title, place, the least width of a screen that has it, and text. `host` only if
there are several."""


def objects_pane(objects: Iterable[ObjectFigures], view: TopView) -> Pane:
    columns = ("objects", "right"), ("type", "left"), ("owner", "left"), ("created at", "rest")
    found = [each for each in objects if view.has(each.type, each.owner, each.site)]

    def row(each: ObjectFigures) -> Iterable[Text]:
        texts = map(Text, (f"{each.count:,}", each.type, each.owner))
        return [*texts, Text(each.site, style=QUIET)]

    return Pane("objects", columns, found, row)


def _streams(figures: Figures, view: TopView, _: int) -> Pane:
    columns = ("stream", "left"), ("owner", "left"), ("items", "right"), ("items/s", "right")
    found = [each for each in figures.streams if view.has(each.rref, each.owner, each.state)]

    def row(each: StreamFigures) -> Iterable[Text]:
        texts = each.rref, each.owner, f"{each.items:,}", rate(each.rate), f"it {each.state}"
        return map(Text, texts)

    return Pane("streams", (*columns, ("now", "rest")), found, row)


def _newest(figures: Figures, view: TopView, _: int) -> Pane:
    columns = ("reference", "left"), ("type", "left"), ("age", "right"), ("held by", "right")
    found = [each for each in figures.newest if view.has(each.rref, each.type, each.site)]

    def row(each: NewObject) -> Iterable[Text]:
        texts = map(Text, (each.rref, each.type, seconds_text(each.age), str(each.holders)))
        return [*texts, Text(each.site, style=QUIET)]

    return Pane("newest", (*columns, ("created at", "rest")), found, row)


def holds_pane(holds: Iterable[tuple[str, str, int]], view: TopView) -> Pane:
    """Who holds what: see `Figures.holds`."""
    columns = ("holder", "left"), ("objects", "right"), ("of", "rest")
    found = [each for each in holds if view.has(*each[:2])]
    found.sort(key=lambda each: -each[2])

    def row(each: tuple[str, str, int]) -> Iterable[Text]:
        holder, owner, count = each
        return map(Text, (holder, f"{count:,}", owner))

    return Pane("who holds what", columns, found, row)


def _events(figures: Figures, view: TopView, _: int) -> Pane:
    columns = ("time", "left"), ("endpoint", "left"), ("event", "rest")
    found: list[tuple[Event, str | None]] = []
    for event in figures.events:
        if view.has(event.endpoint, event.text):
            lines = event.details.rstrip().splitlines() if view.pane == "events" else []
            found += [(event, None), *((event, line) for line in lines)]

    def row(item: tuple[Event, str | None]) -> Iterable[Text]:
        event, line = item
        if line is not None:
            return [Text(), Text(), Text(line, style=QUIET)]
        when = time.strftime("%H:%M:%S", time.localtime(event.time))
        text = f"died: {event.text}" if event.kind == "death" else event.text
        return [Text(when, style=QUIET), Text(event.endpoint), Text(text, style=BAD)]

    return Pane("events", columns, found, row)


MAKERS: dict[str, Callable[[Figures, TopView, int], Pane]] = {
    "endpoints": _endpoints,
    "objects": lambda figures, view, _: objects_pane(figures.objects, view),
    "streams": _streams,
    "newest": _newest,
    "who holds what": lambda figures, view, _: holds_pane(figures.holds, view),
    "events": _events,
}
TOGETHER = ("endpoints", "streams", "objects", "events")
"""The tables of the first picture; `streams` only if there are any."""
PANES: tuple[str, ...] = ("all", *MAKERS)

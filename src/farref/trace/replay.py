"""The shipped machines, run again on what a trace says that they were given.

A recording has every input of every endpoint (see `recording.tracing`), so a `Context` that is
given them in their order has, after each, the tables that the endpoint had. That is checked: each
message that was sent must be one that the machine wants sent. Where it is not (the trace is of
another version, or has a hole) the tables of that endpoint are not shown from there on, and it is
said why: there are true tables or none.

`Steps` goes to any row of a story, in either direction: it keeps the tables of every so many
records, and runs on from there.
"""

from __future__ import annotations

import pickle
from collections import deque
from typing import TYPE_CHECKING

from ..actors.recording.tables_json import SnapshotError, context_of
from ..protocol.context import Context
from ..protocol.effects import Send
from ..protocol.errors import FarrefError
from ..protocol.sharing import DISCIPLINES
from ..tracetest.show import number_of_lines, table_lines
from .inputs import InputError, input_of, message_of, perform, worker_of
from .progress import silent

if TYPE_CHECKING:
    from ..protocol.effects import Effect
    from .progress import Progress
    from .records import Record
    from .story import Story

EVERY = 1000
"""Records from one remembered state to the next, or more, where the tables have more lines."""


class Player:
    """The endpoints of a trace, as far as it has been played."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.broken: dict[str, str] = {}
        """Endpoints whose tables are not known any more, and why."""
        self._wanted: dict[str, deque[tuple[str, str]]] = {}
        """What the machines want sent and was not yet: to whom, and what."""

    def take(self, record: Record) -> None:
        """One more record."""
        at = record.at
        if record.kind == "join":
            self._join(record)
            return
        context = self.contexts.get(at)
        if context is None or at in self.broken:
            return
        try:
            self._play(at, context, record)
        except FarrefError:
            return  # the machine refused it then, too, and changed nothing
        except (InputError, AssertionError, KeyError, ValueError) as error:
            self.broken[at] = f"{_step(record)} makes no sense to these machines: {error}"

    def _join(self, record: Record) -> None:
        at, sharing = record.at, record.text("sharing")
        self.broken.pop(at, None)
        self._wanted[at] = deque()
        if sharing not in DISCIPLINES:
            self.broken[at] = "it was recorded by an older farref, which did not record the inputs"
            return
        try:
            me = worker_of(at)
            if "tables" not in record.fields:
                self.contexts[at] = Context(me, sharing)  # type: ignore[arg-type]
            elif record.fields["tables"] is None:
                self.broken[at] = "it had too many references to record them when tracing began"
            else:
                tables = record.fields["tables"]
                self.contexts[at] = context_of(me, sharing, tables, worker_of)
        except (SnapshotError, ValueError) as error:
            self.broken[at] = f"its first tables cannot be read: {error}"

    def _play(self, at: str, context: Context, record: Record) -> None:
        fields = input_of(record)
        if fields is not None:
            self._want(at, perform(context, fields, worker_of))
        if record.kind == "send":
            said = _said(record.peer, message_of(record.fields, worker_of))
            if said not in self._wanted[at]:
                raise InputError(f"they would not send {said[1]} to {said[0]}")
            self._wanted[at].remove(said)

    def _want(self, at: str, effects: list[Effect]) -> None:
        self._wanted[at].extend(
            _said(f"{each.to.name}@{each.to.incarnation:x}", each.message)
            for each in effects
            if isinstance(each, Send)
        )

    def tables(self, at: str) -> list[str]:
        """The tables of one endpoint, one entry a line, or why they are not known."""
        if at in self.broken:
            return [f"(not known: {self.broken[at]})"]
        context = self.contexts.get(at)
        return table_lines(context) if context is not None else ["(it does not record yet)"]

    @property
    def lines(self) -> int:
        """How many lines all tables have."""
        return sum(map(number_of_lines, self.contexts.values()))

    def length(self, at: str) -> int:
        """How many lines `tables` has."""
        context = self.contexts.get(at)
        return 1 if context is None or at in self.broken else number_of_lines(context)


def _said(to: str, message: object) -> tuple[str, str]:
    """What a message says, without what is the user's."""
    fields = ("rref", "fork", "forks", "call", "alias", "target")
    said = {name: getattr(message, name, None) for name in fields}
    return to, f"{type(message).__name__} {said}"


def _step(record: Record) -> str:
    what = record.text("do") or record.message or record.peer
    return f"the step {' '.join(filter(None, (record.kind, what)))!r}"


class Steps:
    """The tables at each row of a story."""

    def __init__(self, story: Story, progress: Progress = silent) -> None:
        self.story = story
        self._player = Player()
        self._played = 0
        self._kept: dict[int, bytes] = {0: pickle.dumps(self._player)}
        self._progress = progress

    def at(self, row: int) -> Player:
        """Everybody's tables when *row*, and what came of it at once, has happened."""
        self._go(self.story.spans[row][1] if self.story.rows else len(self.story.records))
        return self._player

    def _go(self, count: int) -> None:
        """Have played the first *count* records."""
        if count < self._played or max(k for k in self._kept if k <= count) > self._played:
            start = max(each for each in self._kept if each <= count)
            # Our own pickle, made a moment ago: nothing of it came from elsewhere.
            self._player, self._played = pickle.loads(self._kept[start]), start  # noqa: S301
        begun = self._played
        for record in self.story.records[begun:count]:
            self._player.take(record)
            self._played += 1
            self._progress(self._played - begun, count - begun)
            if self._played % EVERY == 0 and self._played not in self._kept:
                since = self._played - max(k for k in self._kept if k < self._played)
                if since >= self._player.lines:  # all of them take as much as the trace, about
                    self._kept[self._played] = pickle.dumps(self._player)

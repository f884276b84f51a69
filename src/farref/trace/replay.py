"""Runs the shipped machines again on a trace's recorded inputs.

A recording has every input of every endpoint (see `recording.tracing`). A `Context` that gets these
inputs in their order therefore has, after each, the same tables as the endpoint had. This is
checked: each sent message must be one that the machine wants sent. If one is not (the trace is of
another version, or has a hole), the tables of that endpoint are hidden from there on, with the
reason: either the tables are true, or there are none.
"""

from __future__ import annotations

from collections import deque

from ..actors.recording.tables_json import SnapshotError, context_of
from ..actors.recording.tracing import spell, worker_of
from ..printable import printable
from ..protocol.context import Context
from ..protocol.effects import Send
from ..protocol.errors import FarrefError
from ..protocol.sharing import DISCIPLINES
from ..tracetest.show import number_of_lines, table_lines
from .inputs import TraceInputError, input_of, message_of, perform
from .records import Record


class Player:
    """The endpoints of a trace, up to the last played record."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.broken: dict[str, str] = {}
        """Endpoints whose tables are unknown from now on, and the reason for each."""
        self._wanted: dict[str, deque[tuple[str, str]]] = {}
        """Messages that the machines want sent and that are still unsent: receiver and text."""

    def take(self, record: Record) -> None:
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
            return  # the machine refused this input in the recording, too, and changed nothing
        except Exception as error:  # a machine may raise any, for the fields of a strange file
            self.broken[at] = f"this farref cannot replay {_step(record)}: {error}"

    def _join(self, record: Record) -> None:
        at, sharing = record.at, record.text("sharing")
        self.broken.pop(at, None)
        self._wanted[at] = deque()
        try:
            me = worker_of(at)
            if sharing not in DISCIPLINES:
                self.broken[at] = f"{sharing!r} is not a way of sharing"
            elif "tables" not in record.fields:
                self.contexts[at] = Context(me, sharing)
            elif record.fields["tables"] is None:
                self.broken[at] = "it had too many references to record them when tracing began"
            else:
                tables = record.fields["tables"]
                self.contexts[at] = context_of(me, sharing, tables, worker_of)
        except (SnapshotError, ValueError, RecursionError) as error:
            self.broken[at] = f"its first tables cannot be read: {error}"

    def _play(self, at: str, context: Context, record: Record) -> None:
        fields = input_of(record)
        if fields is not None:
            self._wanted[at].extend(
                _said(spell(each.to), each.message)
                for each in perform(context, fields, worker_of)
                if isinstance(each, Send)
            )
        if record.kind == "send":
            said = _said(record.peer, message_of(record.fields, worker_of))
            if said not in self._wanted[at]:
                raise TraceInputError(f"a replay does not send {said[1]} to {said[0]}")
            self._wanted[at].remove(said)

    def tables(self, at: str) -> list[str]:
        """The tables of one endpoint, one entry a line, or the reason why they are unknown."""
        if at in self.broken:
            return [printable(f"(not known: {self.broken[at]})")]
        context = self.contexts.get(at)
        return (
            list(map(printable, table_lines(context)))
            if context is not None
            else ["(it does not record yet)"]
        )

    def length(self, at: str) -> int:
        """The number of lines of `tables`."""
        context = self.contexts.get(at)
        return 1 if context is None or at in self.broken else number_of_lines(context)


def _said(to: str, message: object) -> tuple[str, str]:
    """The text of a message without its user content."""
    fields = ("rref", "fork", "forks", "call", "alias", "target")
    said = {name: getattr(message, name, None) for name in fields}
    return to, f"{type(message).__name__} {said}"


def _step(record: Record) -> str:
    what = record.text("do") or record.message or record.peer
    return f"the step {' '.join(filter(None, (record.kind, what)))!r}"

"""Recording what the protocol does: one line for each step of each endpoint.

Every endpoint records its own steps, in its own order; `steps` says what there is in a line. With
``System(trace=folder)`` they go to a file of the endpoint's own (see `tracefile`),
``<folder>/<name>-<incarnation>.jsonl``: no message of the trace's own travels, so tracing does not
change what it watches. Somebody who watches a running system gets them by message instead (see
`watching`).

**What it costs.** Off: nothing, there is no tracer, and the machines themselves are what the shell
calls (see `recording`). On: a step is written by the thread that takes it, under the endpoint's
lock, before anything comes of it: encoding and storing a line take about a microsecond together. So
a process that is killed takes no step along that it took.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from ..protocol.effects import Confirmed, Fail, Free, Lose, Run
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import Call, Cargo, Create, Invoke, Reply, Returned, Tell
from . import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.effects import Effect
    from ..protocol.messages import ForkRequest, Message
    from ..protocol.sharing import Sharing

log = logging.getLogger(__name__)

NOTHING: dict[str, Any] = {}
"""The tables of an endpoint that knows nothing yet."""
_LOADED = frozenset((Call, Create, Invoke, Reply, Tell))
"""Messages with a cargo."""


class Sink(Protocol):
    """Where lines go. Called under the endpoint's lock."""

    def write(self, line: bytes) -> None:
        """Take one line, with its newline. Raises `OSError` if it can take no more."""

    def close(self) -> None:
        """No more will come."""


class Tracer:
    """Records the steps of one endpoint. Everything under its lock, in any thread."""

    def __init__(self, me: WorkerId, clock: Callable[[], float] = time.time) -> None:
        """*clock* says the time, in seconds."""
        self.me = me
        self.clock = clock
        self._counts: dict[tuple[type, WorkerId], int] = {}
        self._by: tuple[Message, steps.Input] | None = None
        """A message that is all that an input came to, while it has not been sent."""
        self.sinks: tuple[Sink, ...] = ()

    # ---- where it goes

    def begin(self, sink: Sink, sharing: Sharing, tables: dict[str, Any] | None = NOTHING) -> None:
        """Record to *sink*, from the start, or anew after a gap.

        *tables*: what the endpoint knows already (see `tables_json`).
        """
        if sink not in self.sinks:
            self.sinks = (*self.sinks, sink)
        join = steps.Join(self.clock(), self.me, steps.FORMAT, sharing, tables)
        self._write(sink, steps.encode(join) + b"\n")

    def remove(self, sink: Sink) -> None:
        """Record to *sink* no more."""
        if sink in self.sinks:
            self.sinks = tuple(each for each in self.sinks if each is not sink)
            sink.close()

    def close(self) -> None:
        """Record no more."""
        self.note(steps.Leave(self.clock(), self.me))
        for sink in self.sinks:
            self.remove(sink)

    # ---- what happened

    def note(self, step: steps.Step) -> None:
        """This is the next step."""
        line = steps.encode(step) + b"\n"
        for sink in self.sinks:
            self._write(sink, line)

    def sent(
        self,
        to: WorkerId,
        message: Message,
        number: int | None = None,
        relays: CallId | None = None,
    ) -> None:
        """*message* was handed to delivery for *to*; it passes on the request *relays*, if any.

        *number*: of this message to *to*, from 0, where that is counted elsewhere.
        """
        by = None
        if self._by is not None and self._by[0] is message:
            by, self._by = steps.kind_of(self._by[1]), None
        if number is None:
            number = self._count(steps.Send, to)
        said = _said(message)
        self.note(steps.Send(self.clock(), self.me, to, number + 1, said, by, relays))

    def received(self, sender: WorkerId, message: Message, number: int | None = None) -> None:
        """*message* of *sender* takes effect now."""
        if self._by is not None:
            self._settle()
        if number is None:
            number = self._count(steps.Receive, sender)
        said = _said(message)
        self.note(steps.Receive(self.clock(), self.me, sender, number + 1, said))

    def did(self, step: steps.Input) -> None:
        """The user's code, or the shell, gives the machines this input."""
        if self._by is not None:
            self._settle()
        self.note(step)

    def did_say(self, step: steps.Input, message: Message) -> None:
        """An input that comes to nothing but *message*, which is about to be sent."""
        if self._by is not None:
            self._settle()
        self._by = message, step

    def known(self, message: ForkRequest | Create, holder: WorkerId) -> None:
        """The owner counts a fork from now on."""
        self.note(steps.Known(self.clock(), self.me, message.rref, message.fork, holder))

    def effect(self, effect: Effect) -> None:
        """A step that is no message."""
        if type(effect) not in _STEPS:  # most are messages: that is found out cheaply
            return
        now, me = self.clock(), self.me
        match effect:
            case Run(sender, Call() | Create() | Invoke() as request):
                self.note(steps.Run(now, me, sender, _label(request.cargo.payload)))
            case Free(rref):
                self.note(steps.Free(now, me, rref))
            case Confirmed(rref):
                self.note(steps.Confirmed(now, me, rref))
            case Lose(rref, why):
                self.note(steps.Lose(now, me, rref, why.name.lower()))
            case Fail(call, worker, _):
                self.note(steps.Fail(now, me, call, worker))
            case _:
                pass  # a fetch runs nothing of the user's

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> None:
        """The death of *worker* became known here; it may not have got these messages."""
        if self._by is not None:
            self._settle()
        tables = [each for each in unacknowledged if isinstance(each, Reply | Returned)]
        lost = tuple(report for each in tables for report in each.loans if report.borrowers)
        self.note(steps.Died(self.clock(), self.me, worker, lost))

    def buried(self, worker: WorkerId) -> None:
        """What the dead *worker* held, or was owed, is released here now."""
        if self._by is not None:
            self._settle()
        self.note(steps.Buried(self.clock(), self.me, worker))

    # ---- inside

    def _settle(self) -> None:
        """Another input comes, and the message of the last one has not been sent."""
        if self._by is not None:
            _, step = self._by
            self._by = None
            self.note(step)

    def _count(self, kind: type[steps.Step], peer: WorkerId) -> int:
        """How many of that kind there were, to or of *peer*, before this one."""
        number = self._counts.get((kind, peer), 0)
        self._counts[kind, peer] = number + 1
        return number

    def _write(self, sink: Sink, line: bytes) -> None:
        try:
            sink.write(line)
        except OSError as error:
            log.error("%s is not recorded any more: %s", self.me, error)  # noqa: TRY400 - no fault of ours
            self.remove(sink)


_STEPS = frozenset((Run, Free, Confirmed, Lose, Fail))


def _said(message: Message) -> Message:
    """*message* with a label for what is the user's."""
    if type(message) not in _LOADED:
        return message
    cargo: Cargo = message.cargo  # type: ignore[union-attr]  # it is loaded
    payload = None if cargo.payload is None else _label(cargo.payload)
    return replace(message, cargo=Cargo(payload=payload, descriptors=cargo.descriptors))


def _label(payload: object) -> str:
    """What the sending shell called the content: a function's name, or a message's type."""
    match getattr(payload, "tag", None):
        case (str() as verb, _, str() as name):
            label = f"{verb} {name}"
        case str() as label:
            pass
        case _:
            return ""
    if not label.isascii():  # a function may be called anything, also what is no text
        label = label.encode("utf-8", "backslashreplace").decode()
    return label


def spell(who: WorkerId | RRefId | ForkId | CallId) -> str:
    """An id in full: ``name@incarnation`` (hexadecimal), or ``name@incarnation/number``."""
    match who:
        case WorkerId(name, incarnation):
            return f"{name}@{incarnation:x}"
        case RRefId(minter, number) | ForkId(minter, number) | CallId(minter, number):
            return f"{spell(minter)}/{number}"

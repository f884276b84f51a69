"""Recording what the protocol does: one line for each step of each endpoint.

Every endpoint records its own steps, in its own order; `steps` says what there is in a line. With
``System(trace=folder)`` they go to a file of the endpoint's own (see `tracefile`),
``<folder>/<name>-<incarnation>.jsonl``: no message of the trace's own travels, so tracing does not
change what it watches. Somebody who watches a running system gets them by message instead (see
`watching`).

**What it costs.** Off: nothing, there is no tracer, and the machines themselves are what the shell
calls (see `recorded`). On: the rows of a step are encoded and stored when it is complete, by the
thread that makes it, under the endpoint's lock and before anybody hears of it: about a microsecond
for each. So a process that is killed takes no step along that anything came of.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from ...protocol.effects import Confirmed, Fail, Free, Lose, Run, Send
from ...protocol.ids import CallId, ForkId, RRefId, WorkerId
from ...protocol.messages import (
    Call,
    Cargo,
    Create,
    Fetch,
    Invoke,
    Reply,
    Returned,
    Tell,
    target_of,
)
from ...serialization.payload import Payload
from .steps import FORMAT, encode, encode_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...protocol.effects import Effect
    from ...protocol.messages import Message
    from ...protocol.sharing import Sharing

log = logging.getLogger(__name__)

NOTHING: dict[str, Any] = {}
"""The tables of an endpoint that knows nothing yet."""
EFFECTS = frozenset((Run, Free, Confirmed, Lose, Fail))
"""Those that are a step of their own."""
RARE = frozenset((Run, Lose, Fail))
"""Those of them that `Tracer.received` does not tell of."""
_LOADED = frozenset((Call, Create, Invoke, Reply, Tell))
"""Messages with a cargo."""


class Sink(Protocol):
    """Where lines go. Called under the endpoint's lock."""

    def store(self, lines: bytes) -> None:
        """Take *lines*, with their newlines. Raises `OSError` if there is no room for them."""

    def close(self) -> None:
        """No more will come."""


class Tracer:
    """Records the steps of one endpoint. Everything under its lock, in any thread."""

    def __init__(
        self, me: WorkerId, clock: Callable[[], float] = time.time, *, gathers: bool = False
    ) -> None:
        """*clock* says the time, in seconds. With *gathers* rows wait for `flush`."""
        self._me = me
        self._clock = clock
        self._counts: dict[tuple[str, WorkerId], int] = {}
        self._by: tuple[Message, str, tuple[Any, ...]] | None = None
        """A message that is all that an input came to, while it has not been sent; its row will say
        so. And the input, which gets a row of its own if it is not sent."""
        self._rows: list[tuple[Any, ...]] = []
        """Of the step that is being made."""
        self._write = self._rows.append if gathers else self._write_now
        self.sinks: tuple[Sink, ...] = ()

    # ---- where it goes

    def begin(self, sink: Sink, sharing: Sharing, tables: dict[str, Any] | None = NOTHING) -> None:
        """Record to *sink*, from the start, or anew after a gap.

        *tables*: what the endpoint knows already (see `tables_json`).
        """
        self._settle()  # which the tables have already
        self.flush()
        if sink not in self.sinks:
            self.sinks = (*self.sinks, sink)
        row = ("join", self._clock(), self._me, FORMAT, sharing, tables)
        self._store(sink, encode(row) + b"\n")

    def remove(self, sink: Sink) -> None:
        """Record to *sink* no more."""
        if sink in self.sinks:
            self.flush()
            self.sinks = tuple(each for each in self.sinks if each is not sink)
            sink.close()

    def close(self) -> None:
        """Record no more."""
        self._write(("leave", self._clock(), self._me))
        for sink in self.sinks:
            self.remove(sink)

    def flush(self) -> None:
        """A step is complete: have its rows stored, before anybody hears of it."""
        if not self._rows:
            return
        lines = encode_lines(self._rows)
        self._rows.clear()
        for sink in self.sinks:
            self._store(sink, lines)

    # ---- what happened

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
            _, by, _ = self._by
            self._by = None
        if number is None:
            number = self._count("send", to)
        if type(message) in _LOADED:
            message = _labelled(message)
        self._write(("send", self._clock(), self._me, to, number + 1, message, by, relays))

    def received(
        self,
        sender: WorkerId,
        message: Message,
        number: int | None = None,
        effects: Sequence[Effect] = (),
    ) -> None:
        """*message* of *sender* takes effect now, and comes to *effects*.

        Of those only the `RARE` ones need to be told of, if they are given here.
        """
        if self._by is not None:
            self._settle()
        if number is None:
            number = self._count("receive", sender)
        if type(message) in _LOADED:
            message = _labelled(message)
        then = None
        for effect in effects:
            if isinstance(effect, Confirmed | Free):
                kind = "free" if isinstance(effect, Free) else "confirmed"
                then = [*(then or ()), (kind, effect.rref)]
        self._write(("receive", self._clock(), self._me, sender, number + 1, message, then))

    def did(self, what: str, *arguments: Any) -> None:
        """The user's code, or the shell, gives the machines this input."""
        if self._by is not None:
            self._settle()
        self._write((what, self._clock(), self._me, *arguments))

    def told(self, effects: list[Effect], whole: bool, what: str, *arguments: Any) -> None:
        """An input that comes to *effects*.

        If it comes to one message, and can be read from that (it is *whole*), it has no row.
        """
        if self._by is not None:
            self._settle()
        if whole and len(effects) == 1 and isinstance(effect := effects[0], Send):
            self._by = effect.message, what, arguments
        else:
            self._write((what, self._clock(), self._me, *arguments))

    def effect(self, effect: Effect) -> None:
        """A step that is no message. Only `EFFECTS` are one; others may be left out."""
        if isinstance(effect, Run):
            if target_of(effect.request) and not isinstance(effect.request, Fetch):
                label = _labelled(effect.request).cargo.payload
                self._write(("run", self._clock(), self._me, effect.sender, label or ""))
        elif isinstance(effect, Free):
            self._write(("free", self._clock(), self._me, effect.rref))
        elif isinstance(effect, Confirmed):
            self._write(("confirmed", self._clock(), self._me, effect.rref))
        elif isinstance(effect, Lose):
            self._write(("lose", self._clock(), self._me, effect.rref, effect.why.name.lower()))
        elif isinstance(effect, Fail):
            self._write(("fail", self._clock(), self._me, effect.call, effect.worker))

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> None:
        """The death of *worker* became known here; it may not have got these messages."""
        tables = [each for each in unacknowledged if isinstance(each, Reply | Returned)]
        lost = [report for each in tables for report in each.loans if report.borrowers]
        self.did("died", worker, lost)

    def buried(self, worker: WorkerId) -> None:
        """What the dead *worker* held, or was owed, is released here now."""
        self.did("buried", worker)
        self._counts = {key: n for key, n in self._counts.items() if key[1] != worker}

    # ---- inside

    def _settle(self) -> None:
        """Another input comes, and the message of the last one has not been sent."""
        if self._by is not None:
            _, what, arguments = self._by
            self._by = None
            self._write((what, self._clock(), self._me, *arguments))

    def _count(self, kind: str, peer: WorkerId) -> int:
        """How many of that kind there were, to or of *peer*, before this one."""
        number = self._counts.get((kind, peer), 0)
        self._counts[kind, peer] = number + 1
        return number

    def _write_now(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        self.flush()

    def _store(self, sink: Sink, lines: bytes) -> None:
        try:
            sink.store(lines)
        except OSError as error:
            log.error("%s is not recorded any more: %s", self._me, error)  # noqa: TRY400 - no fault of ours
            self.remove(sink)


def _labelled(message: Any) -> Any:
    """*message*, one of `_LOADED`, with a label for what is the user's.

    That is what the sending shell called it: a function's name, or a message's type.
    """
    cargo = message.cargo
    payload = cargo.payload
    label = payload.tag if type(payload) is Payload else None
    if label is None:
        label = None if payload is None else ""
    elif type(label) is not str or not label.isascii():
        label = _odd_label(label)
    return replace(message, cargo=Cargo(payload=label, descriptors=cargo.descriptors))


def _odd_label(tag: object) -> str:
    match tag:
        case str() as label:
            pass
        case (str() as verb, _, str() as name):
            label = f"{verb} {name}"
        case _:
            return ""
    return label.encode("utf-8", "backslashreplace").decode()  # names may be no text


def spell(who: WorkerId | RRefId | ForkId | CallId) -> str:
    """An id in full: ``name@incarnation`` (hexadecimal), or ``name@incarnation/number``."""
    match who:
        case WorkerId(name, incarnation):
            return f"{name}@{incarnation:x}"
        case RRefId(minter, number) | ForkId(minter, number) | CallId(minter, number):
            return f"{spell(minter)}/{number}"

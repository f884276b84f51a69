"""Recording the protocol's work: one row for each step of each endpoint.

Every endpoint records its own steps, in its own order; `steps` describes the rows. With
``System(trace=folder)`` the rows go to a file of the endpoint's own (see `tracefile`),
``<folder>/<name>-<incarnation>.jsonl``. The trace sends no messages, so tracing does not change the
traffic that it records. A viewer of a running system gets the rows by message instead (see
`watching`).

The thread that makes a step encodes and stores its rows when the step is complete, under the
endpoint's lock and before any effect of the step is visible. So a killed process never loses a step
that had visible effects. Without recording there is no tracer, and it costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from ...printable import logger
from ...protocol.effects import Confirmed, Effect, Fail, Free, Lose, Run, Send
from ...protocol.ids import CallId, ForkId, RRefId, WorkerId
from ...protocol.messages import (
    Call,
    Cargo,
    Create,
    Fetch,
    Invoke,
    Message,
    Reply,
    Returned,
    Tell,
    target_of,
)
from ...protocol.sharing import Sharing
from ...serialization.payload import Payload

FORMAT = 9
"""The version of the rows, written with each `JoinStep`. A reader refuses every other one."""
encode = msgspec.json.Encoder().encode
"""Encodes a step, or the tuple of its kind and its fields, as a row without a newline."""
encode_lines = msgspec.json.Encoder().encode_lines
"""Encodes several of them, each with its newline."""
log = logger(__name__)

NOTHING: dict[str, Any] = {}
"""The tables of an endpoint that knows nothing yet."""
EFFECTS = frozenset((Run, Free, Confirmed, Lose, Fail))
"""The effects that are a step of their own."""
RARE = frozenset((Run, Lose, Fail))
"""Those of them that `Tracer.received` does not record."""
_LOADED = frozenset((Call, Create, Invoke, Reply, Tell))
"""Messages with a cargo."""


class Sink(Protocol):
    """A place for lines. Called under the endpoint's lock."""

    def store(self, lines: bytes) -> None:
        """Take *lines*, with their newlines. Raises `OSError` if there is no room for them."""

    def close(self) -> None:
        """No more lines will come."""


class Tracer:
    """Records the steps of one endpoint. Any thread calls it, under the endpoint's lock."""

    def __init__(
        self, me: WorkerId, clock: Callable[[], float] = time.time, *, gathers: bool = False
    ) -> None:
        """*clock* gives the time in seconds. With *gathers* rows wait for `flush`."""
        self._me = me
        self._clock = clock
        self._counts: dict[tuple[str, WorkerId], int] = {}
        self._by: tuple[Message, str, tuple[Any, ...]] | None = None
        """An unsent message that is the only result of an input, and that input. The message's row
        will name the input. If the message is not sent, the input gets a row of its own."""
        self._rows: list[tuple[Any, ...]] = []
        """The rows of the unfinished step."""
        self._write = self._rows.append if gathers else self._write_now
        self.sinks: tuple[Sink, ...] = ()

    # ---- the sinks

    def begin(self, sink: Sink, sharing: Sharing, tables: dict[str, Any] | None = NOTHING) -> None:
        """Record to *sink*, from the start, or anew after a gap.

        *tables*: the endpoint's knowledge so far (see `tables_json`).
        """
        self._settle()  # the tables include that input already
        self.flush()
        if sink not in self.sinks:
            self.sinks = (*self.sinks, sink)
        row = ("join", self._clock(), self._me, FORMAT, sharing, tables)
        try:
            sink.store(encode(row) + b"\n")
        except OSError as error:
            self._fail(sink, error)

    def remove(self, sink: Sink) -> None:
        if sink in self.sinks:
            self.flush()
            self.sinks = tuple(each for each in self.sinks if each is not sink)
            sink.close()

    def close(self) -> None:
        self._write(("leave", self._clock(), self._me))
        for sink in self.sinks:
            self.remove(sink)

    def flush(self) -> None:
        """A step is complete: store its rows before any effect of the step is visible."""
        if not self._rows:
            return
        lines = encode_lines(self._rows)
        self._rows.clear()
        for sink in self.sinks:
            try:
                sink.store(lines)
            except OSError as error:
                self._fail(sink, error)

    # ---- the steps

    def sent(
        self,
        to: WorkerId,
        message: Message,
        number: int | None = None,
        relays: CallId | None = None,
    ) -> None:
        """*message* was handed to delivery for *to*. It passes on the request *relays*, if any.

        *number*: the message's number among those to *to*, from 0, if other code counts them.
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
        """*message* of *sender* takes effect now, and has the effects *effects*.

        A caller that gives the effects here records only the `RARE` ones among them by itself.
        """
        if self._by is not None:
            self._settle()
        if number is None:
            number = self._count("receive", sender)
        if type(message) in _LOADED:
            message = _labelled(message)
        then = _then(effects)
        self._write(("receive", self._clock(), self._me, sender, number + 1, message, then))

    def did(self, what: str, *arguments: Any) -> None:
        """Record that the user's code, or the shell, gave the machines the input *what*."""
        if self._by is not None:
            self._settle()
        self._write((what, self._clock(), self._me, *arguments))

    def told(self, effects: list[Effect], whole: bool, what: str, *arguments: Any) -> None:
        """Record the input *what* to the machines, and its *effects*.

        An input needs no row if its only effect is one message that shows all of it (*whole*).
        """
        if whole and len(effects) == 1 and isinstance(effect := effects[0], Send):
            if self._by is not None:
                self._settle()
            self._by = effect.message, what, arguments
        else:
            self.did(what, *arguments)

    def effect(self, effect: Effect) -> None:
        """Record a step that is not a message: one of `EFFECTS`. Others are ignored."""
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

    # ---- deaths

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> None:
        """The death of *worker* became known here; it may not have got these messages."""
        tables = [each for each in unacknowledged if isinstance(each, Reply | Returned)]
        lost = [report for each in tables for report in each.loans if report.borrowers]
        self.did("died", worker, lost)

    def buried(self, worker: WorkerId) -> None:
        """The endpoint now releases the holds and claims of the dead *worker*."""
        self.did("buried", worker)
        self._counts = {key: n for key, n in self._counts.items() if key[1] != worker}

    # ---- inside

    def _settle(self) -> None:
        """Record the last input if its message has not been sent, as another input comes."""
        if self._by is not None:
            _, what, arguments = self._by
            self._by = None
            self._write((what, self._clock(), self._me, *arguments))

    def _count(self, kind: str, peer: WorkerId) -> int:
        number = self._counts.get((kind, peer), 0)
        self._counts[kind, peer] = number + 1
        return number

    def _write_now(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        self.flush()

    def _fail(self, sink: Sink, error: OSError) -> None:
        log.error("the recording of %s ends: %s", self._me, error)
        self.remove(sink)


def _then(effects: Iterable[Effect]) -> list[tuple[str, RRefId]] | None:
    """The immediate consequences among *effects*, for a row."""
    then = [
        ("free" if isinstance(effect, Free) else "confirmed", effect.rref)
        for effect in effects
        if isinstance(effect, Confirmed | Free)
    ]
    return then or None


def _labelled(message: Any) -> Any:
    """*message*, one of `_LOADED`, with a label in place of the user's data.

    The sending shell chose the label: a function's name, or a message's type. That of an exception
    is its type.
    """
    cargo = message.cargo
    payload = cargo.payload
    label = payload.tag if type(payload) is Payload else getattr(payload, "type_name", None)
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
    return label.encode("utf-8", "backslashreplace").decode()  # names may be no valid text


def worker_of(spelling: str) -> WorkerId:
    """The endpoint with this full name, as `spell` writes it. Raises `ValueError`."""
    name, _, incarnation = spelling.rpartition("@")
    return WorkerId(name, int(incarnation, 16))


def spell(who: WorkerId | RRefId | ForkId | CallId) -> str:
    """An id in full: ``name@incarnation`` (hexadecimal), or ``name@incarnation/number``."""
    match who:
        case WorkerId(name, incarnation):
            return f"{name}@{incarnation:x}"
        case RRefId(minter, number) | ForkId(minter, number) | CallId(minter, number):
            return f"{spell(minter)}/{number}"

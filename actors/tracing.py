"""Recording what the protocol does: one line for each step of each endpoint.

Every endpoint records its own steps, in its own order. With ``System(trace=folder)`` they go to a
file of the endpoint's own, ``<folder>/<name>-<incarnation>.jsonl``: no message of the trace's own
travels, so tracing does not change what it watches, and what a killed process had written stays.
Somebody who watches a running system gets them by message instead (see `watching`). Each line is
one JSON object::

    {"at":"C@1f00","kind":"send","time":...,"peer":"B@2e11","number":1,
     "message":"ForkRequest","user":false,"rref":"A@6f3a/1","fork":"A@6f3a/2"}

An endpoint is written ``name@incarnation`` (hexadecimal), so that two lives of one name stay
two, and an id as ``creator/number``. A message is named by its sender, its receiver and its
number between the two, at both ends; that is what a reader joins the lines by (the time is
for people: clocks of several hosts order nothing).

A reference inside a message is ``[rref, fork, owner, passing]``, where *passing* is ``fork``,
``loan`` or ``back`` (see `Passing`); one that goes under the name of an alias has that fifth, and
a loan whose lender the owner counts says ``counted`` sixth. What is made of several fields, such as
the reports in a reply, is an object of those fields, and what is made of several things, a list.

===========  ============================================================================
kind         what happened at the endpoint
===========  ============================================================================
join, leave  it began, and ended, to record; a killed one has no `leave`
do           the user's code, or the shell, did something with references: the machine's input
send         a message was handed to delivery; *by*: it is all that an input came to
receive      a message took effect
run          a function or method of the user's may start; a thread takes it up
known        the owner counts a fork from now on
confirmed    the owner counts this user
free         nobody holds the object any more: the owner dropped its value
lose, fail   a value, or a reply, that will never come, and of a value why
died         another endpoint's death became known here
buried       what the dead held, lent or was owed was released here
===========  ============================================================================

`do`, `receive`, `died` and `buried`, and what is sent *by* an input, are everything that a machine
was given; so a reader can run the shipped machines again, and has their tables at each step.

**What it costs.** Off: nothing, there is no tracer, and the machines themselves are what the shell
calls (see `recording`). On: a step is noted under the endpoint's lock, which takes a microsecond;
a thread spells and writes what has come, every few milliseconds; only what stands before the start
of a function is written first. So a process that is killed may take the steps of its last `LATE`
seconds along, but not those that led to what it was doing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.effects import Confirmed, Fail, Free, Lose, Run
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import (
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Moved,
    Passing,
    Reply,
    Report,
    Returned,
    Tell,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.effects import Effect
    from ..protocol.messages import Message
    from ..protocol.sharing import Sharing

log = logging.getLogger(__name__)

FORMAT = 4
"""Of the lines; written with each `join`. Format 1 knew no loans, 2 no aliases, 3 no inputs."""
LATE = 0.01
"""Seconds between a step and its line."""
NO_TABLES = object()
"""It knows nothing yet."""
_USER = (Call, Create, Fetch, Invoke, Reply, Tell)


class Sink(Protocol):
    """Where lines go. Called by one thread at a time."""

    def write(self, lines: str) -> None:
        """Take whole lines, maybe under the endpoint's lock."""

    def push(self) -> None:
        """Pass on what was taken, without that lock."""

    def close(self) -> None:
        """No more will come."""


class FileSink:
    """A file of the endpoint *me* in *folder*. Written at once, so that no kill loses it."""

    def __init__(self, folder: str, me: WorkerId) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)  # on another host nobody has made it
        path = Path(folder) / f"{me.name.replace('/', '_')}-{me.incarnation:x}.jsonl"
        self._file = path.open("ab", buffering=0)

    def write(self, lines: str) -> None:
        """See `Sink.write`."""
        self._file.write(lines.encode())

    def push(self) -> None:
        """See `Sink.push`; it is written."""

    def close(self) -> None:
        """See `Sink.close`."""
        self._file.close()


class Tracer:
    """Records the steps of one endpoint. The notes are taken under its lock, in any thread."""

    def __init__(self, me: WorkerId, clock: Callable[[], float] = time.time) -> None:
        """*clock* says the time, in seconds."""
        self._me = quoted(spell(me))
        self._clock = clock
        self._counts: dict[tuple[str, WorkerId], int] = {}
        self._noted: deque[tuple[Any, ...]] = deque()
        self._writing = threading.Lock()
        self._came = threading.Event()
        self._closed = False
        self._by: tuple[object, str, dict[str, Any]] | None = None
        """A message that is all that an input came to, while it has not been sent."""
        self.sinks: tuple[Sink, ...] = ()

    def start(self) -> None:
        """Write what is noted, from now on, soon; or else only `flush` does."""
        threading.Thread(target=self._write_on, name="farref tracer", daemon=True).start()

    def _write_on(self) -> None:
        while not self._closed:
            self._came.wait()
            time.sleep(LATE)
            self._came.clear()
            self.flush()
            for sink in self.sinks:
                sink.push()

    # ---- where it goes

    def begin(self, sink: Sink, sharing: Sharing, tables: object = NO_TABLES) -> None:
        """Record to *sink*, from the start, or anew after a gap. Under the endpoint's lock.

        *tables*: what the endpoint knows already (see `tables_json`).
        """
        self.flush()
        fields: dict[str, Any] = {"format": FORMAT, "sharing": sharing}
        if tables is not NO_TABLES:
            fields["tables"] = tables
        with self._writing:
            sink.write(self._fields("join", self._clock(), fields))
            if sink not in self.sinks:
                self.sinks = (*self.sinks, sink)
        self._came.set()

    def remove(self, sink: Sink) -> None:
        """Record to *sink* no more."""
        with self._writing:
            if sink in self.sinks:
                self.sinks = tuple(each for each in self.sinks if each is not sink)
                sink.close()

    def flush(self) -> None:
        """Write what has been noted. In any thread."""
        if not self._noted:
            return
        with self._writing:
            lines = []
            while self._noted:
                lines.append(self._line(*self._noted.popleft()))
            text = "".join(lines)
            for sink in self.sinks:
                try:
                    sink.write(text)
                except OSError as error:
                    log.error("%s is not recorded any more: %s", self._me, error)  # noqa: TRY400 - no fault of ours
                    self.sinks = tuple(each for each in self.sinks if each is not sink)

    def close(self) -> None:
        """Write no more."""
        self._note("leave")
        self._closed = True
        self._came.set()
        self.flush()
        for sink in self.sinks:
            self.remove(sink)

    # ---- what happened; under the endpoint's lock

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
            by, self._by = self._by[1], None
        self._message("send", to, message, number, relays=relays, by=by)

    def received(self, sender: WorkerId, message: Message, number: int | None = None) -> None:
        """*message* of *sender* takes effect now."""
        self._settle()
        self._message("receive", sender, message, number)

    def did(self, what: str, **fields: Any) -> None:
        """The user's code, or the shell, gives the machines this input."""
        self._settle()
        self._note("do", do=what, **fields)

    def did_say(self, what: str, message: Message, **fields: Any) -> None:
        """An input that comes to nothing but *message*, which is about to be sent."""
        self._settle()
        self._by = message, what, fields

    def known(self, message: ForkRequest | Create, holder: WorkerId) -> None:
        """The owner counts a fork from now on."""
        self._note("known", rref=message.rref, fork=message.fork, holder=holder)

    def effect(self, effect: Effect) -> None:
        """A step that is no message."""
        match effect:
            case Run(sender, Call() | Create() | Invoke() as request):
                self._note("run", peer=sender, label=_label(request.cargo))
                self.flush()  # before it starts: it may kill its process
            case Free(rref):
                self._note("free", rref=rref)
            case Confirmed(rref):
                self._note("confirmed", rref=rref)
            case Lose(rref, why):
                self._note("lose", rref=rref, why=why.name.lower())
            case Fail(call, worker, _):
                self._note("fail", call=call, peer=worker)
            case _:
                pass

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> None:
        """The death of *worker* became known here; it may not have got these messages."""
        self._settle()
        tables = [each for each in unacknowledged if isinstance(each, Reply | Returned)]
        lost = [report for each in tables for report in each.loans if report.borrowers]
        self._note("died", peer=worker, lost=lost)

    def buried(self, worker: WorkerId) -> None:
        """What the dead *worker* held, or was owed, is released here now."""
        self._settle()
        self._note("buried", peer=worker)

    # ---- inside

    def _settle(self) -> None:
        """Another input comes, and the message of the last one has not been sent."""
        if self._by is not None:
            _, what, fields = self._by
            self._by = None
            self._note("do", do=what, **fields)

    def _note(self, kind: str, **fields: Any) -> None:
        self._take((kind, self._clock(), fields))

    def _take(self, note: tuple[Any, ...]) -> None:
        if self._closed:
            return
        self._noted.append(note)
        if not self._came.is_set():
            self._came.set()

    def _message(
        self,
        kind: str,
        peer: WorkerId,
        message: Message,
        number: int | None = None,
        *,
        relays: CallId | None = None,
        by: str | None = None,
    ) -> None:
        if number is None:
            number = self._counts.get((kind, peer), 0)
            self._counts[kind, peer] = number + 1
        self._take((kind, self._clock(), peer, message, number + 1, relays, by))

    def _line(self, kind: str, at: float, *what: Any) -> str:
        if len(what) == 1:
            return self._fields(kind, at, what[0])
        peer, message, number, relays, by = what
        parts = [
            f'{{"at":{self._me},"kind":"{kind}","time":{at!r},"peer":{_spelled(peer)},'
            f'"number":{number},"message":"{type(message).__name__}",'
            f'"user":{"true" if isinstance(message, _USER) else "false"}'
        ]
        for name in _names(type(message)):
            value = getattr(message, name)
            if value is None or value == ():
                continue
            if name == "cargo":
                parts.append(f'"label":{quoted(_label(value))}')
                if value.descriptors:
                    parts.append(f'"carries":{_plain(value.descriptors)}')
            else:
                parts.append(f'"{name}":{_plain(value)}')
        if isinstance(message, Reply) and message.moved and message.cargo.payload is None:
            parts.append('"elsewhere":true')
        if relays is not None:
            parts.append(f'"relays":{_plain(relays)}')
        if by is not None:
            parts.append(f'"by":"{by}"')
        return ",".join(parts) + "}\n"

    def _fields(self, kind: str, at: float, fields: dict[str, Any]) -> str:
        parts = [f'{{"at":{self._me},"kind":"{kind}","time":{at!r}']
        parts += [f'"{name}":{_plain(value)}' for name, value in fields.items()]
        return ",".join(parts) + "}\n"


def spell(who: WorkerId | RRefId | ForkId | CallId) -> str:
    """An id in full: ``name@incarnation``, or ``name@incarnation/number``."""
    match who:
        case WorkerId(name, incarnation):
            return f"{name}@{incarnation:x}"
        case RRefId(minter, number) | ForkId(minter, number) | CallId(minter, number):
            return f"{spell(minter)}/{number}"


_field_names: dict[type, tuple[str, ...]] = {}


def _names(kind: Any) -> tuple[str, ...]:
    found = _field_names.get(kind)
    if found is None:
        found = _field_names[kind] = kind.__struct_fields__
    return found


_spellings: dict[WorkerId, str] = {}
MOST_SPELLINGS = 10_000


def _spelled(worker: WorkerId) -> str:
    """*worker* as a JSON string; remembered, for it is said with every message."""
    found = _spellings.get(worker)
    if found is None:
        if len(_spellings) > MOST_SPELLINGS:
            _spellings.clear()
        found = _spellings[worker] = quoted(spell(worker))
    return found


def _plain(value: Any) -> str:
    """*value* as JSON."""
    plain = _PLAIN.get(type(value))
    return plain(value) if plain is not None else quoted(str(value))


def _id(value: Any) -> str:
    return f'{_spelled(value[0])[:-1]}/{value[1]}"'


def _list(values: Iterable[Any]) -> str:
    return f"[{','.join(map(_plain, values))}]"


def _object(value: Any) -> str:
    return (
        f"{{{','.join(f'{quoted(n)}:{_plain(getattr(value, n))}' for n in _names(type(value)))}}}"
    )


def _dict(value: dict[str, Any]) -> str:
    return f"{{{','.join(f'{quoted(name)}:{_plain(each)}' for name, each in value.items())}}}"


def _descriptor(value: Descriptor) -> str:
    parts = [_id(value.rref), _id(value.fork), _spelled(value.owner), f'"{value.passing.value}"']
    if value.name is not None or value.counted:
        parts.append('""' if value.name is None else _id(value.name))
    if value.counted:
        parts.append('"counted"')
    return f"[{','.join(parts)}]"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_PLAIN: dict[Any, Callable[[Any], str]] = {
    WorkerId: _spelled,
    RRefId: _id,
    ForkId: _id,
    CallId: _id,
    bool: _boolean,
    int: str,
    str: quoted,
    tuple: _list,
    list: _list,
    dict: _dict,
    type(None): lambda _: "null",
    Descriptor: _descriptor,
    Delete: _object,
    Report: _object,
    Moved: _object,
    Passing: lambda value: f'"{value.value}"',
}


def _label(cargo: Cargo) -> str:
    """What the sending shell called the content: a function's name, or a message's type."""
    tag = getattr(cargo.payload, "tag", None)
    match tag:
        case (str() as verb, _, str() as name):
            return f"{verb} {name}"
        case str():
            return tag
        case _:
            return ""

"""Recording what the protocol does, one file of lines per endpoint.

Every endpoint writes its own steps, in its own order, to ``<folder>/<name>-<incarnation>.jsonl``:
no message of the trace's own travels, so tracing does not change what it watches, and what
a killed process had written stays. Each line is one JSON object::

    {"at": "C@1f00", "kind": "send", "time": ..., "peer": "B@2e11", "number": 1,
     "message": "ForkRequest", "user": false, "rref": "A@6f3a/1", "fork": "A@6f3a/2"}

An endpoint is written ``name@incarnation`` (hexadecimal), so that two lives of one name stay
two, and an id as ``creator/number``. A message is named by its sender, its receiver and its
number between the two, at both ends; that is what a reader joins the files by (the time is
for people: clocks of several hosts order nothing).

A reference inside a message is ``[rref, fork, owner, passing]``, where *passing* is ``fork``,
``loan`` or ``back`` (see `Passing`); one that goes under the name of an alias has that fifth. What
is made of several fields, such as the reports in a reply, is an object of those fields, and what is
made of several things, a list.

===========  ============================================================================
kind         what happened at the endpoint
===========  ============================================================================
join, leave  it began, and ended, to record; a killed one has no `leave`
send         a message was handed to delivery; what it carries is listed fork by fork
receive      a message took effect
run          a function or method of the user's may start; a thread takes it up
known        the owner counts a fork from now on
confirmed    the owner counts this user
free         nobody holds the object any more: the owner dropped its value
lose, fail   a value, or a reply, that will never come, and of a value why
died         another endpoint's death became known here
buried       what the dead held, lent or was owed was released here
===========  ============================================================================
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    Reply,
    Report,
    Tell,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.effects import Effect
    from ..protocol.messages import Message

FORMAT = 3
"""Of the lines; written with each `join`. Format 1 knew no loans, format 2 no aliases."""
_USER = (Call, Create, Fetch, Invoke, Reply, Tell)


class Tracer:
    """Writes the steps of one endpoint. Safe to use from any thread."""

    def __init__(self, folder: str, me: WorkerId, clock: Callable[[], float] = time.time) -> None:
        """Record into *folder*; *clock* says the time, in seconds."""
        self._me = spell(me)
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, WorkerId], int] = {}
        Path(folder).mkdir(parents=True, exist_ok=True)  # on another host nobody has made it
        path = Path(folder) / f"{me.name.replace('/', '_')}-{me.incarnation:x}.jsonl"
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._write("join", format=FORMAT)

    def sent(self, to: WorkerId, message: Message, relays: CallId | None = None) -> None:
        """*message* was handed to delivery for *to*; it passes on the request *relays*, if any."""
        self._message("send", to, message, **({"relays": spell(relays)} if relays else {}))

    def received(self, sender: WorkerId, message: Message) -> None:
        """*message* of *sender* takes effect now."""
        self._message("receive", sender, message)

    def known(self, message: ForkRequest | Create, holder: WorkerId) -> None:
        """The owner counts a fork from now on."""
        self._write(
            "known", rref=spell(message.rref), fork=spell(message.fork), holder=spell(holder)
        )

    def effect(self, effect: Effect) -> None:
        """A step that is no message."""
        match effect:
            case Run(sender, Call() | Create() | Invoke() as request):
                self._write("run", peer=spell(sender), label=_label(request.cargo))
            case Free(rref):
                self._write("free", rref=spell(rref))
            case Confirmed(rref):
                self._write("confirmed", rref=spell(rref))
            case Lose(rref, why):
                self._write("lose", rref=spell(rref), why=why.name.lower())
            case Fail(call, worker, _):
                self._write("fail", call=spell(call), peer=spell(worker))
            case _:
                pass

    def died(self, worker: WorkerId) -> None:
        """The death of *worker* became known here."""
        self._write("died", peer=spell(worker))

    def buried(self, worker: WorkerId) -> None:
        """What the dead *worker* held, or was owed, is released here now."""
        self._write("buried", peer=spell(worker))

    def close(self) -> None:
        """Write no more."""
        with self._lock:  # nothing comes after it
            self._put("leave")
            self._file.close()

    def _message(self, kind: str, peer: WorkerId, message: Message, **fields: Any) -> None:
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if isinstance(value, Cargo):
                fields["label"] = _label(value)
                fields["carries"] = [_plain(each) for each in value.descriptors]
            elif value not in (None, ()):
                fields[name] = _plain(value)
        if isinstance(message, Reply) and message.moved and message.cargo.payload is None:
            fields["elsewhere"] = True
        with self._lock:
            number = self._counts[kind, peer] = self._counts.get((kind, peer), 0) + 1
            self._put(
                kind,
                peer=spell(peer),
                number=number,
                message=type(message).__name__,
                user=isinstance(message, _USER),
                **fields,
            )

    def _write(self, kind: str, **fields: Any) -> None:
        with self._lock:
            self._put(kind, **fields)

    def _put(self, kind: str, **fields: Any) -> None:
        if not self._file.closed:
            line = json.dumps({"at": self._me, "kind": kind, "time": self._clock(), **fields})
            self._file.write(line + "\n")


def spell(who: WorkerId | RRefId | ForkId | CallId) -> str:
    """An id in full: ``name@incarnation``, or ``name@incarnation/number``."""
    match who:
        case WorkerId(name, incarnation):
            return f"{name}@{incarnation:x}"
        case RRefId(minter, number) | ForkId(minter, number) | CallId(minter, number):
            return f"{spell(minter)}/{number}"


def _plain(value: object) -> Any:
    match value:
        case WorkerId() | RRefId() | ForkId() | CallId():
            return spell(value)
        case tuple():
            return [_plain(each) for each in value]
        case Descriptor(name=name):
            ids = [spell(value.rref), spell(value.fork), spell(value.owner), value.passing.value]
            return ids if name is None else [*ids, spell(name)]
        case Delete() | Report() | Moved():
            return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        case bool() | int() | str():
            return value
        case _:
            return str(value)


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

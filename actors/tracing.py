"""Recording what the protocol does, one file of lines per endpoint.

Every endpoint writes its own steps, in its own order, to ``<folder>/<name>-<incarnation>.jsonl``:
no message of the trace's own travels, so tracing does not change what it watches, and what
a killed process had written stays. A message is named by its sender, its receiver and its
number between the two, at both ends; that is what a reader joins the files by.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.effects import Confirmed, Fail, Free, Lose
from ..protocol.messages import Call, Create, Fetch, ForkRequest, Invoke, Reply, Tell

if TYPE_CHECKING:
    from ..protocol.effects import Effect
    from ..protocol.ids import WorkerId
    from ..protocol.messages import Message

_USER = (Call, Create, Fetch, Invoke, Reply, Tell)


class Tracer:
    """Writes the steps of one endpoint."""

    def __init__(self, folder: str, me: WorkerId) -> None:
        self._me = me
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, WorkerId], int] = {}
        path = Path(folder) / f"{me.name.replace('/', '_')}-{me.incarnation:x}.jsonl"
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._write("join", incarnation=f"{me.incarnation:x}")

    def sent(self, to: WorkerId, message: Message) -> None:
        """*message* was handed to delivery for *to*."""
        self._message("send", to, message)

    def received(self, sender: WorkerId, message: Message) -> None:
        """*message* of *sender* takes effect now."""
        self._message("receive", sender, message)

    def known(self, message: ForkRequest | Create, holder: WorkerId) -> None:
        """The owner counts a fork from now on."""
        self._write("known", rref=str(message.rref), fork=str(message.fork), holder=str(holder))

    def effect(self, effect: Effect) -> None:
        """A step that is no message."""
        match effect:
            case Free(rref):
                self._write("free", rref=str(rref))
            case Confirmed(rref):
                self._write("confirmed", rref=str(rref))
            case Lose(rref):
                self._write("lose", rref=str(rref))
            case Fail(call, worker, _):
                self._write("fail", call=str(call), peer=str(worker))
            case _:
                pass

    def note(self, kind: str, **fields: Any) -> None:
        """Something else worth a line."""
        self._write(kind, **fields)

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            self._file.close()

    def _message(self, kind: str, peer: WorkerId, message: Message) -> None:
        number = self._counts[kind, peer] = self._counts.get((kind, peer), 0) + 1
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(message):
            value = getattr(message, field.name)
            if field.name == "cargo":
                fields["carries"] = [
                    {"rref": str(d.rref), "fork": str(d.fork), "owner": str(d.owner)}
                    for d in value.descriptors
                ]
                fields["label"] = getattr(value.payload, "tag", None) or ""
            elif value not in (None, ()):
                fields[field.name] = (
                    [str(each) for each in value]
                    if isinstance(value, tuple) and type(value) is tuple
                    else str(value)
                )
        self._write(
            kind,
            peer=str(peer),
            peer_incarnation=f"{peer.incarnation:x}",
            number=number,
            message=type(message).__name__,
            user=isinstance(message, _USER),
            **fields,
        )

    def _write(self, kind: str, **fields: Any) -> None:
        line = json.dumps(
            {"at": self._me.name, "kind": kind, "time": time.time(), **fields}, default=str
        )
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")

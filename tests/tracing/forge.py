"""Messages that no correct peer sends, built field by field from a command's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Ack,
    Call,
    Cancel,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    Reply,
    Tell,
)

from .world import BadCommandError

if TYPE_CHECKING:
    from collections.abc import Callable


class Fields:
    """The ``name=value`` words of a command; every one must be asked for."""

    def __init__(self, words: list[str], worker: Callable[[str], WorkerId]) -> None:
        self._worker = worker
        self._values: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise BadCommandError(f"{word!r} is not of the form field=value")
            self._values[name] = value

    def value(self, name: str) -> str:
        if name not in self._values:
            raise BadCommandError(f"the field {name}= is missing")
        return self._values.pop(name)

    def rref(self, name: str = "rref") -> RRefId:
        return RRefId(*self._id(self.value(name)))

    def maybe_rref(self, name: str) -> RRefId | None:
        return self.rref(name) if name in self._values else None

    def fork(self) -> ForkId:
        return ForkId(*self._id(self.value("fork")))

    def forks(self) -> tuple[ForkId, ...]:
        return tuple(ForkId(*self._id(each)) for each in self.value("forks").split(",") if each)

    def call(self) -> CallId:
        return CallId(*self._id(self.value("call")))

    def cargo(self) -> Cargo:
        """``child=A/1,A/2,B,A``: a descriptor's reference, fork, owner and parent."""
        descriptors = []
        for child in self._values.pop("child", "").split("+"):
            if not child:
                continue
            if child.count(",") != 3:
                raise BadCommandError(f"child={child}: give reference,fork,owner,parent")
            rref, fork, owner, parent = child.split(",")
            descriptors.append(
                Descriptor(
                    rref=RRefId(*self._id(rref)),
                    fork=ForkId(*self._id(fork)),
                    owner=self._worker(owner),
                    parent=self._worker(parent),
                )
            )
        return Cargo(descriptors=tuple(descriptors))

    def number(self, name: str) -> int:
        value = self.value(name)
        if re.fullmatch(r"-?\d+", value) is None:
            raise BadCommandError(f"{name}={value}: give a number")
        return int(value)

    def finish(self) -> None:
        if self._values:
            raise BadCommandError(f"unknown fields: {', '.join(self._values)}")

    def _id(self, text: str) -> tuple[WorkerId, int]:
        return parse_id(text, self._worker)


def parse_id(text: str, worker: Callable[[str], WorkerId]) -> tuple[WorkerId, int]:
    """``A/1`` as any kind of id. Raises `BadCommandError` if it is none."""
    name, slash, number = text.partition("/")
    if not slash or not number.isdecimal():
        raise BadCommandError(f"{text!r} is not an id such as A/1")
    return worker(name), int(number)


def forged(name: str, words: list[str], worker: Callable[[str], WorkerId]) -> Message | Packet:
    """The message, or packet, that the words describe."""
    give = Fields(words, worker)
    builder = BUILDERS.get(name)
    if builder is None:
        raise BadCommandError(f"{name!r} is none of {', '.join(BUILDERS)}")
    message = builder(give)
    give.finish()
    return message


def _packet(give: Fields) -> Packet:
    tells = tuple(Tell(cargo=Cargo(payload=f"m{i + 1}")) for i in range(give.number("messages")))
    return Packet(give.number("first"), tells, give.number("expects"))


BUILDERS: dict[str, Callable[[Fields], Message | Packet]] = {
    "ForkRequest": lambda give: ForkRequest(rref=give.rref(), fork=give.fork()),
    "Ack": lambda give: Ack(rref=give.rref(), fork=give.fork()),
    "ChildAck": lambda give: ChildAck(rref=give.rref(), fork=give.fork()),
    "Delete": lambda give: Delete(rref=give.rref(), forks=give.forks()),
    "Cancel": lambda give: Cancel(call=give.call(), rref=give.maybe_rref("rref")),
    "Tell": lambda give: Tell(cargo=give.cargo()),
    "Call": lambda give: Call(call=give.call(), cargo=give.cargo()),
    "Create": lambda give: Create(
        rref=give.rref(), fork=give.fork(), cargo=give.cargo(), target=give.maybe_rref("target")
    ),
    "Invoke": lambda give: Invoke(call=give.call(), rref=give.rref(), cargo=give.cargo()),
    "Fetch": lambda give: Fetch(call=give.call(), rref=give.rref()),
    "Reply": lambda give: Reply(call=give.call(), cargo=give.cargo()),
    "Packet": _packet,
}

"""One request, reply or one-way message on its way through an endpoint's shell.

A task stands for an actor's thread or coroutine. It *arrived* (the context holds its references
already), *began* (it was unpickled, so handles exist) and does its actions one by one. Where it
awaits, it gives its object's turn away (*aside*), then lines up for a new one (*in line*). In the
end its handles go, the reply leaves, the message's hold is released, and the object is free for the
next request. The explorer lets any other step happen in between.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import (
    Busy,
    Cargo,
    Create,
    Fetch,
    Invoke,
    Reply,
    Tell,
    UserMessage,
    chain_of,
)

from .script import Code, Script


class Stage(Enum):
    ARRIVED = "arrived"
    BEGUN = "begun"
    ASIDE = "aside"
    IN_LINE = "in line"


class Task(msgspec.Struct, frozen=True):
    """The handling of *message* from *sender*."""

    sender: WorkerId
    message: UserMessage
    stage: Stage = Stage.ARRIVED
    todo: Script = ()
    frame: tuple[tuple[str, RRefId], ...] = ()
    refused: bool = False
    cancelled: bool = False
    """It began, and its caller cancelled it: it ends where it awaits, or was interrupted."""

    @property
    def cargo(self) -> Cargo:
        return Cargo() if isinstance(self.message, Fetch) else self.message.cargo

    @property
    def code(self) -> Code:
        """The program's part of the message."""
        payload = self.cargo.payload
        return payload if isinstance(payload, Code) else Code()

    @property
    def occupies(self) -> RRefId | None:
        """The object of which this task has the turn."""
        return self.target if self.stage in {Stage.ARRIVED, Stage.BEGUN} else None

    @property
    def target(self) -> RRefId | None:
        """The object on which this task has begun."""
        if self.refused:
            return None
        match self.message:
            case Invoke(rref=rref) | Fetch(rref=rref):
                return rref
            case Create(target=target):
                return target
            case _:
                return None

    @property
    def chain(self) -> tuple[Busy, ...]:
        """The objects that wait while this task does."""
        return () if isinstance(self.message, Reply) else chain_of(self.message)


def key(task: Task) -> object:
    """The key of a message that must not be handed over twice."""
    match task.message:
        case Tell():
            return (task.sender, task.message)
        case Create(rref=rref):
            return ("create", rref)
        case Reply(call=call):
            return ("reply", call)
        case _:
            return ("call", task.message.call)

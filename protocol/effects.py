"""What a machine asks its shell to do. Shells interpret effects and decide nothing.

A machine takes one input and returns the effects in the order in which they must become
visible. The explorer, the simulation and the real actors are three shells for the same
machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .ids import CallId, RRefId, WorkerId
from .messages import Message, Reply, Request, Tell


@dataclass(frozen=True, slots=True)
class Send:
    """Hand *message* to delivery for *to* (which may be the endpoint itself)."""

    to: WorkerId
    message: Message


@dataclass(frozen=True, slots=True)
class Run:
    """Start *request* of *sender* now. Its references are held for it already.

    A request for an object (`Invoke`, `Fetch`, a `Create` with a target) occupies that
    object until the shell says `Context.done`.
    """

    sender: WorkerId
    request: Request


class Refusal(Enum):
    """Why a request is not run."""

    SELF_WAIT = "it would wait for itself"
    CANCELLED = "its caller cancelled it before it started"
    FULL = "too many wait already"
    LOST = "it was passed on, and the owner of the value, or of a reference in it, died"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not run *request* of *sender*: reply with the error that *why* names."""

    sender: WorkerId
    request: Request
    why: Refusal


@dataclass(frozen=True, slots=True)
class Hand:
    """Hand a one-way message to the user. Its references are held for it already."""

    sender: WorkerId
    message: Tell


@dataclass(frozen=True, slots=True)
class Settle:
    """The reply to a call of this endpoint's. Its references are held for it already."""

    sender: WorkerId
    reply: Reply


@dataclass(frozen=True, slots=True)
class Fail:
    """No reply to *call* will ever come: *worker* died, and with it maybe object *rref*."""

    call: CallId
    worker: WorkerId
    rref: RRefId | None


@dataclass(frozen=True, slots=True)
class Stop:
    """Take back *call* of *sender* if it waits for a thread; `Cancel` asked for it."""

    sender: WorkerId
    call: CallId


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The owner counts this endpoint's reference to *rref*."""

    rref: RRefId


class Loss(Enum):
    """Why an object will never get a value."""

    CREATOR = "its creator died before it was created, or it was freed before this one asked"
    OWNER = "it is an alias of an object whose owner died"
    CYCLE = "it is an alias that leads back to itself, through the results of other tasks"


@dataclass(frozen=True, slots=True)
class Lose:
    """*rref* will never get a value: store the error that *why* names in its place."""

    rref: RRefId
    why: Loss = Loss.CREATOR


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody anywhere holds *rref* any more: drop its value (G5)."""

    rref: RRefId


Effect = Send | Run | Refuse | Hand | Settle | Fail | Stop | Confirmed | Lose | Free

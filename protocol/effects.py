"""Effects: instructions of a machine to its shell. Shells carry them out and decide nothing.

A machine takes one input and returns the effects in the order in which they must become visible.
The actors are one shell. The endpoints in memory (`farref.world`) are the other one.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from .ids import CallId, RRefId, WorkerId
from .messages import Hop, Message, Reply, Request, Tell


class Send(msgspec.Struct, frozen=True):
    """Hand *message* to delivery for *to* (which may be the endpoint itself)."""

    to: WorkerId
    message: Message


class Run(msgspec.Struct, frozen=True):
    """Start *request* of *sender* now. Its references are held for it already.

    A request for an object (`Invoke`, `Fetch`, a `Create` with a target) has that object's turn
    until the shell says `Context.pause` or `Context.done`. If the object is not serial, the request
    has no turn and lasts until `Context.done`.
    """

    sender: WorkerId
    request: Request


class Resume(msgspec.Struct, frozen=True):
    """*call*, which had paused, has its object's turn again: let its code go on."""

    call: CallId


class Refusal(Enum):
    """Why a request is not run."""

    SELF_WAIT = "it would wait for itself"
    RING = "it waits in a ring of requests that wait for each other"
    CANCELLED = "its caller cancelled it before it started"
    FULL = "too many wait already"
    LOST = "it was passed on, and the owner of the value, or of a reference in it, died"


class Refuse(msgspec.Struct, frozen=True):
    """Do not run *request* of *sender*: reply with the error named by *why*."""

    sender: WorkerId
    request: Request
    why: Refusal
    ring: tuple[Hop, ...] = ()
    """For a ring: its waits. The last wait is for *request*."""


class Hand(msgspec.Struct, frozen=True):
    """Hand a one-way message to the user. Its references are held for it already."""

    sender: WorkerId
    message: Tell


class Settle(msgspec.Struct, frozen=True):
    """Take the reply to a call of this endpoint. Its references are held for it already."""

    sender: WorkerId
    reply: Reply
    by: object = None
    """See `Waiting.by`."""


class Fail(msgspec.Struct, frozen=True):
    """No reply to *call* will ever come: *worker* died, and maybe object *rref* with it."""

    call: CallId
    worker: WorkerId
    rref: RRefId | None
    by: object = None
    """See `Waiting.by`."""


class Stop(msgspec.Struct, frozen=True):
    """End *call* of *sender*; `Cancel` asked for it.

    It does not start if it waits for a thread. A coroutine is cancelled, and a future that it has
    returned is not waited for. If a plain function runs it, the shell raises an exception there if
    *interrupt*, or else says `Context.refuse_cancel`.
    """

    sender: WorkerId
    call: CallId
    interrupt: bool = False


class Unstopped(msgspec.Struct, frozen=True):
    """*call* of this endpoint was to be cancelled, and goes on: a plain function runs it."""

    call: CallId
    by: object = None
    """See `Waiting.by`."""


class Look(msgspec.Struct, frozen=True):
    """Say by `Context.waits`, in this very step, which request the running *run* waits for."""

    run: CallId


class Scan(msgspec.Struct, frozen=True):
    """Say by `Context.scanned` how this endpoint holds *rrefs*, for look *look* of *asker*.

    With *exact* the answer must be true of one moment (see `holders`). Otherwise it may miss
    a variable that came or went meanwhile.
    """

    asker: WorkerId
    look: int
    rrefs: tuple[RRefId, ...]
    exact: bool = False


class Weigh(msgspec.Struct, frozen=True):
    """All answers of the search from *start* are in, or it has more to cut: `Context.weigh_cycle`.

    Before that the shell may call `Search.weigh`, without a lock.
    """

    start: RRefId


class Collect(msgspec.Struct, frozen=True):
    """*rref* is garbage in a ring: drop its value. `Free` follows when nobody holds it."""

    rref: RRefId


class Garbage(msgspec.Struct, frozen=True):
    """A finding of a search: connected objects that only hold each other."""

    objects: tuple[RRefId, ...]
    ring: tuple[RRefId, ...]
    """One of the rings among them, from an object back to it."""
    cut: int
    """The number of objects with a value that is dropped; 0 if they are only reported."""


class Looked(msgspec.Struct, frozen=True):
    """The search from *start* has found *garbage*.

    If it is *over*, every other object that it has looked at may be alive.
    """

    start: RRefId
    garbage: tuple[Garbage, ...] = ()
    over: bool = True


class Confirmed(msgspec.Struct, frozen=True):
    """The owner counts this endpoint's reference to *rref*."""

    rref: RRefId


class Loss(Enum):
    """Why an object will never get a value."""

    CREATOR = "its creator died before it was created, or it was freed before this one asked"
    OWNER = "it is an alias of an object whose owner died"
    CYCLE = "it is an alias that leads back to itself, through the results of other tasks"


class Lose(msgspec.Struct, frozen=True):
    """*rref* will never get a value: store the error named by *why* in its place."""

    rref: RRefId
    why: Loss = Loss.CREATOR


class Free(msgspec.Struct, frozen=True):
    """Nobody anywhere holds *rref* any more: drop its value (G5)."""

    rref: RRefId


Effect = (
    Send
    | Run
    | Resume
    | Refuse
    | Hand
    | Settle
    | Fail
    | Stop
    | Unstopped
    | Look
    | Scan
    | Weigh
    | Collect
    | Looked
    | Confirmed
    | Lose
    | Free
)

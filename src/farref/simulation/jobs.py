"""What a simulated program does: functions, what they ask for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..protocol.messages import Call, Create, Invoke, Reply, Tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..protocol.context import Context
    from ..protocol.delivery import Packet
    from ..protocol.ids import CallId, RRefId, WorkerId


@dataclass(frozen=True, slots=True)
class Job:
    """What a function does with the references that it gets."""

    tag: str
    seconds: float
    keep: bool = False
    """It keeps one more handle of each."""
    back: bool = False
    """It returns them: in a container, in the value that it makes, or,"""
    bare: bool = False
    """if it makes a value, the last one bare, which makes an alias of it."""
    onward: int | None = None
    """It lends them to that endpoint, for a call that it does not wait for."""
    ask: Ask | None = None
    """It asks for something, and waits for the answer before it returns."""
    into: RRefId | None = None
    """Of a one-way message: the references are for the function that makes this object."""
    turn: Turn | None = None
    """Of a method: which of those that were called on a reference it is."""

    def __str__(self) -> str:
        """Nothing: a trace has no payloads, and what is replayed from one is shown alike."""
        return ""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a function asks of one of the references that it got, and waits for."""

    how: str
    """It calls a "method", does a "fetch" or a "wait"; it makes an object by a
    method, a "creation", and fetches that; or it calls a "function" elsewhere."""
    place: int
    """Which of the references."""
    to: int
    """Where that function runs."""
    job: Job
    """What the method or the function does; it is lent all the references."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The *number*-th call that *caller* made on its reference *name*."""

    caller: WorkerId
    name: RRefId
    number: int


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an object, or the answer of one of its methods: it knows whose it is."""

    of: RRefId | None
    tag: str = "value"


@dataclass(frozen=True, slots=True)
class Error:
    """What takes a value's place."""

    why: str
    of: RRefId | None = None
    """The object whose value it is; None if it is about one request alone."""
    tag: str = "error"


CARRYING = (Call, Create, Invoke, Reply)
"""Messages that refusals may be about, with references in them."""


@dataclass(slots=True, eq=False)
class Task:
    """A function or handler that runs."""

    request: Call | Create | Invoke | Tell
    handles: list[RRefId]
    waits: CallId | None = None
    """The request of its own that it waits for."""

    @property
    def job(self) -> Job:
        """What the function does."""
        return self.request.cargo.payload  # type: ignore[return-value]  # nothing else is sent


@dataclass(slots=True)
class Asked:
    """A request that is not answered yet."""

    to: WorkerId
    on: RRefId | None = None
    """The object that it was made on, as far as its caller knew then."""
    chain: tuple[RRefId, ...] = ()
    """The objects that wait for the answer."""
    cancelled: bool = False
    task: Task | None = field(default=None, repr=False)
    """The task that waits for the answer; None if it is the program's own request."""


class Resident(Protocol):
    """An endpoint, as the oracle, the rings and the scene see it: a `Node`."""

    me: WorkerId
    context: Context
    asked: dict[CallId, Asked]
    tasks: list[Task]
    asleep_until: float

    def take(self, sender: WorkerId, packet: Packet) -> None:
        """A packet came in."""

    def held(self) -> Iterator[RRefId]:
        """Every handle in this process."""

    def announces(self, rref: RRefId, owner: WorkerId) -> bool:
        """It has asked *owner* to be counted for *rref*, and that may not have come."""

    def give_up(self, call: CallId) -> None:
        """The wait for *call* ends by its timeout."""

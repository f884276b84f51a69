"""The work of a simulated program: functions, their requests, and the results."""

from __future__ import annotations

from dataclasses import dataclass, field

from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import Busy, Call, Create, Invoke, Reply, Tell


@dataclass(frozen=True, slots=True)
class Job:
    """A function, and its use of the references that it gets."""

    tag: str
    seconds: float
    keep: bool = False
    """It keeps one more handle of each reference."""
    back: bool = False
    """It returns them: in a container, or in the value that it makes (but see `bare`)."""
    bare: bool = False
    """If it makes a value, it returns the last reference bare: so the object is an alias of it."""
    put: bool = False
    """A method: it puts them into the value of its object."""
    take: bool = False
    """A method: it takes all references out of the value of its object."""
    onward: int | None = None
    """It lends them to this endpoint, for a call that it does not wait for."""
    ask: Ask | None = None
    """A request whose answer it waits for before it returns."""
    into: RRefId | None = None
    """For a one-way message: the references go to the function that makes this object."""
    turn: Turn | None = None
    """For a method: its number among the calls on a reference."""

    def __str__(self) -> str:
        """Empty: a trace has no payloads, so a replay of it shows the same text."""
        return ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of a function on one of its references. The function waits for the answer."""

    how: str
    """A call of a "method", a "fetch" or a "wait"; a "creation" of an object by a method, and a
    fetch of it; or a call of a "function" elsewhere."""
    place: int
    """The number of the reference."""
    to: int
    """The endpoint of that function."""
    job: Job
    """The work of the method or function, which is lent all the references."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The *number*-th call that *caller* made on its reference *name*."""

    caller: WorkerId
    name: RRefId
    number: int


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an object, or the answer of one of its methods. It names the object."""

    of: RRefId | None
    tag: str = "value"


@dataclass(frozen=True, slots=True)
class Error:
    """An error in place of a value."""

    why: str
    of: RRefId | None = None
    """The object with this error as its value; None if it is about one request alone."""
    tag: str = "error"


CARRYING = (Call, Create, Invoke, Reply)
"""Messages with references in them that a refusal may be about."""


@dataclass(slots=True, eq=False)
class Task:
    """A running function or handler."""

    request: Call | Create | Invoke | Tell
    handles: list[RRefId]
    waits: CallId | None = None
    """Its own request that it waits for."""

    @property
    def job(self) -> Job:
        return self.request.cargo.payload  # type: ignore[return-value]  # all payloads are jobs


@dataclass(slots=True)
class PendingRequest:
    """A request that is not answered yet."""

    to: WorkerId
    on: RRefId | None = None
    """The object that it was made on, as far as its caller knew at that time."""
    chain: tuple[Busy, ...] = ()
    """The objects that wait for the answer."""
    cancelled: bool = False
    task: Task | None = field(default=None, repr=False)
    """The task that waits for the answer; None if it is the program's own request."""

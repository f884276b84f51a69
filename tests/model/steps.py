"""The steps of one endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Message

from .task import Task


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message arrives."""

    sender: WorkerId
    message: Message


@dataclass(frozen=True, slots=True)
class Act:
    """The script (None) or a task goes one step further."""

    task: Task | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The endpoint hears of a death; its *unacknowledged* messages may have been lost."""

    worker: WorkerId
    unacknowledged: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Bury:
    """The grace after a death has passed."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Suspect:
    """Requests have been queued on *rref* for some time.

    *early*: other events than probes are still possible.
    """

    rref: RRefId
    early: bool


@dataclass(frozen=True, slots=True)
class Search:
    """The object *rref* may be garbage in a ring: search from it.

    *early*: other things still happen. *together*: all other objects here are suspected, too.
    """

    rref: RRefId
    early: bool
    together: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """The search from *rref* is given up, as an endpoint does not answer."""

    rref: RRefId


@dataclass(frozen=True, slots=True)
class Answer:
    """The endpoint makes the grips for its exact answer to look *look* of *asker*."""

    asker: WorkerId
    look: int


@dataclass(frozen=True, slots=True)
class Judge:
    """The answers of the search from *start* are weighed."""

    start: RRefId


Step = Arrival | Act | Notice | Bury | Suspect | Search | Forget | Answer | Judge

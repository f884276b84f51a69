"""The steps of one endpoint."""

from __future__ import annotations

import msgspec

from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Message

from .task import Task


class Arrival(msgspec.Struct, frozen=True):
    """A message arrives."""

    sender: WorkerId
    message: Message


class Act(msgspec.Struct, frozen=True):
    """The script (None) or a task goes one step further."""

    task: Task | None = None


class Notice(msgspec.Struct, frozen=True):
    """The endpoint hears of a death; its *unacknowledged* messages may have been lost."""

    worker: WorkerId
    unacknowledged: tuple[Message, ...] = ()


class Bury(msgspec.Struct, frozen=True):
    """The grace after a death has passed."""

    worker: WorkerId


class Suspect(msgspec.Struct, frozen=True):
    """Requests have been queued on *rref* for some time.

    *early*: other events than probes are still possible.
    """

    rref: RRefId
    early: bool


class Search(msgspec.Struct, frozen=True):
    """The object *rref* may be garbage in a ring: search from it.

    *early*: other things still happen. *together*: all other objects here are suspected, too.
    """

    rref: RRefId
    early: bool
    together: bool = False


class Forget(msgspec.Struct, frozen=True):
    """The search from *rref* is given up, as an endpoint does not answer."""

    rref: RRefId


class Answer(msgspec.Struct, frozen=True):
    """The endpoint makes the grips for its exact answer to look *look* of *asker*."""

    asker: WorkerId
    look: int


class Judge(msgspec.Struct, frozen=True):
    """The answers of the search from *start* are weighed."""

    start: RRefId


Step = Arrival | Act | Notice | Bury | Suspect | Search | Forget | Answer | Judge

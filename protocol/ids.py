"""Ids of workers, references, forks and calls, made without coordination.

One endpoint alone mints each id, from its own `WorkerId` and a counter. So no two endpoints can
mint the same id, and no endpoint has to ask another. Besides the name that people read, a
`WorkerId` carries a number, its *incarnation*. A restarted worker, or another worker at a recycled
address, has another incarnation, so it can never be mistaken for the first one. (Guarantees G1 and
G4 rest on this fencing.) The registrar gives consecutive incarnations to all endpoints of its
system, beginning at a random number. So the dead can be remembered for ever (see `dead`), and two
systems do not mistake each other's endpoints either.

The ids are named tuples because every protocol step hashes and compares them. The static types keep
an `RRefId` from being used in the place of a `ForkId`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0)]
"""Ids and sequence numbers are never negative; the decoder refuses a negative one."""


class WorkerId(NamedTuple):
    """One life of one endpoint: an actor, or a program outside the actor system."""

    name: str
    incarnation: Number

    def __str__(self) -> str:
        return self.name


class RRefId(NamedTuple):
    """One shared object, named by the endpoint that requested it (its creator).

    The creator need not be the owner: ``remote("B", f)`` called on A mints ``A/1`` for an
    object that B will own.
    """

    creator: WorkerId
    number: Number

    def __str__(self) -> str:
        return f"{self.creator}/{self.number}"


class ForkId(NamedTuple):
    """One hand-over of a reference from a parent to a child, named by the parent."""

    parent: WorkerId
    number: Number

    def __str__(self) -> str:
        return f"{self.parent}/{self.number}"


class CallId(NamedTuple):
    """One request that is answered by one reply, named by the caller."""

    caller: WorkerId
    number: Number

    def __str__(self) -> str:
        return f"{self.caller}/{self.number}"


def is_name(name: object) -> bool:
    """Whether *name* is text without lone surrogates: no packet can hold those."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

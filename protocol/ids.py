"""Who is meant: workers, references, forks and calls, named without coordination.

Every id is minted by one endpoint alone, from its own `WorkerId` and a counter, so no
two endpoints can ever mint the same one and nobody is asked. A `WorkerId` carries a
number, its *incarnation*, besides the name that people read: a restarted worker, or another one
that got a recycled address, has another incarnation and so can never be mistaken for the
first (the fencing that guarantees G1 and G4 rest on). The registrar gives these numbers, to all
endpoints of its system, in a row that begins at a random one: so the dead can be remembered for
ever (see `dead`), and two systems do not mistake each other's endpoints either.

The ids are named tuples because they are hashed and compared on every protocol step; the
static types keep a `RRefId` from being used where a `ForkId` is meant.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0)]
"""No id and no sequence number is less; what comes over the wire is refused if it is."""


class WorkerId(NamedTuple):
    """One life of one endpoint: an actor, or a program outside the actor system."""

    name: str
    incarnation: Number

    def __str__(self) -> str:
        return self.name


class RRefId(NamedTuple):
    """One shared object, named by the endpoint that asked for it (its creator).

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
    """Whether an endpoint can be called so: text, no lone surrogates, which no packet can hold."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

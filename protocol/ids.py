"""Ids of workers, references, forks and calls, made without coordination.

One endpoint alone allocates each id, from its own `WorkerId` and a counter. So no two endpoints can
allocate the same id, and no endpoint has to ask another. Besides the name that people read, a
`WorkerId` carries a number, its *incarnation*. A restarted worker, or another worker at a recycled
address, has another incarnation, so it can never be mistaken for the first one. (Guarantees G1 and
G4 rest on this fencing.) The registrar gives consecutive incarnations to all endpoints of its
system, beginning at a random number. So the dead can be remembered forever (see `dead`), and two
systems do not mistake each other's endpoints either.

An endpoint keeps many ids, and every protocol step makes, hashes and compares some. So they are
msgspec's structs, which do that in C. Python's garbage collector does not track them: an id holds
only texts, numbers and other ids, so it is in no cycle. An id takes half the memory of a named
tuple. On the wire it is the row of its fields. An `RRefId` is never equal to a `ForkId`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0)]
"""Ids and sequence numbers are never negative; the decoder refuses a negative one."""


class _Id(
    msgspec.Struct, frozen=True, order=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """An id: its fields are hashed, compared and ordered in their order."""


class WorkerId(_Id, frozen=True, cache_hash=True):
    """One life of one endpoint: an actor, or a program outside the actor system."""

    name: str
    incarnation: Number

    def __str__(self) -> str:
        return self.name


class RRefId(_Id, frozen=True):
    """One shared object, named by the endpoint that requested it (its creator).

    The creator need not be the owner: ``remote("B", f)`` called on A allocates ``A/1`` for an
    object that B will own.
    """

    creator: WorkerId
    number: Number

    def __str__(self) -> str:
        return f"{self.creator}/{self.number}"


class ForkId(_Id, frozen=True):
    """One hand-over of a reference from a parent to a child, named by the parent."""

    parent: WorkerId
    number: Number

    def __str__(self) -> str:
        return f"{self.parent}/{self.number}"


class CallId(_Id, frozen=True):
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

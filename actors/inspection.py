"""What an endpoint knows of each reference, for people and programs to look at.

The counts are those of the protocol's machines, taken under the endpoint's lock in one look.
What the values contain is searched afterwards, without it: a value is the user's own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..protocol.borrowing import BorrowingUser
from ..protocol.lending import LendingOwner
from ..protocol.owner import Owner
from ..serialization.contains import references_in
from .current import frame
from .endpoint import Endpoint
from .rref import RRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..protocol.ids import ForkId, RRefId, WorkerId
    from ..protocol.user import User
    from .objects import Stored

Role = Literal["owner", "user", "borrower"]
Held = dict[str, str]
"""Forks, each with the endpoint that it is about."""


@dataclass(frozen=True, slots=True)
class ReferenceInfo:
    """One row of `references`: what an endpoint knows of one object.

    The first three counts together are the *local count* of the borrowing note: while one of
    them is not 0, the object is needed here.
    """

    rref: str
    """The object's id, ``creator/number``; as in `RRef.id`."""
    role: Role
    """A borrower holds it by a loan, and is not counted by the owner (yet)."""
    owner: str
    """The name of the endpoint that holds the value."""
    owner_address: str
    """Where the owner is reached."""
    state: str
    """At the owner: placeholder, created, resolved, or alias: it stands for another object.

    Elsewhere: unconfirmed, confirmed, lost.
    """
    handles: int
    """Live Python handles in this process, in values and elsewhere, and one for each alias that
    lives here and stands for the object."""
    messages: int
    """Messages that contain it and have not been handled: serialized copies."""
    tasks: int
    """Calls on the object, and questions what it is, that are not answered, and forks and loans
    that are not settled."""
    contained_in: tuple[str, ...]
    """The objects that live here and whose values contain a handle of it."""
    contains: tuple[str, ...]
    """At the owner: the references that the value contains."""
    forks: Held
    """At the owner: known forks and borrowers, and who holds each."""
    loans: Held
    """Loans that brought it here and are not settled, and from whom."""
    pins: Held
    """Forks and loans passed on that are not settled, and to whom each went (G2)."""
    borrowers: Held
    """Elsewhere than at the owner: who borrowed it from here, for the owner to learn of."""
    target: str | None
    """At the owner of an alias: the object that it stands for, as the task returned it."""
    canonical: str | None
    """The object behind it, itself if it is no alias; None while this endpoint does not know."""
    aliases: Held
    """At the owner: the aliases that stand for it, and who owns each (the reverse map)."""
    names: dict[str, int]
    """The aliases under whose names handles of it go here, and how many of `handles` each has."""
    type: str | None
    """The value's type, at the owner."""
    on_delete: bool
    """Whether the program is told when it is freed, at the owner."""


def references() -> list[ReferenceInfo]:
    """Everything that the calling endpoint knows about references, sorted by id.

    Does not block. Values with many parts take a moment, about 0.1 s for 100,000; what they
    contain beyond that is not listed.
    """
    endpoint = frame().endpoint
    endpoint.turn()
    with endpoint.lock:  # the tables change in other threads
        loans = endpoint.context.borrowed()
        entries: list[Owner | User] = [
            *endpoint.context.owners.values(),
            *endpoint.context.users.values(),
        ]
        names = _names(endpoint)
        known = [(entry, endpoint.objects.stored(entry.rref)) for entry in entries]
        found = [
            (
                _row(endpoint, entry, stored, loans.get(entry.rref, []), names.get(entry.rref, {})),
                stored,
            )
            for entry, stored in known
        ]
    rows = {row.rref: replace(row, contains=_contents(stored)) for row, stored in found}
    containers: dict[str, list[str]] = defaultdict(list)
    for row in rows.values():
        for inner in row.contains:
            containers[inner].append(row.rref)
    return [
        replace(rows[rref], contained_in=tuple(sorted(containers[rref]))) for rref in sorted(rows)
    ]


def _names(endpoint: Endpoint) -> dict[RRefId, dict[str, int]]:
    """Of each object, the names that its handles have, if not its own."""
    names: dict[RRefId, dict[str, int]] = defaultdict(dict)
    for rref, name in endpoint.context.names.items():
        if name.handles:  # or only requests under it are not answered
            names[name.canonical][str(rref)] = name.handles
    return names


def _row(
    endpoint: Endpoint,
    entry: Owner | User,
    stored: Stored | None,
    loans: list[ForkId],
    names: dict[str, int],
) -> ReferenceInfo:
    if isinstance(entry, BorrowingUser):
        loans = [*loans, *entry.reported]
    role: Role
    alias = entry.alias if isinstance(entry, Owner) else None
    canonical = endpoint.context.canonical(entry.rref)
    if isinstance(entry, Owner):
        home, role = endpoint.me, "owner"
        state = "resolved" if entry.resolved else "created" if entry.created else "placeholder"
        state = state if alias is None else "alias"
        waiting = len(entry.pending) + len(entry.queue) + entry.running
        forks, pins = entry.forks, entry.lent if isinstance(entry, LendingOwner) else {}
    else:
        home, role = entry.owner, "user" if entry.confirmed or not loans else "borrower"
        state = "lost" if entry.lost else "confirmed" if entry.confirmed else "unconfirmed"
        waiting = len(entry.pending)
        forks, pins = {}, entry.children
    return ReferenceInfo(
        rref=str(entry.rref),
        role=role,
        owner=str(home),
        owner_address=str(endpoint.address_of(home)),
        state=state,
        handles=entry.handles,
        messages=entry.messages,
        tasks=waiting + len(pins),
        contained_in=(),
        contains=(),
        forks=_spelled(forks),
        loans=_spelled({fork: fork.parent for fork in loans}),
        pins=_spelled(pins),
        borrowers=_spelled(entry.borrowers if isinstance(entry, BorrowingUser) else {}),
        target=None if alias is None else str(alias.target),
        canonical=None if canonical is None else str(canonical),
        aliases=_spelled(entry.aliases if isinstance(entry, Owner) else {}),
        names=names,
        type=type(stored.value).__name__ if stored else None,
        on_delete=stored is not None and stored.on_delete is not None,
    )


def _spelled(forks: Mapping[ForkId, WorkerId] | Mapping[RRefId, WorkerId]) -> Held:
    return {str(fork): str(worker) for fork, worker in forks.items()}


def _contents(stored: Stored | None) -> tuple[str, ...]:
    """The ids of the references in a value, each once."""
    if stored is None:
        return ()
    handles = references_in(stored.value, opaque=(Endpoint,)).references
    return tuple(sorted({str(handle.id) for handle in handles if isinstance(handle, RRef)}))

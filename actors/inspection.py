"""What an endpoint knows of each reference, for people and programs to look at.

The counts are those of the protocol's machines, taken under the endpoint's lock, a long table in
several looks.
What the values contain is searched afterwards, without it: a value is the user's own. What all the
endpoints of a system know together is a `Snapshot`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from ..protocol.borrowing import BorrowingUser
from ..protocol.lending import LendingOwner
from ..protocol.owner import Owner
from ..serialization.contains import namespaces, references_in
from ..serialization.failures import Failure
from ..serialization.frozen import Frozen
from .current import frame
from .rref import RRef

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
    from ..protocol.user import User
    from ..serialization.contains import Contents
    from .endpoint import Endpoint
    from .objects import Stored

    Spell = Callable[[WorkerId | RRefId | ForkId | CallId], str]

Role = Literal["owner", "alias", "user", "borrower"]
LOOK = 200
"""Rows that are made in one look, under the lock."""
Held = dict[str, str]
"""Forks, each with the endpoint that it is about."""


@dataclass(frozen=True, slots=True, repr=False)
class ReferenceInfo:
    """One row of `references`: what an endpoint knows of one object.

    The first three counts together are the *local count* of the borrowing note: while one of
    them is not 0, the object is needed here.
    """

    worker: str
    """The endpoint that this row is of."""
    rref: str
    """The object's id, ``creator/number``; as in `RRef.id`."""
    role: Role
    """An alias is owned here, and stands for another object. A borrower holds it by a loan, and is
    not counted by the owner (yet)."""
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
    """The value's type, at the owner; ``error: ...`` if the value is an error."""
    size: int | None
    """Bytes of memory that the value takes, at the owner: about, and without what is behind the
    references in it."""
    complete: bool
    """False if the value has so many parts that not all were looked into: it is larger, and may
    contain more."""
    in_values: int
    """How many of `handles` are in the values of objects that live here; the others are in
    variables, or stand behind aliases."""
    requested: str | None
    """The fork or loan that the owner has been asked to count, and has not confirmed."""
    age: float
    """Seconds since this endpoint heard of it."""
    unsettled: float | None
    """Seconds since the oldest of `pins` was passed on; None if there is none."""
    site: str | None
    """Where it was created, ``file:line in function``, if the system notes that."""
    on_delete: bool
    """Whether the program is told when it is freed, at the owner."""
    frozen: bool = False
    """Whether nobody can change the value, at the owner."""
    shared: int = 0
    """Bytes of a frozen value that are in shared memory, at the owner."""
    owner_state: str | None = None
    """In a `Snapshot`: the `state` of the owner's row; None if the owner did not answer."""
    marks: tuple[str, ...] = ()
    """In a `Snapshot`: ``"cycle"`` (its value leads back to itself), ``"leak"`` (it is old, and
    nothing reaches it)."""

    def __repr__(self) -> str:
        """What there is to say of it: without what is empty, nothing or no."""
        said = ((each.name, getattr(self, each.name)) for each in fields(self))
        return f"ReferenceInfo({', '.join(f'{name}={value!r}' for name, value in said if value)})"


def references() -> list[ReferenceInfo]:
    """Everything that the calling endpoint knows about references, sorted by id.

    Does not block. Values with many parts take a moment, about 0.1 s for 100,000; what they
    contain beyond that is not listed.
    """
    endpoint = frame().endpoint
    endpoint.turn()
    return rows_of(endpoint, str)


def rows_of(endpoint: Endpoint, spell: Spell) -> list[ReferenceInfo]:
    """The rows of *endpoint*, its ids as *spell* spells them, sorted by id. In any thread."""
    known = _known(endpoint, spell)
    outside = namespaces()
    searched = {
        rref: references_in(stored.value, opaque=(type(endpoint),), outside=outside)
        for _, rref, stored in known
        if stored is not None
    }
    inside, containers = _containers(endpoint, searched)
    rows = []
    for row, rref, stored in known:
        more: dict[str, Any] = {}
        contents = searched.get(rref)
        if stored is not None and contents is not None:
            handles = [handle for handle in contents.references if isinstance(handle, RRef)]
            shared = stored.value.shared if isinstance(stored.value, Frozen) else 0
            more = {
                "contains": tuple(sorted({spell(handle.id) for handle in handles})),
                "type": _type_of(stored.value),
                "size": contents.size + shared,
                "complete": contents.complete,
                "frozen": isinstance(stored.value, Frozen),
                "shared": shared,
            }
        if rref in inside:
            more["contained_in"] = tuple(sorted(map(spell, containers[rref])))
            more["in_values"] = min(len(inside[rref]), row.handles)
        rows.append(replace(row, **more) if more else row)
    return sorted(rows, key=lambda row: row.rref)


def _known(endpoint: Endpoint, spell: Spell) -> list[tuple[ReferenceInfo, RRefId, Stored | None]]:
    """Every row, as far as the tables tell, and what is stored."""
    with endpoint.lock:  # the tables change in other threads
        rrefs = [*endpoint.context.owners, *endpoint.context.users]
        loans = endpoint.context.loans.borrowed()
        names = _names(endpoint)
    known = []
    for start in range(0, len(rrefs), LOOK):  # or the protocol would wait for a long table
        with endpoint.lock:
            for rref in rrefs[start : start + LOOK]:
                entry = endpoint.context.owners.get(rref) or endpoint.context.users.get(rref)
                if entry is not None:
                    row = _row(endpoint, entry, spell, loans.get(rref, []), names.get(rref, {}))
                    known.append((row, rref, endpoint.objects.stored(rref)))
    return known


def _names(endpoint: Endpoint) -> dict[RRefId, dict[RRefId, int]]:
    """Of each object, the names that its handles have, if not its own."""
    names: dict[RRefId, dict[RRefId, int]] = defaultdict(dict)
    for rref, name in endpoint.context.state.names.items():
        if name.handles:  # or only requests under it are not answered
            names[name.canonical][rref] = name.handles
    return names


def _containers(
    endpoint: Endpoint, searched: Mapping[RRefId, Contents]
) -> tuple[dict[RRefId, set[int]], dict[RRefId, set[RRefId]]]:
    """Of each object: the handles of it in values that live here, and whose values these are."""
    inside: dict[RRefId, set[int]] = defaultdict(set)
    containers: dict[RRefId, set[RRefId]] = defaultdict(set)
    with endpoint.lock:
        for rref, contents in searched.items():
            for handle in contents.references:
                if isinstance(handle, RRef) and handle._endpoint is endpoint:
                    for held in {handle.id, endpoint.context.whereabouts(handle.id)}:
                        inside[held].add(id(handle))
                        containers[held].add(rref)
    return inside, containers


def _row(
    endpoint: Endpoint,
    entry: Owner | User,
    spell: Spell,
    loans: list[ForkId],
    names: dict[RRefId, int],
) -> ReferenceInfo:
    now = time.monotonic()
    role: Role
    alias = entry.alias if isinstance(entry, Owner) else None
    canonical = endpoint.context.names.canonical(entry.rref)
    requested: ForkId | None = None
    if isinstance(entry, BorrowingUser):
        loans = [*loans, *entry.reported]
    if isinstance(entry, Owner):
        home = endpoint.me
        role = "owner" if alias is None else "alias"
        state = "resolved" if entry.resolved else "created" if entry.created else "placeholder"
        state = state if alias is None else "alias"
        waiting = len(entry.pending) + len(entry.queue) + (entry.running is not None)
        forks, pins = entry.forks, entry.lent if isinstance(entry, LendingOwner) else {}
    else:
        home, role = entry.owner, "user" if entry.confirmed or not loans else "borrower"
        state = "lost" if entry.lost else "confirmed" if entry.confirmed else "unconfirmed"
        waiting = len(entry.pending)
        forks, pins, requested = {}, entry.children, entry.requested
    passed_on = [endpoint.mints.age_of_fork(fork.number, now) for fork in pins]

    def spelled(held: Mapping[ForkId, WorkerId] | Mapping[RRefId, WorkerId]) -> Held:
        return {spell(each): spell(worker) for each, worker in held.items()}

    return ReferenceInfo(
        worker=spell(endpoint.me),
        rref=spell(entry.rref),
        role=role,
        owner=spell(home),
        owner_address=str(endpoint.address_of(home)),
        state=state,
        handles=entry.handles,
        messages=entry.messages,
        tasks=waiting + len(pins),
        contained_in=(),
        contains=(),
        forks=spelled(forks),
        loans=spelled({fork: fork.parent for fork in loans}),
        pins=spelled(pins),
        borrowers=spelled(entry.borrowers if isinstance(entry, BorrowingUser) else {}),
        target=None if alias is None else spell(alias.target),
        canonical=None if canonical is None else spell(canonical),
        aliases=spelled(entry.aliases if isinstance(entry, Owner) else {}),
        names={spell(each): count for each, count in names.items()},
        type=None,
        size=None,
        complete=True,
        in_values=0,
        requested=None if requested is None else spell(requested),
        age=max(0.0, now - entry.born),
        unsettled=max(passed_on, default=None),
        site=endpoint.sites.of(entry.rref),
        on_delete=_told(endpoint, entry),
    )


def _told(endpoint: Endpoint, entry: Owner | User) -> bool:
    stored = endpoint.objects.stored(entry.rref)
    return stored is not None and stored.on_delete is not None


def _type_of(value: object) -> str:
    if isinstance(value, Failure):
        return f"error: {value.type_name}"
    if isinstance(value, Frozen):
        return value.kind
    return type(value).__name__

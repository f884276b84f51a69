"""An endpoint's knowledge of each reference, for people and programs to inspect.

The counts come from the machines of the protocol. They are read under the lock of the endpoint,
in batches if the table is long. The contents of the values are searched afterwards without the
lock, because values belong to the user. A `Snapshot` combines the rows of all endpoints of a
system.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from ...printable import html_table
from ...protocol.borrowing import BorrowingUser
from ...protocol.ids import CallId, ForkId, RRefId, WorkerId
from ...protocol.lending import LendingOwner
from ...protocol.owner import Owner
from ...protocol.user import User
from ...serialization.contains import Contents, namespaces, references_in
from ...serialization.errors import Failure
from ...serialization.frozen import Frozen
from ..core.core import Core, Internal
from ..core.current import frame
from ..handles.front import Front
from ..handles.rref import RRef
from ..values.objects import Objects, Stored

Spell = Callable[[WorkerId | RRefId | ForkId | CallId], str]

Role = Literal["owner", "alias", "user", "borrower"]
BATCH = 200
"""The number of rows that are made while the lock is held once."""
SOME = 9
"""The most ids of one `Matches`: one more than an error names."""
Held = dict[str, str]
"""Forks, and the endpoint of each."""


class ReferenceInfo(msgspec.Struct, frozen=True):
    """One row of `references`: an endpoint's knowledge of one object.

    The first three counts together are the *local count* of the borrowing note: while one of
    them is not 0, the object is needed here.
    """

    worker: str
    """The endpoint of this row."""
    rref: str
    """The object's id, ``creator/number``; as in `RRef.id`."""
    role: Role
    """An alias is owned here, and stands for another object. A borrower holds it by a loan, and is
    not counted by the owner (yet)."""
    owner: str
    """The name of the endpoint that holds the value."""
    owner_address: str
    """The address of the owner."""
    state: str
    """At the owner: placeholder, created, resolved, or alias (it stands for another object).

    Elsewhere: unconfirmed, confirmed, lost.
    """
    handles: int
    """Live Python handles in this process, in values and elsewhere, and one for each local alias
    that stands for the object."""
    messages: int
    """Messages that contain it and have not been handled: serialized copies."""
    tasks: int
    """Unanswered calls, fetches and questions about the object; and unsettled forks and loans of
    it."""
    contained_in: tuple[str, ...]
    """The objects that live here and have a handle of it in their values."""
    contains: tuple[str, ...]
    """At the owner: the references that the value contains."""
    forks: Held
    """At the owner: known forks and borrowers, and the holder of each."""
    loans: Held
    """Unsettled loans that brought it here, and the lender of each."""
    pins: Held
    """Unsettled forks and loans that were passed on, and the receiver of each (G2)."""
    borrowers: Held
    """At other endpoints: borrowers that got it from here, which the owner is to learn of."""
    target: str | None
    """At the owner of an alias: the object that it stands for, as the task returned it."""
    canonical: str | None
    """The object behind it; its own id if it is not an alias; None while this is not known here."""
    aliases: Held
    """At the owner: the aliases that stand for it, and the owner of each (the reverse map)."""
    names: dict[str, int]
    """The aliases under which it has handles here, and the number of `handles` under each."""
    type: str | None
    """The value's type, at the owner; ``error: ...`` if the value is an error."""
    size: int | None
    """At the owner: about the bytes of memory that the value takes, without the objects behind
    the references in it."""
    complete: bool
    """False if the value has more parts than the search looks at: then it is larger than `size`,
    and may contain more references."""
    in_values: int
    """The number of `handles` in the values of objects that live here. The others are in
    variables, or stand behind aliases."""
    requested: str | None
    """The fork or loan that the owner was asked to count, and has not confirmed."""
    age: float
    """Seconds since this endpoint first heard of it."""
    unsettled: float | None
    """Seconds since the oldest of `pins` was passed on; None if there is none."""
    site: str | None
    """The place of its creation, ``file:line in function``, if the system notes that."""
    on_delete: bool
    """At the owner: whether the program is told when it is freed."""
    frozen: bool = False
    """At the owner: whether the value is immutable."""
    shared: int = 0
    """At the owner: bytes of a frozen value that are in shared memory."""
    owner_state: str | None = None
    """In a `Snapshot`: the `state` of the owner's row; None if the owner did not answer."""
    marks: tuple[str, ...] = ()
    """In a `Snapshot`: ``"cycle"`` (its value leads back to itself), ``"leak"`` (it is old, and
    nothing reaches it)."""

    def __repr__(self) -> str:
        """The fields that are not empty, 0, None or False."""
        said = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return f"ReferenceInfo({', '.join(f'{name}={value!r}' for name, value in said if value)})"


class ReferenceList(list[ReferenceInfo]):
    """A list of rows that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        heads = "endpoint", "reference", "role", "owner", "state", "handles", "messages", "tasks"
        rows = [
            (r.worker, r.rref, r.role, r.owner, r.state, r.handles, r.messages, r.tasks)
            for r in self
        ]
        return html_table(f"{len(rows)} references", heads, rows)


def references() -> ReferenceList:
    """Everything that the calling endpoint knows about references, sorted by id.

    Does not block. Values with many parts take a moment, about 0.1 s for 100,000 parts. If a value
    has more, the references in the rest of it are missing (`ReferenceInfo.complete`).
    """
    front: Front = frame().core.front
    front.core.step(list, gather=False)  # settle the dropped references
    return ReferenceList(rows_of(front.core, front.objects, str))


class Matches(msgspec.Struct, frozen=True):
    """What an endpoint knows of the ids that begin with a text, in full."""

    ids: tuple[str, ...]
    """The first of them."""
    lives: tuple[str, ...]
    """All endpoints in its tables: several may have one name, as some are dead."""


def matches_of(core: Core, prefix: str, spell: Spell) -> Matches:
    """The ids here that begin with *prefix*, with or without an incarnation. Any thread."""
    with core.lock:
        entries: list[Owner | User] = [*core.context.owners.values()]
        entries += core.context.users.values()
    lives: set[WorkerId] = set()
    for start in range(0, len(entries), BATCH):
        with core.lock:
            for entry in entries[start : start + BATCH]:
                lives.add(entry.rref.creator)
                if isinstance(entry, Owner):
                    lives.update(entry.forks.values())
                else:
                    lives.add(entry.owner)
    names = {each: (f"{each.name}/", f"{spell(each)}/") for each in lives}

    def begins(rref: RRefId) -> bool:
        return any(f"{name}{rref.number}".startswith(prefix) for name in names[rref.creator])

    found = [entry.rref for entry in entries if begins(entry.rref)]
    first = heapq.nsmallest(SOME, found)
    return Matches(tuple(map(spell, first)), tuple(map(spell, lives)))


def rows_of(
    core: Core, objects: Objects, spell: Spell, only: RRefId | None = None
) -> list[ReferenceInfo]:
    """The rows of an endpoint, sorted by id. *spell* makes the text of an id. Any thread.

    That of *only* one object has no `contained_in`, as no other value is searched.
    """
    known = _known(core, objects, spell, only)
    outside = namespaces()
    searched = {
        rref: references_in(stored.value, opaque=(Internal,), outside=outside)
        for _, rref, stored in known
        if stored is not None
    }
    inside, containers = _containers(core, searched)
    rows = []
    for row, rref, stored in known:
        more: dict[str, Any] = {}
        contents = searched.get(rref)
        if stored is not None and contents is not None:
            handles = [handle for handle in contents.references if isinstance(handle, RRef)]
            shared = stored.value.shared if type(stored.value) is Frozen else 0
            more = {
                "contains": tuple(sorted({spell(handle.id) for handle in handles})),
                "type": type_of(stored.value),
                "size": contents.size + shared,
                "complete": contents.complete,
                "frozen": type(stored.value) is Frozen,
                "shared": shared,
            }
        if rref in inside:
            more["contained_in"] = tuple(sorted(map(spell, containers[rref])))
            more["in_values"] = min(len(inside[rref]), row.handles)
        rows.append(msgspec.structs.replace(row, **more) if more else row)
    return sorted(rows, key=lambda row: row.rref)


def _known(
    core: Core, objects: Objects, spell: Spell, only: RRefId | None
) -> list[tuple[ReferenceInfo, RRefId, Stored | None]]:
    """Every row, filled from the tables, and the stored value."""
    with core.lock:  # the tables change in other threads
        rrefs = [*core.context.owners, *core.context.users] if only is None else [only]
        loans = core.context.loans.borrowed()
        names: dict[RRefId, dict[RRefId, int]] = defaultdict(dict)
        for other, name in core.context.state.names.items():
            if name.handles:  # else only requests under this name are open
                names[name.canonical][other] = name.handles
    known = []
    now = time.monotonic()  # one for all: objects that were made together have one age
    for start in range(0, len(rrefs), BATCH):  # a long table must not hold up the protocol
        with core.lock:
            for rref in rrefs[start : start + BATCH]:
                entry = core.context.owners.get(rref) or core.context.users.get(rref)
                if entry is not None:
                    stored = objects.stored(rref)
                    row = _row(
                        core,
                        entry,
                        stored,
                        now,
                        spell=spell,
                        loans=loans.get(rref, []),
                        names=names.get(rref, {}),
                    )
                    known.append((row, rref, stored))
    return known


def _containers(
    core: Core, searched: Mapping[RRefId, Contents]
) -> tuple[dict[RRefId, set[int]], dict[RRefId, set[RRefId]]]:
    """For each object: its handles in values that live here, and the owners of these values."""
    inside: dict[RRefId, set[int]] = defaultdict(set)
    containers: dict[RRefId, set[RRefId]] = defaultdict(set)
    with core.lock:
        for rref, contents in searched.items():
            for handle in contents.references:
                if isinstance(handle, RRef) and handle._front is core.front:
                    for held in {handle.id, core.context.whereabouts(handle.id)}:
                        inside[held].add(id(handle))
                        containers[held].add(rref)
    return inside, containers


def _row(
    core: Core,
    entry: Owner | User,
    stored: Stored | None,
    now: float,
    *,
    spell: Spell,
    loans: list[ForkId],
    names: dict[RRefId, int],
) -> ReferenceInfo:
    role: Role
    alias = entry.alias if isinstance(entry, Owner) else None
    canonical = core.context.names.canonical(entry.rref)
    requested: ForkId | None = None
    if isinstance(entry, BorrowingUser):
        loans = [*loans, *entry.reported]
    if isinstance(entry, Owner):
        home = core.me
        role = "owner" if alias is None else "alias"
        state = "resolved" if entry.resolved else "created" if entry.created else "placeholder"
        state = state if alias is None else "alias"
        requests = entry.queue.keys() | entry.aside  # some can go on
        waiting = len(entry.pending) + len(requests) + (entry.running is not None)
        forks, pins = entry.forks, entry.lent if isinstance(entry, LendingOwner) else {}
    else:
        home, role = entry.owner, "user" if entry.confirmed or not loans else "borrower"
        state = "lost" if entry.lost else "confirmed" if entry.confirmed else "unconfirmed"
        waiting = len(entry.pending)
        forks, pins, requested = {}, entry.children, entry.requested
    passed_on = [core.ages.of_fork(fork.number, now) for fork in pins]

    def spelled(held: Mapping[ForkId, WorkerId] | Mapping[RRefId, WorkerId]) -> Held:
        return {spell(each): spell(worker) for each, worker in held.items()}

    return ReferenceInfo(
        worker=spell(core.me),
        rref=spell(entry.rref),
        role=role,
        owner=spell(home),
        owner_address=str(core.address_of(home)),
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
        site=core.sites.of(entry.rref),
        on_delete=stored is not None and stored.on_delete is not None,
    )


def type_of(value: object) -> str:
    """The name of the type of a stored *value*, for people."""
    if type(value) is Failure:
        return f"error: {value.type_name}"
    if type(value) is Frozen:
        return value.kind
    return type(value).__name__

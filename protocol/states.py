"""The named states of an endpoint's records, and the table of their transitions.

An endpoint keeps five kinds of records: its view of an object that it owns, or uses; a loan or
another fork, at its parent or its child; a request, at its caller or at the owner of its object;
and an alias. No record stores its state. A state is read from the fields of `Tables`, which are the
only truth, so the machines pay nothing for it.

A transition is the effect of one *input* of a `Context`: of a method (`drop`, `resolve`), or of a
message that it takes (`Ack`). An input may always leave a record as it is; only changes are in the
table. The explorer compares every step with it (`tests/model/states.py`), and each row is reached
by a program, so none is invented. docs/protocol.md prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum

from .borrowing import BorrowingUser
from .effects import Resume
from .state import Tables

Reader = Callable[[Tables], Iterator[tuple[Hashable, Enum]]]


class OwnerState(Enum):
    """An object that lives here (see `owner`)."""

    ABSENT = "no entry: the object has not been heard of, or it has been freed"
    PLACEHOLDER = "another message overtook the creation, or the endpoint creates it for itself"
    CREATED = "the creation has come, and its function has not returned"
    ALIAS = "the function has returned a reference: the object stands for that one's object"
    RESOLVED = "the value is there, or the error in its place"


class UserState(Enum):
    """An object that lives elsewhere and is used here (see `user`)."""

    ABSENT = "no entry"
    BORROWED = "only loans keep it: the owner has not been asked to count this endpoint"
    PENDING = "the owner has been asked to count this endpoint, and has not acknowledged it"
    CONFIRMED = "the owner counts this endpoint"
    LOST = "the owner died"


class LoanState(Enum):
    """A loan, or any other fork, at its parent or its child (see `lending`, `borrowing`)."""

    ABSENT = "no record: it has not been made, has ended, or another loan covers it"
    LENT = "parent: the call has not been answered"
    ACKNOWLEDGED = "parent: the call has not been answered, and the `ChildAck` has come"
    PINNED = "parent: until the `ChildAck`; by *borrow*, a loan until the call has been answered"
    LISTED = "parent: the child is in the table of borrowers"
    BORROWED = "child: the request that brought it waits or runs"
    OWED = "child: the parent gets a `ChildAck` as soon as the owner counts this endpoint"
    REPORTED = "child: the reply has reported it as held, and no notice of the owner has come"
    ASKED = "child: the owner has been asked to count it"
    COUNTED = "the owner counts it"


class RequestState(Enum):
    """A call, a fetch or a creation by a method, at its caller or at the owner of its object."""

    ABSENT = "no record: it has not been made, or it has been answered"
    HELD = "caller: it must not overtake earlier requests on the reference (see `names`)"
    SENT = "caller: it has left, and has not been answered"
    QUEUED = "owner: it has not begun"
    RUNNING = "owner: it has the turn; if the object is not serial, it has begun"
    PAUSED = "owner: it stands aside, as its code awaits"
    RESUMING = "owner: it stands aside and lines up for a turn"
    RELAYED = "owner of an alias: it has been passed on to the canonical object"


class AliasState(Enum):
    """An object that lives here and stands for another one (see `aliases`)."""

    ABSENT = "no record: it is no alias, or no longer one"
    UNRESOLVED = "its owner does not know the canonical object"
    EARLY = "its owner alone knows the canonical object, as a creation passed on is on its way"
    SHOWN = "everybody may know the canonical object"
    GONE = "it was freed or has an error for a value, and a question of its is unanswered"


def owners(tables: Tables) -> Iterator[tuple[Hashable, OwnerState]]:
    """The objects that live here, and the state of each."""
    for rref, owner in tables.owners.items():
        if owner.resolved:
            yield rref, OwnerState.RESOLVED
        elif owner.alias is not None:
            yield rref, OwnerState.ALIAS
        else:
            yield rref, OwnerState.CREATED if owner.created else OwnerState.PLACEHOLDER


def users(tables: Tables) -> Iterator[tuple[Hashable, UserState]]:
    """The objects that are used here, and the state of each."""
    for rref, user in tables.users.items():
        if user.lost:
            yield rref, UserState.LOST
        elif user.known:
            yield rref, UserState.CONFIRMED
        else:
            yield rref, UserState.BORROWED if user.requested is None else UserState.PENDING


def loans(tables: Tables) -> Iterator[tuple[Hashable, LoanState]]:
    """The loans and forks, each at its parent, its child or both; the last state of each counts."""
    for owner in tables.owners.values():
        for fork in owner.forks:
            yield ("parent", fork), LoanState.LENT if fork in owner.lent else LoanState.COUNTED
    for user in tables.users.values():
        borrowing = user if isinstance(user, BorrowingUser) else None
        for fork in borrowing.borrowers if borrowing else ():
            yield ("parent", fork), LoanState.LISTED
        for fork in user.children:
            yield ("parent", fork), PARENTS[user.lent.get(fork)]
        for fork in user.loans:
            yield ("child", fork), LoanState.BORROWED
        if borrowing and borrowing.guardian is not None:
            yield ("child", borrowing.guardian), LoanState.BORROWED
        for fork in user.owed:
            yield ("child", fork), LoanState.OWED
        for fork in borrowing.reported if borrowing else ():
            yield ("child", fork), LoanState.REPORTED
        if user.requested is not None:
            yield ("child", user.requested), LoanState.ASKED
        for fork in user.known:
            yield ("child", fork), LoanState.COUNTED


PARENTS = {None: LoanState.PINNED, False: LoanState.LENT, True: LoanState.ACKNOWLEDGED}
"""The state of a child by its value in `User.lent`; None: it is not there."""


def requests(tables: Tables) -> Iterator[tuple[Hashable, RequestState]]:
    """The requests, each at its caller, its object or both; the last state of each counts."""
    for call in (*tables.waiting, *(call for _, call in tables.creating.values())):
        held = call in tables.held_calls
        yield ("caller", call), RequestState.HELD if held else RequestState.SENT
    for owner in tables.owners.values():
        for call in owner.aside:
            yield ("owner", call), RequestState.PAUSED if owner.serial else RequestState.RUNNING
        for call, (_, request) in owner.queue.items():
            resumes = isinstance(request, Resume)
            yield ("owner", call), RequestState.RESUMING if resumes else RequestState.QUEUED
        if owner.running is not None:
            yield ("owner", owner.running), RequestState.RUNNING
    for call in tables.relayed:
        yield ("owner", call), RequestState.RELAYED


def aliases(tables: Tables) -> Iterator[tuple[Hashable, AliasState]]:
    """The aliases that live here, and the state of each."""
    for rref, alias in tables.aliases.items():
        if alias.gone:
            yield rref, AliasState.GONE
        elif alias.canonical is None:
            yield rref, AliasState.UNRESOLVED
        else:
            yield rref, AliasState.EARLY if alias.early else AliasState.SHOWN


MACHINES: dict[str, tuple[type[Enum], Reader]] = {
    "owner": (OwnerState, owners),
    "user": (UserState, users),
    "loan": (LoanState, loans),
    "request": (RequestState, requests),
    "alias": (AliasState, aliases),
}
"""The states of each kind of records, and the function that reads them."""

GROUPS: dict[str, str] = {
    "ARRIVAL": "Call Canonical Create Invoke Reply Tell",
    "SHARING": "fork_all give_all lend_all AliasRef Canonical Create Fetch Invoke Reply",
    "HANDLED": "refuse reply resolve stand_for Reply",
    "RELEASE": (
        "abandon bury died done drop refuse release reply resolve stand_for take_up Ack AliasRef "
        "Call Canonical ChildAck Create Delete Invoke NotifyRefRemoved RefRemoved Reply Returned "
        "Tell"
    ),
}
"""Inputs that may bring references; that may share some, as an alias's owner does when it passes a
request or an answer on; by which a request has been handled; and that may let go of something."""

TRANSITIONS: tuple[tuple[Enum, Enum, str], ...] = (
    (OwnerState.ABSENT, OwnerState.PLACEHOLDER, "create ARRIVAL AliasRef Fetch ForkRequest"),
    (OwnerState.ABSENT, OwnerState.CREATED, "Create"),
    (OwnerState.ABSENT, OwnerState.ALIAS, "Create"),
    (OwnerState.ABSENT, OwnerState.RESOLVED, "own"),
    (OwnerState.PLACEHOLDER, OwnerState.CREATED, "Create"),
    (OwnerState.PLACEHOLDER, OwnerState.ALIAS, "Create"),
    (OwnerState.PLACEHOLDER, OwnerState.RESOLVED, "resolve"),
    (OwnerState.PLACEHOLDER, OwnerState.ABSENT, "resolve"),
    (OwnerState.CREATED, OwnerState.ALIAS, "stand_for Canonical"),
    (OwnerState.CREATED, OwnerState.RESOLVED, "resolve"),
    (OwnerState.CREATED, OwnerState.ABSENT, "resolve stand_for Canonical"),
    (OwnerState.ALIAS, OwnerState.CREATED, "died AliasRef"),
    (OwnerState.ALIAS, OwnerState.ABSENT, "RELEASE"),
    (OwnerState.RESOLVED, OwnerState.ABSENT, "RELEASE"),
    (UserState.ABSENT, UserState.BORROWED, "Call Create Invoke"),
    (UserState.ABSENT, UserState.PENDING, "create died ARRIVAL"),
    (UserState.ABSENT, UserState.CONFIRMED, "ARRIVAL"),
    (UserState.ABSENT, UserState.LOST, "ARRIVAL"),
    (UserState.BORROWED, UserState.PENDING, "died ARRIVAL HANDLED"),
    (UserState.BORROWED, UserState.CONFIRMED, "ARRIVAL NotifyRefRemoved"),
    (UserState.BORROWED, UserState.LOST, "died"),
    (UserState.BORROWED, UserState.ABSENT, "RELEASE"),
    (UserState.PENDING, UserState.CONFIRMED, "ARRIVAL Ack NotifyRefRemoved"),
    (UserState.PENDING, UserState.LOST, "died"),
    (UserState.PENDING, UserState.ABSENT, "died Ack"),
    (UserState.CONFIRMED, UserState.LOST, "died"),
    (UserState.CONFIRMED, UserState.ABSENT, "RELEASE"),
    (UserState.LOST, UserState.ABSENT, "RELEASE"),
    (LoanState.ABSENT, LoanState.LENT, "SHARING"),
    (LoanState.ABSENT, LoanState.PINNED, "SHARING"),
    (LoanState.ABSENT, LoanState.LISTED, "died Reply"),
    (LoanState.ABSENT, LoanState.BORROWED, "Call Create Invoke"),
    (LoanState.ABSENT, LoanState.OWED, "ARRIVAL"),
    (LoanState.ABSENT, LoanState.ASKED, "create died ARRIVAL"),
    (LoanState.ABSENT, LoanState.COUNTED, "ARRIVAL SHARING ForkRequest RefRemoved"),
    (LoanState.LENT, LoanState.ACKNOWLEDGED, "ChildAck"),
    (LoanState.LENT, LoanState.PINNED, "Reply"),
    (LoanState.LENT, LoanState.COUNTED, "Reply"),
    (LoanState.LENT, LoanState.ABSENT, "RELEASE"),
    (LoanState.ACKNOWLEDGED, LoanState.ABSENT, "RELEASE"),
    (LoanState.PINNED, LoanState.LISTED, "Reply Returned"),
    (LoanState.PINNED, LoanState.ABSENT, "RELEASE"),
    (LoanState.LISTED, LoanState.ABSENT, "RELEASE"),
    (LoanState.BORROWED, LoanState.OWED, "HANDLED"),
    (LoanState.BORROWED, LoanState.REPORTED, "HANDLED"),
    (LoanState.BORROWED, LoanState.ASKED, "died HANDLED"),
    (LoanState.BORROWED, LoanState.ABSENT, "RELEASE"),
    (LoanState.OWED, LoanState.ABSENT, "RELEASE"),
    (LoanState.REPORTED, LoanState.COUNTED, "NotifyRefRemoved"),
    (LoanState.REPORTED, LoanState.ABSENT, "RELEASE"),
    (LoanState.ASKED, LoanState.COUNTED, "Ack"),
    (LoanState.ASKED, LoanState.ABSENT, "died Ack"),
    (LoanState.COUNTED, LoanState.ABSENT, "RELEASE"),
    (RequestState.ABSENT, RequestState.HELD, "invoke"),
    (
        RequestState.ABSENT,
        RequestState.SENT,
        "call create died fetch invoke Canonical Create Fetch Invoke",
    ),
    (RequestState.ABSENT, RequestState.QUEUED, "Create Fetch Invoke"),
    (RequestState.ABSENT, RequestState.RUNNING, "Create Fetch Invoke"),
    (RequestState.ABSENT, RequestState.RELAYED, "Fetch Invoke"),
    (RequestState.HELD, RequestState.SENT, "Ack Reply"),
    (RequestState.SENT, RequestState.HELD, "Reply"),
    (RequestState.SENT, RequestState.ABSENT, "died Ack Create Reply"),
    (RequestState.QUEUED, RequestState.RUNNING, "done pause resolve"),
    (RequestState.QUEUED, RequestState.RELAYED, "died Canonical"),
    (RequestState.QUEUED, RequestState.ABSENT, "Cancel Canonical Create Probe"),
    (RequestState.RUNNING, RequestState.PAUSED, "pause"),
    (RequestState.RUNNING, RequestState.ABSENT, "done"),
    (RequestState.PAUSED, RequestState.RUNNING, "resume"),
    (RequestState.PAUSED, RequestState.RESUMING, "resume"),
    (RequestState.RESUMING, RequestState.RUNNING, "done pause"),
    (RequestState.RELAYED, RequestState.ABSENT, "died Reply"),
    (AliasState.ABSENT, AliasState.UNRESOLVED, "stand_for Canonical Create"),
    (AliasState.ABSENT, AliasState.GONE, "stand_for Canonical"),
    (AliasState.UNRESOLVED, AliasState.EARLY, "Canonical"),
    (AliasState.UNRESOLVED, AliasState.SHOWN, "died Canonical"),
    (AliasState.UNRESOLVED, AliasState.GONE, "RELEASE"),
    (AliasState.UNRESOLVED, AliasState.ABSENT, "died Canonical"),
    (AliasState.EARLY, AliasState.SHOWN, "Ack"),
    (AliasState.EARLY, AliasState.ABSENT, "RELEASE"),
    (AliasState.SHOWN, AliasState.GONE, "RELEASE"),
    (AliasState.SHOWN, AliasState.ABSENT, "RELEASE"),
    (AliasState.GONE, AliasState.ABSENT, "died Canonical"),
)
"""Each state, a state that may follow, and the inputs and groups by which it does."""


def inputs(which: str) -> list[str]:
    """All inputs in *which*, names of inputs and groups."""
    return [each for name in which.split() for each in GROUPS.get(name, name).split()]

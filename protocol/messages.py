"""What endpoints say to each other about references.

Two families. **Control messages** carry the protocol alone; the user's code never sees
them. **User messages** carry something of the user's (a function, arguments, a value) in
a `Cargo`, and beside it one `Descriptor` for every reference inside. The descriptors
travel *beside* the bytes, never only inside them, so an endpoint that cannot unpickle a
message, or does not live long enough to, still settles every fork in it (G5).

The reference machines assume that each message takes effect at most once and in **any
order**, also between one pair of endpoints; `delivery` gives more than that. There is no
message that only makes sense after another one between the same two endpoints.

====================  ====================  ============================================
message               from -> to            in the notes' words
====================  ====================  ============================================
`ForkRequest`         child user -> owner   "C sends out a fork request to the owner B"
`Ack`                 owner -> user         B confirms a fork, or "acknowledges {100, 1}"
`ChildAck`            child -> parent       "the child ACK to A": the parent may unpin
`Delete`              user -> owner         G1: the owner is told of the user's end
`Returned`            callee -> lender      the part of a task's reply that settles loans
`NotifyRefRemoved`    owner -> borrower     "F asks G to notify F once G is done using x"
`RefRemoved`          borrower -> owner     "G replies to F"
====================  ====================  ============================================

The last two are the borrowing discipline's alone. See `sharing` for the three disciplines.

A call's *chain* names the objects whose methods, further up, wait for this very call. An
object that finds itself in the chain would wait for itself, and refuses instead (G6).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, get_args

from .ids import CallId, ForkId, RRefId, WorkerId
from .wellformed import check

if TYPE_CHECKING:
    from collections.abc import Iterator


class Passing(Enum):
    """How a reference in a message is shared with the receiver."""

    FORK = "fork"
    """For good: the receiver becomes a user that the owner counts."""
    LOAN = "loan"
    """For a call: the sender keeps it alive until the callee has replied."""
    BACK = "back"
    """A loan in the reply to its call: the lender, who kept it alive, gets it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A child reference on its way: which object, which fork, whose, and from whom.

    *parent* minted *fork*, and sends it, except that a loan comes back under the lender's own.
    """

    rref: RRefId
    fork: ForkId
    owner: WorkerId
    parent: WorkerId
    passing: Passing = Passing.FORK
    counted: bool = False
    """Of a loan: the owner counts the lender, and does so as long as the loan lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of a loan when its call had run: the callee tells the lender."""

    rref: RRefId
    fork: ForkId
    owner: WorkerId
    held: bool
    """The callee still holds the reference, and is held by this loan."""
    borrowers: tuple[tuple[ForkId, WorkerId], ...] = ()
    """To whom the callee lent it on, and who still hold it: the lender's to count from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo:
    """Something of the user's: an opaque payload and the references that are in it."""

    payload: object = None
    descriptors: tuple[Descriptor, ...] = ()


# ---- control messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Child user -> owner: *fork* of *rref* lives with me; count it and tell me so."""

    rref: RRefId
    fork: ForkId


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Owner -> user: *fork* is counted. Answers a `ForkRequest` and a `Create` alike."""

    rref: RRefId
    fork: ForkId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAck:
    """Child -> parent: the owner counts me, so *fork* no longer needs your pin (G2)."""

    rref: RRefId
    fork: ForkId


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """User -> owner: these forks of *rref*, all that I had, are gone (G1)."""

    rref: RRefId
    forks: tuple[ForkId, ...]
    borrowers: tuple[tuple[ForkId, WorkerId], ...] = ()
    """Who borrowed it from me and still holds it: the owner's to count from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """Callee -> lender: a creation has run, and this is what became of the loans in it.

    Only a creation needs it, for other calls have replies for this to ride on.
    """

    loans: tuple[Report, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyRefRemoved:
    """Owner -> borrower: I count these loans of yours; tell me when you let go of each."""

    loans: tuple[tuple[RRefId, ForkId], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefRemoved:
    """Borrower -> owner: these are gone, as you asked to be told."""

    removed: tuple[Delete, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Caller -> callee: do not start *call* if you have not yet; answer it all the same.

    *rref* is the object in whose queue the call waits, if it is a call on an object.
    """

    call: CallId
    rref: RRefId | None = None


# ---- user messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Actor -> actor: a one-way message of the user's."""

    cargo: Cargo


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Caller -> callee: run this function and reply with what it returns."""

    call: CallId
    cargo: Cargo
    chain: tuple[RRefId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Creator -> owner: run this, own the result as *rref*; *fork* is my user of it.

    With *target* the function is a method of that object and waits for its turn there.
    All objects that the creator had this owner make before number *settled* have been
    acknowledged: the owner knows one of them that it does not have to be freed.
    """

    call: CallId
    rref: RRefId
    fork: ForkId
    cargo: Cargo
    target: RRefId | None = None
    settled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """User -> owner: run this method of the object *rref* and reply."""

    call: CallId
    rref: RRefId
    cargo: Cargo
    chain: tuple[RRefId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """User -> owner: reply with a copy of the value of *rref*, once there is one.

    With *copy* false the reply only says that there is one: that is how ``wait`` asks.
    """

    call: CallId
    rref: RRefId
    copy: bool = True
    chain: tuple[RRefId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Callee -> caller: the outcome of *call*, and what became of the loans in it.

    A loan of the call that *loans* does not name was returned, with nothing to say about it.
    """

    call: CallId
    cargo: Cargo
    loans: tuple[Report, ...] = ()


Control = ForkRequest | Ack | ChildAck | Delete | Cancel | Returned | NotifyRefRemoved | RefRemoved
Request = Call | Create | Invoke | Fetch
ObjectRequest = Create | Invoke | Fetch
UserMessage = Tell | Reply | Request
Message = Control | UserMessage

_KINDS: tuple[type, ...] = get_args(Message)


def check_message(message: object) -> None:
    """Raise `ProtocolError` unless *message* is one of these, and right in every field."""
    check(message, _KINDS, "message between endpoints")


def borrowers_in(message: Message) -> Iterator[tuple[ForkId, WorkerId]]:
    """The borrowers that *message* hands over, whom its receiver may never have heard of."""
    match message:
        case Reply(loans=reports) | Returned(loans=reports):
            for report in reports:
                yield from report.borrowers
        case RefRemoved(removed=removed):
            for each in removed:
                yield from each.borrowers
        case _:
            pass

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
`AliasRef`            alias's -> target's   "AliasObjectIDs(ref_h, ref_g)"
                      owner
`Canonical`           target's -> alias's   "the scheduler also notifies the worker's local
                      owner                 object store that ref is an alias for c_ref"
`AliasGone`           alias's -> target's   the reverse map "when we ... deallocate an object"
                      owner
`Probe`               who waits -> who is   (not in the notes)
                      asked
`RoomAsked`           sender -> receiver    (not in the notes)
`RoomGiven`           receiver -> sender    (not in the notes)
====================  ====================  ============================================

`NotifyRefRemoved` and `RefRemoved` are the borrowing discipline's alone; see `sharing` for the
three disciplines, `aliases` for those about aliases, `rings` for `Probe`, and `room` for the last
two, which are about messages, not about references: delivery keeps them to itself.

A call's *chain* names the objects whose methods, further up, wait for this very call. An
object that finds itself in the chain would wait for itself, and refuses instead (G6). Along several
chains `rings` finds it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from .ids import CallId, ForkId, Number, RRefId, WorkerId
from .wellformed import check

if TYPE_CHECKING:
    from collections.abc import Iterator


Flow = Literal["mail", "requests", "results"]
"""User messages of one flow keep their order (see `room`)."""
FLOWS: tuple[Flow, ...] = get_args(Flow)


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A part of a message; on the wire (see `packets`) its fields are a row without names.

    Nothing that it refers to refers back to it, so the collector need not know of it.
    """


class Said(Part, frozen=True, tag=True):
    """A message; on the wire its row begins with the name of its class."""


class Passing(Enum):
    """How a reference in a message is shared with the receiver."""

    FORK = "fork"
    """For good: the receiver becomes a user that the owner counts."""
    LOAN = "loan"
    """For a call: the sender keeps it alive until the callee has replied."""
    BACK = "back"
    """A loan in the reply to its call: the lender, who kept it alive, gets it back."""


class Descriptor(Part, frozen=True, kw_only=True):
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
    name: RRefId | None = None
    """What the handles in the message call it: the alias that turned out to be *rref*, if any."""


class Report(Part, frozen=True, kw_only=True):
    """What became of a loan when its call had run: the callee tells the lender."""

    rref: RRefId
    fork: ForkId
    owner: WorkerId
    held: bool
    """The callee still holds the reference, and is held by this loan."""
    borrowers: tuple[tuple[ForkId, WorkerId], ...] = ()
    """To whom the callee lent it on, and who still hold it: the lender's to count from now on."""


class Cargo(Part, frozen=True, kw_only=True):
    """Something of the user's: an opaque payload and the references that are in it."""

    payload: object = None
    descriptors: tuple[Descriptor, ...] = ()


class Moved(Part, frozen=True, kw_only=True):
    """An alias is another object: here is a fork of that, and which way it goes there."""

    fork: Descriptor
    path: tuple[RRefId, ...]
    """From the alias's target, alias by alias, to the canonical object. Long ones are cut."""


# ---- control messages


class ForkRequest(Said, frozen=True, kw_only=True):
    """Child user -> owner: *fork* of *rref* lives with me; count it and tell me so."""

    rref: RRefId
    fork: ForkId


class Ack(Said, frozen=True, kw_only=True):
    """Owner -> user: *fork* is counted. Answers a `ForkRequest` and a `Create` alike."""

    rref: RRefId
    fork: ForkId


class ChildAck(Said, frozen=True, kw_only=True):
    """Child -> parent: the owner counts me, so *fork* no longer needs your pin (G2)."""

    rref: RRefId
    fork: ForkId


class Delete(Said, frozen=True, kw_only=True):
    """User -> owner: these forks of *rref*, all that I had, are gone (G1)."""

    rref: RRefId
    forks: tuple[ForkId, ...]
    borrowers: tuple[tuple[ForkId, WorkerId], ...] = ()
    """Who borrowed it from me and still holds it: the owner's to count from now on."""


class Returned(Said, frozen=True, kw_only=True):
    """Callee -> lender: a creation has run, and this is what became of the loans in it.

    Only a creation needs it, for other calls have replies for this to ride on.
    """

    loans: tuple[Report, ...]


class NotifyRefRemoved(Said, frozen=True, kw_only=True):
    """Owner -> borrower: I count these loans of yours; tell me when you let go of each."""

    loans: tuple[tuple[RRefId, ForkId], ...]


class RefRemoved(Said, frozen=True, kw_only=True):
    """Borrower -> owner: these are gone, as you asked to be told."""

    removed: tuple[Delete, ...]


class AliasRef(Said, frozen=True, kw_only=True):
    """Owner of an alias -> owner of its target: *alias* stands for *rref*; what is that?

    Answered by one `Canonical`, once it is known. *label* is the greatest id of an alias from
    which the way leads here, so far; it is said again when a greater one is heard of.
    """

    call: CallId
    rref: RRefId
    alias: RRefId
    label: RRefId


class Canonical(Said, frozen=True, kw_only=True):
    """Owner of a target -> owner of an alias of it: it has a value, or stands for what has."""

    call: CallId
    rref: RRefId
    moved: Moved | None = None
    """None: *rref* is canonical itself."""


class AliasGone(Said, frozen=True, kw_only=True):
    """Owner of an alias -> owner of its target: *alias* does not stand for *rref* any more."""

    rref: RRefId
    alias: RRefId


class Hop(Part, frozen=True, kw_only=True):
    """A wait that a `Probe` has followed: *run* goes on when *call* has been answered."""

    run: CallId
    call: CallId
    number: Number = 0
    """Tells this wait of *run* from all its others."""
    what: str = ""
    """The wait in words, for people."""


class Probe(Said, frozen=True, kw_only=True):
    """Who waits -> who is asked: I wait for *call*, on *rref*; does that wait for *start*?

    *start* is the object on which requests have been queued for long. *path* is the way from
    there, and *before*, in the second lap of a ring, the way of the first.
    """

    start: RRefId
    call: CallId | None = None
    rref: RRefId | None = None
    path: tuple[Hop, ...] = ()
    before: tuple[Hop, ...] = ()


class Cancel(Said, frozen=True, kw_only=True):
    """Caller -> callee: do not start *call* if you have not yet; answer it all the same.

    It always follows its call. One that is cancelled before it has left says so itself.
    *rref* is the object in whose queue the call waits, if it is a call on an object.
    """

    call: CallId
    rref: RRefId | None = None


class RoomAsked(Said, frozen=True, kw_only=True):
    """Sender -> receiver: have you room for more of *flow*? Answered by `RoomGiven`."""

    flow: Flow


class RoomGiven(Said, frozen=True, kw_only=True):
    """Receiver -> sender: I have room for as much of *flow* as I had before you asked."""

    flow: Flow


# ---- user messages


class Tell(Said, frozen=True, kw_only=True):
    """Actor -> actor: a one-way message of the user's."""

    cargo: Cargo


class Call(Said, frozen=True, kw_only=True):
    """Caller -> callee: run this function and reply with what it returns."""

    call: CallId
    cargo: Cargo
    chain: tuple[RRefId, ...] = ()


class Create(Said, frozen=True, kw_only=True):
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
    settled: Number = 0


class Invoke(Said, frozen=True, kw_only=True):
    """User -> owner: run this method of the object *rref* and reply.

    With *cancelled* do not run it, and reply all the same: its caller took it back while it waited
    there to be sent.
    """

    call: CallId
    rref: RRefId
    cargo: Cargo
    chain: tuple[RRefId, ...] = ()
    cancelled: bool = False


class Fetch(Said, frozen=True, kw_only=True):
    """User -> owner: reply with a copy of the value of *rref*, once there is one.

    With *copy* false the reply says that there is one: that is how ``wait`` asks. With
    *direct* an alias does not pass the request on but answers where the value is: so a value
    travels once, and by no detour. *cancelled* is as in `Invoke`.
    """

    call: CallId
    rref: RRefId
    copy: bool = True
    direct: bool = False
    chain: tuple[RRefId, ...] = ()
    cancelled: bool = False


class Reply(Said, frozen=True, kw_only=True):
    """Callee -> caller: the outcome of *call*, and what became of the loans in it.

    A loan of the call that *loans* does not name was returned, with nothing to say about it.
    """

    call: CallId
    cargo: Cargo
    loans: tuple[Report, ...] = ()
    relayed: bool = False
    """The object that was called is an alias, whose owner passed the call on."""
    refused: bool = False
    """It was not run, so the object may be an alias, or become one, all the same."""
    moved: Moved | None = None
    """The object that was called is an alias, and where the caller finds its value from now on.

    If the call was not passed on this is the whole answer: there is a value, and it is there.
    """


Control = (
    ForkRequest
    | Ack
    | ChildAck
    | Delete
    | Cancel
    | Returned
    | NotifyRefRemoved
    | RefRemoved
    | AliasRef
    | Canonical
    | AliasGone
    | Probe
    | RoomAsked
    | RoomGiven
)
Request = Call | Create | Invoke | Fetch
ObjectRequest = Create | Invoke | Fetch
UserMessage = Tell | Reply | Request
Message = Control | UserMessage

KINDS: tuple[type, ...] = get_args(Message)
"""All of them."""


def check_message(message: object) -> None:
    """Raise `ProtocolError` unless *message* is one of these, and right in every field."""
    check(message, KINDS, "message between endpoints")


def target_of(request: Request) -> RRefId | None:
    """The object that *request* occupies while it runs."""
    match request:
        case Create(target=target):
            return target
        case Invoke(rref=rref) | Fetch(rref=rref):
            return rref
        case Call():
            return None


def chain_of(request: Request | Tell) -> tuple[RRefId, ...]:
    """The objects that wait while *request* runs."""
    match request:
        case Call(chain=chain):
            return chain
        case Invoke(rref=rref, chain=chain):
            return (*chain, rref)
        case Create(rref=rref, target=target):
            return (rref,) if target is None else (rref, target)
        case Fetch() | Tell():
            return ()


FLOW_OF: dict[type, Flow] = {
    Tell: "mail",
    **dict.fromkeys((Call, Create, Invoke, Fetch, Cancel), "requests"),
    Reply: "results",
}
"""The flows of the messages that need room (see `room`); the rest is control."""
ABOUT_ROOM = frozenset({RoomAsked, RoomGiven})
"""What delivery says to delivery: nothing else is to be done about these."""

NAMING = frozenset({Reply, Returned, RefRemoved, Canonical})
"""The kinds of messages that `strangers_in` finds somebody in."""


def strangers_in(message: Message) -> Iterator[WorkerId]:
    """Whom *message* names beside its payload, and its receiver may never have heard of.

    Those are borrowers that it hands over, and the owner of what an alias turned out to be.
    """
    match message:
        case Reply(loans=reports) | Returned(loans=reports):
            for report in reports:
                yield from (worker for _, worker in report.borrowers)
        case RefRemoved(removed=removed):
            for each in removed:
                yield from (worker for _, worker in each.borrowers)
        case _:
            pass
    match message:
        case Reply(moved=Moved(fork=fork)) | Canonical(moved=Moved(fork=fork)):
            yield fork.owner
        case _:
            pass

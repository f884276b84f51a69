"""The messages between endpoints about references.

There are two families. **Control messages** carry only the protocol; the user's code never sees
them. **User messages** carry the user's data (a function, arguments, a value) in a `Cargo`, with
one `Descriptor` for every reference inside. The descriptors travel *beside* the bytes, never only
inside them. So an endpoint that cannot unpickle a message, or dies too early to do so, still
ends every fork in it (G5).

The reference machines assume that each message takes effect at most once and in **any order**, also
between one pair of endpoints; `delivery` guarantees more than that. No message depends on an
earlier one between the same two endpoints.

====================  ====================  ============================================
message               from -> to            in the notes' words
====================  ====================  ============================================
`ForkRequest`         child user -> owner   "C sends out a fork request to the owner B"
`Ack`                 owner -> user         B confirms a fork, or "acknowledges {100, 1}"
`ChildAck`            child -> parent       "the child ACK to A": the parent may unpin
`Delete`              user -> owner         G1: the owner is told of the user's end
`Returned`            callee -> lender      the part of a task's reply that ends loans
`NotifyRefRemoved`    owner -> borrower     "F asks G to notify F once G is done using x"
`RefRemoved`          borrower -> owner     "G replies to F"
`AliasRef`            alias's -> target's   "AliasObjectIDs(ref_h, ref_g)"
                      owner
`Canonical`           target's -> alias's   "the scheduler also notifies the worker's local
                      owner                 object store that ref is an alias for c_ref"
`AliasGone`           alias's -> target's   the reverse map "when we ... deallocate an object"
                      owner
====================  ====================  ============================================

Only the borrowing discipline uses `NotifyRefRemoved` and `RefRemoved`. See `sharing` for the three
disciplines and `aliases` for the messages about aliases. The notes do not have the others:
`requests` uses `Cancel` and `CancelRefused`; `deadlocks` uses `Probe`; `cycles` uses `WhoHolds`,
`Holders` and `Cut`. Delivery keeps the last three to itself, `CreditAsked` and `CreditGiven` (see
`credit`) and `Bulk` (see `bulk`).

A call's *chain* lists objects. A method of each of them waits for this very call, maybe through
other calls. The chain also names the request that runs this method. If an object is in the chain,
and still runs that request, it would wait for itself. So it refuses the call (G6). `deadlocks`
finds calls that wait for each other along several chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Literal, get_args

import msgspec

from .ids import CallId, ForkId, Number, RRefId, WorkerId
from .wellformed import check

Bulky = Literal["ForkRequest", "Ack", "ChildAck", "Delete"]
"""The kinds of messages that travel in bulk."""
Flow = Literal["mail", "requests", "results"]
"""User messages of one flow keep their order (see `credit`)."""
FLOWS: tuple[Flow, ...] = get_args(Flow)


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A part of a message; on the wire its fields are a row without names.

    Parts form no cycles of Python objects, so Python's garbage collector need not track them.
    """


class Said(Part, frozen=True, tag=True):
    """A message; on the wire its row begins with the name of its class."""


class Passing(Enum):
    """How a reference in a message is shared with the receiver."""

    FORK = "fork"
    """For good: the receiver becomes a user, and the owner counts it."""
    LOAN = "loan"
    """For a call: the sender keeps it alive until the callee has replied."""
    BACK = "back"
    """A loan in the reply to its call: the lender, which kept the object alive, gets it back."""


class Descriptor(Part, frozen=True, kw_only=True):
    """A child reference in a message: its object, its fork, its owner and its parent.

    *parent* allocated *fork* and sends it. One exception: in the reply that gives a loan back, both
    are still those of the loan, and the callee sends it.
    """

    rref: RRefId
    fork: ForkId
    owner: WorkerId
    parent: WorkerId
    passing: Passing = Passing.FORK
    counted: bool = False
    """For a loan: the owner counts the lender as long as the loan lasts."""
    name: RRefId | None = None
    """The name of the handles in the message: the alias that turned out to be *rref*, if there is
    one."""


class Report(Part, frozen=True, kw_only=True):
    """The fate of one loan after its call has run; the callee reports it to the lender."""

    rref: RRefId
    fork: ForkId
    owner: WorkerId
    held: bool
    """The callee still holds the reference, and this loan covers it."""
    borrowers: tuple[tuple[ForkId, WorkerId], ...] = ()
    """The endpoints that borrowed it from the callee and still hold it: the lender counts them from
    now on."""


class Cargo(Part, frozen=True, kw_only=True):
    """A piece of the user's data: an opaque payload and the references in it."""

    payload: object = None
    descriptors: tuple[Descriptor, ...] = ()


class Moved(Part, frozen=True, kw_only=True):
    """An alias stands for another object: a fork of that object, and the path to it."""

    fork: Descriptor
    path: tuple[RRefId, ...]
    """From the alias's target, alias by alias, to the canonical object. Long paths are cut."""


# ---- control messages


class ForkRequest(Said, frozen=True, kw_only=True):
    """Child user -> owner: *fork* of *rref* lives here; count it and confirm."""

    rref: RRefId
    fork: ForkId


class Ack(Said, frozen=True, kw_only=True):
    """Owner -> user: *fork* is counted. It answers a `ForkRequest` or a `Create`."""

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
    """The endpoints that borrowed it from me and still hold it: the owner counts them from now
    on."""


class Returned(Said, frozen=True, kw_only=True):
    """Callee -> lender: a creation has run; this is the fate of the loans in it.

    Only a creation needs this message: the reports of other calls ride on their replies.
    """

    loans: tuple[Report, ...]


class NotifyRefRemoved(Said, frozen=True, kw_only=True):
    """Owner -> borrower: I count these loans of yours; tell me when you let go of each."""

    loans: tuple[tuple[RRefId, ForkId], ...]


class RefRemoved(Said, frozen=True, kw_only=True):
    """Borrower -> owner: these forks are gone; you asked me to report it."""

    removed: tuple[Delete, ...]


class AliasRef(Said, frozen=True, kw_only=True):
    """Owner of an alias -> owner of its target: *alias* stands for *rref*; what is *rref*?

    One `Canonical` answers it, as soon as the answer is known. *label* is the greatest id, so far,
    of an alias on a way to this one. When a greater one becomes known, the message is sent again.
    """

    call: CallId
    rref: RRefId
    alias: RRefId
    label: RRefId


class Canonical(Said, frozen=True, kw_only=True):
    """Owner of a target -> owner of its alias: the target has a value, or stands for its holder."""

    call: CallId
    rref: RRefId
    moved: Moved | None = None
    """None: *rref* is canonical itself."""


class AliasGone(Said, frozen=True, kw_only=True):
    """Owner of an alias -> owner of its target: *alias* does not stand for *rref* any more."""

    rref: RRefId
    alias: RRefId


class Hop(Part, frozen=True, kw_only=True):
    """One wait that a `Probe` has followed: *run* goes on when *call* has been answered."""

    run: CallId
    call: CallId
    number: Number = 0
    """Distinguishes this wait of *run* from all its other waits."""
    what: str = ""
    """The wait in words, for people."""


class Probe(Said, frozen=True, kw_only=True):
    """Waiter -> endpoint that it asked: I wait for *call*, on *rref*; does *call* wait for *start*?

    *start* is the object on which requests have been queued for long. *path* is the way from there.
    In the second lap of a ring, *before* is the way of the first lap. Without a *call* it is about
    the creation of *rref*. It goes to the endpoint that named *rref*, as the creation has not
    arrived, or comes from there, as the creation is not acknowledged.
    """

    start: RRefId
    call: CallId | None = None
    rref: RRefId | None = None
    path: tuple[Hop, ...] = ()
    before: tuple[Hop, ...] = ()


class Grip(Part, frozen=True, kw_only=True):
    """How one endpoint holds one object, if nothing but values and other endpoints keep it there.

    *others* are the forks that the endpoint counts or lists for other endpoints, with the holder of
    each.
    """

    rref: RRefId
    stamp: Number
    """The number of times that the object, or a request on it, has come here or left."""
    by: tuple[RRefId, ...] = ()
    """The objects of the endpoint that hold it: in their values, or as its aliases."""
    others: tuple[tuple[ForkId, WorkerId], ...] = ()
    owned: bool = False
    alias: bool = False
    """It lives there, and stands for another object."""
    forks: tuple[ForkId, ...] = ()
    """At a user: its own forks."""


class WhoHolds(Said, frozen=True, kw_only=True):
    """Owner -> holder: does anything keep *rrefs* at your endpoint, besides values of objects?

    One `Holders` answers it. *look* is a number of the asker's. *exact*: it must be true of one
    moment, as the objects may be collected.
    """

    look: Number
    rrefs: tuple[RRefId, ...]
    exact: bool = False


class Holders(Said, frozen=True, kw_only=True):
    """Holder -> owner: the grips on the objects, and on the objects here that lead to them.

    No grip on one of them: something else keeps it, or may keep it.
    """

    look: Number
    grips: tuple[Grip, ...] = ()


class Cut(Said, frozen=True, kw_only=True):
    """Owner -> owner: *rref* is garbage in a ring; drop its value, unless *stamp* has changed."""

    rref: RRefId
    stamp: Number


class Cancel(Said, frozen=True, kw_only=True):
    """Caller -> callee: end *call*; reply in any case.

    If it has not started, it does not start. A coroutine is cancelled at its await. A plain
    function goes on, and `CancelRefused` says so, unless *interrupt* asks to raise an exception in
    its thread. It always follows its call. A call that is cancelled before it leaves carries a mark
    instead. If it is a call on an object, *rref* is the object in whose queue it waits.
    """

    call: CallId
    rref: RRefId | None = None
    interrupt: bool = False


class CancelRefused(Said, frozen=True, kw_only=True):
    """Callee -> caller: a plain function runs *call*, so it goes on. Its reply will come."""

    call: CallId


class CreditAsked(Said, frozen=True, kw_only=True):
    """Sender -> receiver: may I send more of *flow*? `CreditGiven` answers it."""

    flow: Flow


class CreditGiven(Said, frozen=True, kw_only=True):
    """Receiver -> sender: you have as much credit for *flow* as before you asked."""

    flow: Flow


class Bulk(Said, frozen=True, kw_only=True):
    """Any -> any: many messages of one kind, each about one object and one fork; see `bulk`."""

    kind: Bulky
    creator: WorkerId
    """The creator of all the objects."""
    fork_parent: WorkerId
    """The parent in the names of all the forks."""
    number: Number
    """The least of the objects' numbers."""
    fork: Number
    """The least of the forks' numbers."""
    numbers: tuple[Number, ...]
    """For each object, the difference of its number to the least one."""
    forks: tuple[Number, ...]
    """For each fork, the difference of its number to the least one."""


# ---- user messages


class Busy(Part, frozen=True):
    """The request *call* runs on *rref*, or makes it, and keeps it until it ends."""

    rref: RRefId
    call: CallId

    def __str__(self) -> str:
        return str(self.rref)


class Tell(Said, frozen=True, kw_only=True):
    """Actor -> actor: a one-way message of the user."""

    cargo: Cargo


class Call(Said, frozen=True, kw_only=True):
    """Caller -> callee: run this function and reply with its result."""

    call: CallId
    cargo: Cargo
    chain: tuple[Busy, ...] = ()


class Create(Said, frozen=True, kw_only=True):
    """Creator -> owner: run this and own the result as *rref*; *fork* is the creator's own fork.

    With *target* the function is a method of that object and waits for its turn there. *settled* is
    a watermark: all earlier objects that the creator requested from this owner, with numbers below
    *settled*, have been acknowledged. By it the owner tells a freed object from one not created
    yet.
    """

    call: CallId
    rref: RRefId
    fork: ForkId
    cargo: Cargo
    target: RRefId | None = None
    settled: Number = 0


class Invoke(Said, frozen=True, kw_only=True):
    """User -> owner: run this method of the object *rref* and reply.

    With *cancelled* the owner does not run it, but replies: the caller took it back before it was
    sent.
    """

    call: CallId
    rref: RRefId
    cargo: Cargo
    chain: tuple[Busy, ...] = ()
    cancelled: bool = False


class Fetch(Said, frozen=True, kw_only=True):
    """User -> owner: reply with a copy of the value of *rref*, once there is one.

    With *copy* false the reply says that there is a value, and need not bring it; ``wait`` asks in
    this way. With *direct* an alias does not pass the request on but answers with the place of the
    value, so a value travels only once and without a detour. *cancelled* is as in `Invoke`.
    """

    call: CallId
    rref: RRefId
    copy: bool = True
    direct: bool = False
    chain: tuple[Busy, ...] = ()
    cancelled: bool = False


class Reply(Said, frozen=True, kw_only=True):
    """Callee -> caller: the outcome of *call*, and the fate of the loans in it.

    A loan of the call that *loans* does not name was simply returned.
    """

    call: CallId
    cargo: Cargo
    loans: tuple[Report, ...] = ()
    relayed: bool = False
    """The called object is an alias, and its owner passed the call on."""
    refused: bool = False
    """The call did not run. So the object may nevertheless be an alias, or become one."""
    moved: Moved | None = None
    """The called object is an alias; from now on the caller finds its value there.

    If the call was not passed on, this is the whole answer: there is a value, in that place.
    """


Control = (
    ForkRequest
    | Ack
    | ChildAck
    | Delete
    | Cancel
    | CancelRefused
    | Returned
    | NotifyRefRemoved
    | RefRemoved
    | AliasRef
    | Canonical
    | AliasGone
    | Probe
    | WhoHolds
    | Holders
    | Cut
    | CreditAsked
    | CreditGiven
    | Bulk
)
InBulk = ForkRequest | Ack | ChildAck | Delete
Request = Call | Create | Invoke | Fetch
ObjectRequest = Create | Invoke | Fetch
UserMessage = Tell | Reply | Request
Message = Control | UserMessage

KINDS: tuple[type[Message], ...] = get_args(Message)
"""All kinds of messages."""
BY_NAME: dict[str, type[Message]] = {kind.__name__: kind for kind in KINDS}


def check_message(message: object) -> None:
    """Raise `ProtocolError` unless *message* is a `Message` with correct fields."""
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


def chain_of(request: Request | Tell) -> tuple[Busy, ...]:
    """The objects that wait while *request* runs."""
    match request:
        case Call(chain=chain):
            return chain
        case Invoke(call=call, rref=rref, chain=chain):
            return (*chain, Busy(rref, call))
        case Create(call=call, rref=rref, target=target):
            made = Busy(rref, call)
            return (made,) if target is None else (made, Busy(target, call))
        case Fetch() | Tell():
            return ()


def names(chain: Iterable[Busy], rref: RRefId | None) -> bool:
    """Whether *chain* names the object *rref*."""
    return any(each.rref == rref for each in chain)


FLOW_OF: dict[type, Flow] = {
    Tell: "mail",
    **dict.fromkeys((Call, Create, Invoke, Fetch, Cancel), "requests"),
    Reply: "results",
}
"""The flow of each message that needs credit (see `credit`); all others are control messages."""
OF_DELIVERY = frozenset({CreditAsked, CreditGiven, Bulk})
"""Messages from one end's delivery to the other's: no machine handles them."""

NAMING = frozenset({Reply, Returned, RefRemoved, Canonical, Holders})
"""The kinds of messages in which `strangers_in` finds endpoints."""


def strangers_in(message: Message) -> Iterator[WorkerId]:
    """The endpoints that *message* names beside its payload, and that may be new to its receiver.

    These are the borrowers that it hands over, the owner of an alias's canonical object, and the
    holders of an object that may be garbage.
    """
    match message:
        case Reply(loans=reports) | Returned(loans=reports):
            for report in reports:
                if report.borrowers:
                    yield from (worker for _, worker in report.borrowers)
        case RefRemoved(removed=removed):
            for each in removed:
                yield from (worker for _, worker in each.borrowers)
        case Holders(grips=grips):
            for grip in grips:
                yield from (worker for _, worker in grip.others)
        case _:
            pass
    match message:
        case Reply(moved=Moved(fork=fork)) | Canonical(moved=Moved(fork=fork)):
            yield fork.owner
        case _:
            pass

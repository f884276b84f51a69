"""What endpoints say to each other about references.

Two families. **Control messages** carry the protocol alone; the user's code never sees
them. **User messages** carry something of the user's (a function, arguments, a value) in
a `Cargo`, and beside it one `Descriptor` for every reference inside. The descriptors
travel *beside* the bytes, never only inside them, so an endpoint that cannot unpickle a
message, or does not live long enough to, still settles every fork in it (G5).

The reference machines assume that each message takes effect at most once and in **any
order**, also between one pair of endpoints; `delivery` gives more than that. There is no
message that only makes sense after another one between the same two endpoints.

==============  ====================  ==================================================
message         from -> to            in the note's words
==============  ====================  ==================================================
`ForkRequest`   child user -> owner   "C sends out a fork request to the owner B"
`Ack`           owner -> user         B confirms a fork, or "acknowledges {100, 1}"
`ChildAck`      child -> parent       "the child ACK to A": the parent may unpin
`Delete`        user -> owner         G1: the owner is told of the user's end
==============  ====================  ==================================================

A call's *chain* names the objects whose methods, further up, wait for this very call. An
object that finds itself in the chain would wait for itself, and refuses instead (G6).
"""

from __future__ import annotations

from dataclasses import dataclass

from .ids import CallId, ForkId, RRefId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A child reference on its way: which object, which fork, whose, and from whom."""

    rref: RRefId
    fork: ForkId
    owner: WorkerId
    parent: WorkerId


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
    """

    rref: RRefId
    fork: ForkId
    cargo: Cargo
    target: RRefId | None = None


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
    """Callee -> caller: the outcome of *call*."""

    call: CallId
    cargo: Cargo


Control = ForkRequest | Ack | ChildAck | Delete | Cancel
Request = Call | Create | Invoke | Fetch
ObjectRequest = Create | Invoke | Fetch
UserMessage = Tell | Reply | Request
Message = Control | UserMessage

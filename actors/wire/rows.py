"""Packets on our own base, as flat rows of MessagePack.

A `Row` has the numbers of a packet, and a part for each of its messages. As the incarnation of an
endpoint tells it from all others, the ends of the packet are two numbers, and an id that one of
them has named is a number with the `Namer`. C code makes and checks a row in a fifth of the time
that a parcel (`parcels`) takes. What has no part here makes the whole packet a parcel: an address,
an error, a large payload, an alias, and each of the rarer messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...protocol.columns import MANY
from ...protocol.ids import CallId, ForkId, Number, RRefId, WorkerId
from ...protocol.messages import (
    Ack,
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Flow,
    Invoke,
    Reply,
    RoomAsked,
    RoomGiven,
)
from ...serialization.definitions import Placed
from ...serialization.payload import Origin, Payload, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.delivery import Packet
    from ...protocol.messages import Message

PARCEL = 0x95
"""The first byte of a parcel; a row begins with another."""
LONGEST = 1 << 17
"""A longer payload would be copied too often: it travels in an envelope."""
PART_BYTES = 1 << 14
"""The most bytes of one of several parts: as many as a window has are not too many for a row."""

Namer = Literal[0, 1] | WorkerId
"""Who has named a thing: the sender (0), the receiver (1), or a third endpoint."""
_Buffer = bytes | tuple[Number, Number, str, Number, bool, int]
"""A buffer itself, or the `Segment.row` of it."""


class MessagePart(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """One message."""


class CallPart(MessagePart, frozen=True, tag=1):
    """A `Call` by the sender, of the function with this name."""

    call: Number
    data: bytes
    name: str
    place: Number | None
    """The place of the function on its shelf, if it has one (`protocol.shelves`)."""
    loans: tuple[Descriptor, ...]
    plain: bool
    """See `Payload.plain`."""
    origin: Origin | None = None
    """See `Payload.origin`."""


class InvokePart(MessagePart, frozen=True, tag=2):
    """An `Invoke` by the sender."""

    call: Number
    data: bytes
    name: str
    place: Number | None
    loans: tuple[Descriptor, ...]
    plain: bool
    namer: Namer
    number: Number
    origin: Origin | None = None


class ReplyPart(MessagePart, frozen=True, tag=3):
    """The `Reply` to a request of the receiver's."""

    call: Number
    data: bytes
    plain: bool


class BuffersReplyPart(MessagePart, frozen=True, tag=4):
    """The same for a value with buffers, and for each value that never changes."""

    call: Number
    data: bytes
    buffers: tuple[_Buffer, ...]
    frozen: bool
    plain: bool


class FetchPart(MessagePart, frozen=True, tag=5):
    """A `Fetch` by the sender."""

    call: Number
    namer: Namer
    number: Number
    copy: bool
    direct: bool


class CreatePart(MessagePart, frozen=True, tag=6):
    """A `Create` by the sender, of the object with this number."""

    call: Number
    data: bytes
    name: str
    place: Number | None
    plain: bool
    number: Number
    fork: Number
    settled: Number
    origin: Origin | None = None


class AckPart(MessagePart, frozen=True, tag=7):
    """An `Ack`."""

    namer: Namer
    number: Number
    minter: Namer
    """That of the fork."""
    fork: Number


class DeletePart(MessagePart, frozen=True, tag=8):
    """The `Delete` of one fork."""

    namer: Namer
    number: Number
    minter: Namer
    fork: Number


class AskedPart(MessagePart, frozen=True, tag=9):
    """A `RoomAsked`."""

    flow: Flow


class GivenPart(MessagePart, frozen=True, tag=10):
    """A `RoomGiven`."""

    flow: Flow


_Part = (
    CallPart
    | InvokePart
    | ReplyPart
    | BuffersReplyPart
    | FetchPart
    | CreatePart
    | AckPart
    | DeletePart
    | AskedPart
    | GivenPart
)


class Row(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True, tag=1
):
    """A packet: its ends by their incarnations, its numbers, and its messages."""

    sender: Number
    to: Number
    first: Number
    expects: Number
    parts: tuple[_Part, ...]


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Row).decode
"""The row in some bytes. Raises `msgspec.DecodeError`."""


def encode(sender: WorkerId, to: WorkerId, packet: Packet) -> bytes | None:
    """The row of *packet*; None if one of its messages needs more than a part has."""
    parts: list[Any] = []
    messages = packet.messages
    longest = LONGEST if len(messages) == 1 else PART_BYTES
    for message in messages:
        make = _PARTS.get(type(message))
        part = make(message, sender, to, longest) if make is not None else None
        if part is None:
            return None
        parts.append(part)
    row = Row(sender.incarnation, to.incarnation, packet.first, packet.expects, parts)  # type: ignore[arg-type]  # encoding takes a list for a tuple
    try:
        return _encode(row)
    except UnicodeEncodeError:  # a name may not be valid UTF-8
        return None


def messages_of(row: Row, sender: WorkerId, me: WorkerId) -> tuple[Message, ...]:
    """The messages of *row*, which has come from *sender* to *me*."""
    parts = row.parts
    if len(parts) == 1:  # nearly always
        part = parts[0]
        return (_MESSAGES[type(part)](part, sender, me),)
    return tuple([_MESSAGES[type(part)](part, sender, me) for part in parts])


# ---- out: the part of a message, or None


def _call(
    message: Call | Invoke, sender: WorkerId, to: WorkerId, longest: int
) -> MessagePart | None:
    payload, loans = message.cargo.payload, message.cargo.descriptors
    if message.chain or len(loans) >= MANY or message.call.caller != sender:
        return None
    place = None
    if type(payload) is not Payload or len(payload.data) > longest:
        return None
    if payload.buffers or payload.inert or payload.peers or payload.frozen:
        return None
    if type(payload.tag) is not str or len(payload.tag) > PART_BYTES:
        return None
    if payload.functions:
        placed = payload.functions[0]
        if type(placed) is not Placed or placed.origin is not None or len(payload.functions) > 1:
            return None
        place = placed.place
    call, data, name, origin = message.call.number, payload.data, payload.tag, payload.origin
    if isinstance(message, Call):
        return CallPart(call, data, name, place, loans, payload.plain, origin)
    if message.cancelled:
        return None
    rref = message.rref
    namer = _namer(rref.creator, sender, to)
    plain, number = payload.plain, rref.number
    return InvokePart(call, data, name, place, loans, plain, namer, number, origin)


def _create(message: Create, sender: WorkerId, to: WorkerId, longest: int) -> MessagePart | None:
    rref, fork = message.rref, message.fork
    if message.target is not None or message.cargo.descriptors:
        return None
    if rref.creator != sender or fork.parent != sender:
        return None
    part: Any = _call(Call(call=message.call, cargo=message.cargo), sender, to, longest)
    if part is None:
        return None
    return CreatePart(
        part.call,
        part.data,
        part.name,
        part.place,
        part.plain,
        rref.number,
        fork.number,
        message.settled,
        part.origin,
    )


def _reply(message: Reply, _: WorkerId, to: WorkerId, longest: int) -> MessagePart | None:
    payload = message.cargo.payload
    if message.loans or message.cargo.descriptors or message.moved is not None:
        return None
    if message.relayed or message.refused or message.call.caller != to:
        return None
    if type(payload) is not Payload or payload.tag is not None:
        return None
    if (payload.framed if payload.buffers else len(payload.data)) > longest:
        return None
    if payload.inert or payload.peers or payload.origin or payload.functions:
        return None
    if not (payload.buffers or payload.frozen):
        return ReplyPart(message.call.number, payload.data, payload.plain)
    buffers: list[Any] = []
    for each in payload.buffers:
        if type(each) is bytearray:  # its reader may change it
            return None
        buffers.append(each if type(each) is bytes else each.row())  # type: ignore[union-attr]  # a `Segment`
    call, frozen, plain = message.call.number, payload.frozen, payload.plain
    return BuffersReplyPart(call, payload.data, tuple(buffers), frozen, plain)


def _fetch(message: Fetch, sender: WorkerId, to: WorkerId, _: int) -> MessagePart | None:
    rref = message.rref
    if message.chain or message.cancelled or message.call.caller != sender:
        return None
    namer = _namer(rref.creator, sender, to)
    return FetchPart(message.call.number, namer, rref.number, message.copy, message.direct)


def _ack(message: Ack, sender: WorkerId, to: WorkerId, _: int) -> MessagePart | None:
    rref, fork = message.rref, message.fork
    namer, minter = _namer(rref.creator, sender, to), _namer(fork.parent, sender, to)
    return AckPart(namer, rref.number, minter, fork.number)


def _delete(message: Delete, sender: WorkerId, to: WorkerId, _: int) -> MessagePart | None:
    if message.borrowers or len(message.forks) != 1:
        return None
    rref, (fork,) = message.rref, message.forks
    namer, minter = _namer(rref.creator, sender, to), _namer(fork.parent, sender, to)
    return DeletePart(namer, rref.number, minter, fork.number)


def _asked(message: RoomAsked, _: WorkerId, __: WorkerId, ___: int) -> MessagePart:
    return AskedPart(message.flow)


def _given(message: RoomGiven, _: WorkerId, __: WorkerId, ___: int) -> MessagePart:
    return GivenPart(message.flow)


def _namer(who: WorkerId, sender: WorkerId, to: WorkerId) -> Namer:
    return 0 if who == sender else 1 if who == to else who


_PARTS: dict[type[Message], Callable[[Any, WorkerId, WorkerId, int], MessagePart | None]] = {
    Call: _call,
    Invoke: _call,
    Reply: _reply,
    Fetch: _fetch,
    Create: _create,
    Ack: _ack,
    Delete: _delete,
    RoomAsked: _asked,
    RoomGiven: _given,
}

# ---- in: the message of a part


def _to_call(part: CallPart, sender: WorkerId, _: WorkerId) -> Call:
    functions = () if part.place is None else (Placed(part.place),)
    payload = Payload(
        part.data, tag=part.name, origin=part.origin, functions=functions, plain=part.plain
    )
    cargo = Cargo(payload=payload, descriptors=part.loans)
    return Call(call=CallId(sender, part.call), cargo=cargo)


def _to_invoke(part: InvokePart, sender: WorkerId, me: WorkerId) -> Invoke:
    functions = () if part.place is None else (Placed(part.place),)
    payload = Payload(
        part.data, tag=part.name, origin=part.origin, functions=functions, plain=part.plain
    )
    cargo = Cargo(payload=payload, descriptors=part.loans)
    rref = RRefId(_who(part.namer, sender, me), part.number)
    return Invoke(call=CallId(sender, part.call), rref=rref, cargo=cargo)


def _to_reply(part: ReplyPart, _: WorkerId, me: WorkerId) -> Reply:
    payload = Payload(part.data, plain=part.plain)
    return Reply(call=CallId(me, part.call), cargo=Cargo(payload=payload))


def _to_buffers_reply(part: BuffersReplyPart, _: WorkerId, me: WorkerId) -> Reply:
    buffers = tuple([each if type(each) is bytes else said(each) for each in part.buffers])  # type: ignore[arg-type]  # mypy does not narrow by `type`
    payload = Payload(part.data, buffers, frozen=part.frozen, plain=part.plain)
    return Reply(call=CallId(me, part.call), cargo=Cargo(payload=payload))


def _to_fetch(part: FetchPart, sender: WorkerId, me: WorkerId) -> Fetch:
    call, rref = CallId(sender, part.call), RRefId(_who(part.namer, sender, me), part.number)
    return Fetch(call=call, rref=rref, copy=part.copy, direct=part.direct)


def _to_create(part: CreatePart, sender: WorkerId, _: WorkerId) -> Create:
    functions = () if part.place is None else (Placed(part.place),)
    payload = Payload(
        part.data, tag=part.name, origin=part.origin, functions=functions, plain=part.plain
    )
    return Create(
        call=CallId(sender, part.call),
        rref=RRefId(sender, part.number),
        fork=ForkId(sender, part.fork),
        cargo=Cargo(payload=payload),
        settled=part.settled,
    )


def _to_ack(part: AckPart, sender: WorkerId, me: WorkerId) -> Ack:
    fork = ForkId(_who(part.minter, sender, me), part.fork)
    return Ack(rref=RRefId(_who(part.namer, sender, me), part.number), fork=fork)


def _to_delete(part: DeletePart, sender: WorkerId, me: WorkerId) -> Delete:
    fork = ForkId(_who(part.minter, sender, me), part.fork)
    return Delete(rref=RRefId(_who(part.namer, sender, me), part.number), forks=(fork,))


def _to_asked(part: AskedPart, _: WorkerId, __: WorkerId) -> RoomAsked:
    return RoomAsked(flow=part.flow)


def _to_given(part: GivenPart, _: WorkerId, __: WorkerId) -> RoomGiven:
    return RoomGiven(flow=part.flow)


def _who(namer: Namer, sender: WorkerId, me: WorkerId) -> WorkerId:
    return sender if namer == 0 else me if namer == 1 else namer


_MESSAGES: dict[type[MessagePart], Callable[[Any, WorkerId, WorkerId], Message]] = {
    CallPart: _to_call,
    InvokePart: _to_invoke,
    ReplyPart: _to_reply,
    BuffersReplyPart: _to_buffers_reply,
    FetchPart: _to_fetch,
    CreatePart: _to_create,
    AckPart: _to_ack,
    DeletePart: _to_delete,
    AskedPart: _to_asked,
    GivenPart: _to_given,
}

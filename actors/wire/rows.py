"""Plain messages on our own base: a flat row of MessagePack for each packet.

A parcel (`parcels`) has the names of its two ends, the numbers of a packet, and messages with ids
in them. The row of a plain message (`protocol.plain`) has only numbers, as the incarnation of an
endpoint tells it from all others. C code makes and checks a row in a fifth of the time.

Most packets have one message. While many calls are in flight, a packet has several, all calls or
replies as a rule: then its row has a shorter one for each of them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.ids import CallId, ForkId, Number, RRefId
from ...protocol.messages import (
    Ack,
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Flow,
    Reply,
    RoomAsked,
    RoomGiven,
)
from ...serialization.definitions import Placed
from ...serialization.payload import Payload, said

if TYPE_CHECKING:
    from ...protocol.delivery import Packet
    from ...protocol.ids import WorkerId
    from ...protocol.messages import Message

    Plain = Call | Reply | Fetch | Create | Ack | Delete
    """The messages that rows have."""

PARCEL = 0x95
"""The first byte of a parcel; a row here begins with another."""


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The packet of one message: its ends by their incarnations, and its numbers."""

    sender: Number
    to: Number
    first: Number
    expects: Number


class CallRow(Row, frozen=True, tag=1):
    """A `Call` by the sender, of the function with this name."""

    call: Number
    data: bytes
    name: str
    place: Number | None
    """The place of the function on its shelf, if it has one (`protocol.shelves`)."""


class ReplyRow(Row, frozen=True, tag=2):
    """The `Reply` to a call of the receiver's."""

    call: Number
    data: bytes


class BuffersReplyRow(ReplyRow, frozen=True, tag=9):
    """The same for a value with buffers, and for each value that never changes."""

    buffers: tuple[bytes | tuple[Number, Number, str, Number, bool, int], ...]
    """Each itself, or the `Segment.row` of it."""
    frozen: bool


class FetchRow(Row, frozen=True, tag=3):
    """A `Fetch` by the sender, of the object with this number."""

    call: Number
    number: Number
    mine: bool
    """The sender has named the object; or else the receiver has."""
    direct: bool


class CreateRow(Row, frozen=True, tag=4):
    """A `Create` by the sender, of the object with this number."""

    call: Number
    data: bytes
    name: str
    place: Number | None
    number: Number
    fork: Number
    settled: Number


class AckRow(Row, frozen=True, tag=5):
    """The `Ack` of an object that the receiver has named."""

    number: Number
    fork: Number


class DeleteRow(Row, frozen=True, tag=6):
    """The `Delete` of one fork by the sender, which has named both the object and the fork."""

    number: Number
    fork: Number


class LendRow(Row, frozen=True, tag=7):
    """A `Call` by the sender that lends some references."""

    call: Number
    data: bytes
    name: str
    place: Number | None
    loans: tuple[Descriptor, ...]


class ForeignFetchRow(Row, frozen=True, tag=8):
    """A `Fetch` by the sender, of an object that a third endpoint has named."""

    call: Number
    rref: RRefId
    direct: bool


class PartRow(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One of several messages."""


class CallPart(PartRow, frozen=True, tag=1):
    """The fields of a `CallRow`."""

    call: Number
    data: bytes
    name: str
    place: Number | None


class ReplyPart(PartRow, frozen=True, tag=2):
    """Those of a `ReplyRow`."""

    call: Number
    data: bytes


class AskedPart(PartRow, frozen=True, tag=3):
    """Those of a `RoomAsked`."""

    flow: Flow


class GivenPart(PartRow, frozen=True, tag=4):
    """Those of a `RoomGiven`."""

    flow: Flow


class SeveralRow(Row, frozen=True, tag=10):
    """A packet of several calls by the sender, replies to the receiver's, and questions of room."""

    parts: tuple[CallPart | ReplyPart | AskedPart | GivenPart, ...]


_WITH_FUNCTION = frozenset({CallRow, CallPart, LendRow, CreateRow})
PART_BYTES = 1 << 14
"""The most bytes of a part: as many as a window has are not too many for a row."""
_others = attrgetter("buffers", "inert", "peers", "frozen", "origin", "functions")
_NO_OTHERS = ((), (), (), False, None, ())
_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(
    CallRow
    | ReplyRow
    | FetchRow
    | CreateRow
    | AckRow
    | DeleteRow
    | LendRow
    | ForeignFetchRow
    | BuffersReplyRow
    | SeveralRow
).decode
"""The row in some bytes. Raises `msgspec.DecodeError`."""


def encode(sender: WorkerId, to: WorkerId, packet: Packet) -> bytes | None:
    """The row of *packet*, which has one plain message; None if it needs more than a row has."""
    message: Any = packet.messages[0]
    here, there, first, expects = sender.incarnation, to.incarnation, packet.first, packet.expects
    kind = type(message)
    row: Row | None = None
    if kind is Call or kind is Create:
        payload, call = message.cargo.payload, message.call.number
        data, name = payload.data, payload.tag
        place = payload.functions[0].place if payload.functions else None
        if kind is Call:
            loans = message.cargo.descriptors
            if not loans:
                row = CallRow(here, there, first, expects, call, data, name, place)
            elif not payload.peers:  # they have addresses
                row = LendRow(here, there, first, expects, call, data, name, place, loans)
        else:
            about = message.rref.number, message.fork.number, message.settled
            row = CreateRow(here, there, first, expects, call, data, name, place, *about)
    elif kind is Reply:
        payload, call = message.cargo.payload, message.call.number
        data, frozen = payload.data, payload.frozen
        if frozen or payload.buffers:
            buffers: list[Any] = []
            for each in payload.buffers:
                buffers.append(each if type(each) is bytes else each.row())  # noqa: PERF401 - a comprehension is a function more
            row = BuffersReplyRow(here, there, first, expects, call, data, tuple(buffers), frozen)
        else:
            row = ReplyRow(here, there, first, expects, call, data)
    elif kind is Fetch:
        rref, call = message.rref, message.call.number
        mine, direct = rref.creator == sender, message.direct
        if mine or rref.creator == to:
            row = FetchRow(here, there, first, expects, call, rref.number, mine, direct)
        else:
            row = ForeignFetchRow(here, there, first, expects, call, rref, direct)
    elif kind is Ack:
        row = AckRow(here, there, first, expects, message.rref.number, message.fork.number)
    else:
        fork = message.forks[0]
        if message.rref.creator == sender == fork.parent and len(message.forks) == 1:
            row = DeleteRow(here, there, first, expects, message.rref.number, fork.number)
    try:
        return None if row is None else _encode(row)
    except UnicodeEncodeError:  # a name may not be valid UTF-8
        return None


def encode_all(sender: WorkerId, to: WorkerId, packet: Packet) -> bytes | None:
    """The row of *packet*, which has several messages; None if it needs more than such a row has.

    All messages are plain calls and replies, or about room.
    """
    parts: list[PartRow] = []
    message: Any
    for message in packet.messages:
        kind = type(message)
        if kind is RoomAsked or kind is RoomGiven:
            parts.append((AskedPart if kind is RoomAsked else GivenPart)(message.flow))
            continue
        if (kind is not Call and kind is not Reply) or message.cargo.descriptors:
            return None
        payload = message.cargo.payload
        if type(payload) is not Payload or len(payload.data) > PART_BYTES:
            return None
        place, data, tag, others = None, payload.data, payload.tag, _others(payload)
        if others != _NO_OTHERS:
            place = _place(payload) if kind is Call else None
            if place is None:
                return None
        if kind is Call:
            if type(tag) is not str or len(tag) > PART_BYTES or message.chain:
                return None
            if message.call.caller != sender:
                return None
            parts.append(CallPart(message.call.number, data, tag, place))
        else:
            if tag is not None or message.loans or message.relayed or message.refused:
                return None
            if message.moved is not None or message.call.caller != to:
                return None
            parts.append(ReplyPart(message.call.number, data))
    here, there, first, expects = sender.incarnation, to.incarnation, packet.first, packet.expects
    try:
        return _encode(SeveralRow(here, there, first, expects, tuple(parts)))  # type: ignore[arg-type]  # these parts
    except UnicodeEncodeError:  # a name may not be valid UTF-8
        return None


def _place(payload: Payload) -> int | None:
    """The place of the function of *payload*, if it has only that beside its bytes and its name."""
    if _others(payload)[:-1] != _NO_OTHERS[:-1] or len(payload.functions) != 1:
        return None
    (function,) = payload.functions
    return function.place if type(function) is Placed and function.origin is None else None


def messages_of(row: SeveralRow, sender: WorkerId, me: WorkerId) -> tuple[Message, ...]:
    """The messages of *row*, which has come from *sender* to *me*."""
    messages: list[Message] = []
    for part in row.parts:
        if isinstance(part, AskedPart):
            messages.append(RoomAsked(flow=part.flow))
        elif isinstance(part, GivenPart):
            messages.append(RoomGiven(flow=part.flow))
        else:
            messages.append(message_of(part, sender, me))
    return tuple(messages)


def message_of(row: Any, sender: WorkerId, me: WorkerId) -> Plain:
    """The message of *row*, or of a part of one, which has come from *sender* to *me*."""
    kind = type(row)
    if kind is ReplyRow or kind is ReplyPart:
        return Reply(call=CallId(me, row.call), cargo=Cargo(payload=Payload(row.data)))
    if kind in _WITH_FUNCTION:
        call = CallId(sender, row.call)
        functions = () if row.place is None else (Placed(row.place),)
        payload = Payload(row.data, tag=row.name, functions=functions)
        if kind is LendRow:
            return Call(call=call, cargo=Cargo(payload=payload, descriptors=row.loans))
        cargo = Cargo(payload=payload)
        if kind is CallRow or kind is CallPart:
            return Call(call=call, cargo=cargo)
        rref, fork = RRefId(sender, row.number), ForkId(sender, row.fork)
        return Create(call=call, rref=rref, fork=fork, cargo=cargo, settled=row.settled)
    if kind is BuffersReplyRow:
        buffers: list[Any] = []
        for each in row.buffers:
            buffers.append(each if type(each) is bytes else said(each))  # noqa: PERF401 - as above
        payload = Payload(row.data, tuple(buffers), frozen=row.frozen)
        return Reply(call=CallId(me, row.call), cargo=Cargo(payload=payload))
    if kind is FetchRow:
        rref = RRefId(sender if row.mine else me, row.number)
        return Fetch(call=CallId(sender, row.call), rref=rref, direct=row.direct)
    if kind is ForeignFetchRow:
        return Fetch(call=CallId(sender, row.call), rref=row.rref, direct=row.direct)
    if kind is AckRow:
        return Ack(rref=RRefId(me, row.number), fork=ForkId(me, row.fork))
    return Delete(rref=RRefId(sender, row.number), forks=(ForkId(sender, row.fork),))

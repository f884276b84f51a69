"""Packets on our own base: one row of MessagePack each, which is not pickled again.

A parcel has the contents of an `Envelope`, in the same form, with the payloads in their places. It
is made and read in C, and typed like a packet, so nothing in it has to be checked again. The
connection identifies the sender.

Not every packet becomes a parcel: large payloads would be copied, and exceptions are texts and
rare. A packet with one of these travels as an `Envelope`. For a buffer in shared memory a parcel
gives the buffer's place.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from thespian.actors import ActorAddress

from ...protocol.columns import MANY, apart, has_columns, join
from ...protocol.delivery import Packet
from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId
from ...protocol.packets import LONGEST, PacketRow, decode_row
from ...serialization.definitions import Placed
from ...serialization.payload import Origin, Payload, said
from ...serialization.shared import Row, Segment
from ..base.addresses import Address
from .messages import WorkerInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.messages import Cargo, Message
    from ...serialization.payload import Buffer

_put = msgspec.structs.force_setattr
_NO_MORE: list[object] = [[], [], []]
_NOR_THIS: list[object] = [False, None, []]
"""The fields of a payload that only bytes and a tag make: all others are empty."""
Data = bytes | bytearray | memoryview
"""The bytes of a parcel; a view is good until its reader returns."""
SMALL = 1 << 17
"""A payload of at most this many bytes gets no place of its own in the message: copying it a few
times costs less than pickling its place."""


class Parcel(msgspec.Struct, frozen=True):
    """The contents of a parcel."""

    sender: WorkerId
    to: WorkerId
    packet: Packet
    peers: tuple[WorkerInfo, ...]
    buffers: bool
    """Whether a payload in it may have buffers."""


_Peer = tuple[WorkerId, tuple[str, str, str, int]]
_Content = tuple[
    bytes,
    tuple[bytes | Row, ...],
    tuple[()],
    tuple[_Peer, ...],
    str | tuple[str, int, str] | None,
    bool,
    Origin | None,
    tuple[Placed, ...],
    bool,
]
"""A small `Payload`: its fields."""
_Writable = tuple[bool, ...]
"""For each buffer in the payloads, in order: whether its reader may change it, if it is here."""
_ParcelRow = tuple[WorkerId, WorkerId, PacketRow, tuple[_Peer, ...], _Writable]
"""The sender, the receiver, the packet, the endpoints that it introduces, and the buffers."""
_LooseRow = tuple[WorkerId, WorkerId, msgspec.Raw, tuple[_Peer, ...], _Writable]
"""The same, with a packet that is not decoded yet, as something in it is malformed."""


def pack(
    sender: WorkerId, to: WorkerId, packet: Packet, peers: tuple[WorkerInfo, ...]
) -> bytes | None:
    """*packet* as a parcel that introduces *peers*; None if it has to be an envelope."""
    writable: list[bool] = []
    messages = packet.messages
    for message in messages:
        cargo: Cargo | None = getattr(message, "cargo", None)
        if cargo is None:
            continue
        payload: Any = cargo.payload
        if cargo.descriptors and len(cargo.descriptors) >= MANY:
            messages = tuple([_apart(each) for each in packet.messages])
        if payload is None:
            continue
        if type(payload) is not Payload or payload.inert:
            return None
        if payload.buffers or payload.functions:
            if payload.framed >= SMALL:
                return None
            writable += [type(each) is bytearray for each in payload.buffers]
        elif len(payload.data) >= SMALL:
            return None
    try:
        row = packet.first, packet.expects, messages
        return _encoder.encode((sender, to, row, peers, writable))
    except (_UnknownAddressError, UnicodeEncodeError):  # a name may not be valid UTF-8
        return None


def _apart(message: Message) -> Message:
    cargo: Cargo | None = getattr(message, "cargo", None)
    return message if cargo is None else apart(message, cargo, cargo.payload)


def unpack(data: Data) -> Parcel:
    """The contents of a parcel. Raises `ProtocolError` if *data* is none."""
    try:
        sender, to, (first, expects, messages), peers, writable = _rows.decode(data)
        opens = iter(writable)
        for message in messages:
            cargo: Cargo | None = getattr(message, "cargo", None)
            if cargo is None:
                continue
            row: Any = cargo.payload
            if row is None:
                continue
            if has_columns(row):
                join(cargo)
                row = cargo.payload
                if row is None:
                    continue
            # Nobody has seen the cargo yet, so changing the frozen object is safe.
            if type(row) is list and row[1:4] == _NO_MORE and row[5:8] == _NOR_THIS:  # mostly
                content, tag = row[0], row[4]
                right = type(content) is bytes and row[5] is False and row[8:] in ([False], [True])
                if right and (tag is None or type(tag) is str):
                    _put(cargo, "payload", Payload(content, tag=tag, plain=row[8]))
                    continue
            _put(cargo, "payload", _payload(opens, row))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ProtocolError):
        return _unpack_some(data)
    packet = Packet(first, messages, expects)
    return Parcel(sender, to, packet, _infos(peers) if peers else (), bool(writable))


def _unpack_some(data: Data) -> Parcel:
    """The same for a parcel with a malformed message: that one spoils no other."""
    try:
        sender, to, packet, peers, writable = _loose.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"it is no parcel: {error!s:.{LONGEST}}") from None
    load = partial(_payload, iter(writable))
    return Parcel(sender, to, decode_row(packet, load), _infos(peers), bool(writable))


def _payload(writable: Iterator[bool], row: object) -> Payload:
    try:
        fields = msgspec.convert(row, _Content)
        data, buffers, _, peers, tag, frozen, origin, functions, plain = fields
    except msgspec.ValidationError as error:
        raise ProtocolError(f"its payload is malformed: {error!s:.{LONGEST}}") from None
    try:
        made = tuple([_buffer(each, writable=next(writable)) for each in buffers])
    except StopIteration:
        raise ProtocolError("it brings more buffers than it announces") from None
    introduced = _infos(peers) if peers else ()
    return Payload(data, made, (), introduced, tag, frozen, origin, functions, plain)


def _buffer(each: bytes | Row, *, writable: bool) -> Buffer:
    if isinstance(each, tuple):
        return said(each)
    return bytearray(each) if writable else each


def _infos(peers: tuple[_Peer, ...]) -> tuple[WorkerInfo, ...]:
    return tuple([WorkerInfo(who, ActorAddress(Address(*at))) for who, at in peers])


class _UnknownAddressError(Exception):
    """An address is not one of our own base's; Thespian will handle it."""


def _plain(thing: Any) -> tuple[str, str, str, int] | Row:
    if isinstance(thing, Segment):
        return thing.row()
    details = getattr(thing, "addressDetails", None)
    if type(details) is not Address:
        raise _UnknownAddressError
    return details.key, details.path, details.host, details.port


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_rows = msgspec.msgpack.Decoder(_ParcelRow)
_loose = msgspec.msgpack.Decoder(_LooseRow)

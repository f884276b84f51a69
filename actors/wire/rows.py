"""Plain messages on our own base: one flat row of MessagePack each.

A parcel (`parcels`) has the names of its two ends, the numbers of a packet, and messages with ids
in them. The row of a plain message (`protocol.plain`) has only numbers, as the incarnation of an
endpoint tells it from all others. C code makes and checks a row in a fifth of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...protocol.ids import CallId, Number, RRefId
from ...protocol.messages import Call, Cargo, Fetch, Reply
from ...serialization.definitions import Placed
from ...serialization.payload import Payload

if TYPE_CHECKING:
    from ...protocol.delivery import Packet
    from ...protocol.ids import WorkerId

PARCEL = 0x95
"""The first byte of a parcel; a row here begins with another."""


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The packet of one message: its ends by their incarnations, its numbers, and a call's."""

    sender: Number
    to: Number
    first: Number
    expects: Number
    call: Number


class CallRow(Row, frozen=True, tag=1):
    """A `Call` by the sender, of the function with this name."""

    data: bytes
    name: str
    place: Number | None = None
    """The place of the function on its shelf, if it has one (`protocol.shelves`)."""


class ReplyRow(Row, frozen=True, tag=2):
    """The `Reply` to a call of the receiver's."""

    data: bytes


class FetchRow(Row, frozen=True, tag=3):
    """A `Fetch` by the sender, of the object with this number."""

    number: Number
    mine: bool
    """The sender has named the object; or else the receiver has."""
    direct: bool


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(CallRow | ReplyRow | FetchRow).decode
"""The row in some bytes. Raises `msgspec.DecodeError`."""


def encode(sender: WorkerId, to: WorkerId, packet: Packet) -> bytes | None:
    """The row of *packet*, which has one plain message; None if it needs more than a row has."""
    message = packet.messages[0]
    here, there, first, expects = sender.incarnation, to.incarnation, packet.first, packet.expects
    if type(message) is Fetch:
        creator = message.rref.creator
        if creator not in (sender, to):
            return None
        number, mine, direct = message.rref.number, creator == sender, message.direct
        row: Row = FetchRow(here, there, first, expects, message.call.number, number, mine, direct)
        return _encode(row)
    payload: Payload = message.cargo.payload  # type: ignore[union-attr, assignment]
    if type(message) is Call:
        name: str = payload.tag  # type: ignore[assignment]
        place = payload.functions[0].place if payload.functions else None  # type: ignore[union-attr]
        row = CallRow(here, there, first, expects, message.call.number, payload.data, name, place)
        try:
            return _encode(row)
        except UnicodeEncodeError:  # a name may not be valid UTF-8
            return None
    else:
        row = ReplyRow(here, there, first, expects, message.call.number, payload.data)  # type: ignore[union-attr]
    return _encode(row)


def message_of(row: Row, sender: WorkerId, me: WorkerId) -> Call | Reply | Fetch:
    """The message of *row*, which has come from *sender* to *me*."""
    if type(row) is ReplyRow:
        return Reply(call=CallId(me, row.call), cargo=Cargo(payload=Payload(row.data)))
    call = CallId(sender, row.call)
    if type(row) is CallRow:
        functions = () if row.place is None else (Placed(row.place),)
        payload = Payload(row.data, tag=row.name, functions=functions)
        return Call(call=call, cargo=Cargo(payload=payload))
    rref = RRefId(sender if row.mine else me, row.number)  # type: ignore[attr-defined]
    return Fetch(call=call, rref=rref, direct=row.direct)  # type: ignore[attr-defined]

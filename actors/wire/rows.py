"""Plain messages on our own base: one flat row each, with the numbers of its packet.

A parcel (`parcels`) has the names of its sender and its receiver, a packet, and messages in it. A
plain message (`protocol.plain`) has a number of its own for each of these: an endpoint's number in
its system is its incarnation. So C code makes and checks the row in a tenth of the time.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0)]


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The common part: the packet of one message."""

    sender: Number
    to: Number
    first: Number
    expects: Number
    call: Number
    """The number of the call, which the caller has given it."""


class CallRow(_Row, frozen=True, tag=1):
    """A `Call` of the sender's."""

    data: bytes
    name: str


class ReplyRow(_Row, frozen=True, tag=2):
    """The `Reply` to a call of the receiver's."""

    data: bytes


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(CallRow | ReplyRow).decode
PARCEL = 0x95
"""The first byte of a parcel; a row here begins with another."""

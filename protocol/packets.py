"""Packets as bytes, and back: MessagePack, typed, and validated on decode.

A packet is a row: the number of its first message, its acknowledgement, its messages. A message is
the row of its fields, after the name of its class. Parts of messages are rows, too; many references
go in `columns`. The user's data is pickled before and travels *beside* these bytes: a cargo on the
wire holds only the number of its payload. So even a large payload is never copied into the packet,
and the carrier of a packet handles the addresses in a payload by its own means.

Decoding builds each message by the annotations of its class, in C, and refuses anything else: a
decoded message needs no `wellformed.check`. One malformed message spoils no other: a `Malformed`
takes its place, so the messages behind it keep their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .columns import MANY, apart, columns_of, has_columns, join
from .delivery import Packet
from .errors import ProtocolError
from .ids import Number
from .messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .messages import Cargo, Descriptor


class Malformed(msgspec.Struct, frozen=True):
    """Stands in the place of a malformed message, and says why it is malformed."""

    why: str


PacketRow = tuple[Number, Number, tuple[Message, ...]]
"""A packet as the row that MessagePack encodes: the number of the first message, the
acknowledgement, and the messages."""

_encoder = msgspec.msgpack.Encoder()
_packets = msgspec.msgpack.Decoder(PacketRow)
_loose = msgspec.msgpack.Decoder(tuple[Number, Number, tuple[msgspec.Raw, ...]])
_messages = msgspec.msgpack.Decoder(Message)

_put = msgspec.structs.force_setattr

LONGEST = 200
"""The decoder's text about a malformed message is cut to this many characters."""


def encode(packet: Packet) -> tuple[bytes, tuple[object, ...]]:
    """*packet* as bytes, and the payloads that travel beside them."""
    payloads: list[object] = []
    bare: list[Message] = []
    for message in packet.messages:
        cargo: Cargo | None = getattr(message, "cargo", None)
        if cargo is None:
            bare.append(message)
        else:
            number = None
            if cargo.payload is not None:
                number = len(payloads)
                payloads.append(cargo.payload)
            bare.append(apart(message, cargo, number))
    return _encoder.encode((packet.first, packet.expects, bare)), tuple(payloads)


def size_of(descriptors: tuple[Descriptor, ...]) -> int:
    """How many bytes of a packet *descriptors* take."""
    columns = columns_of(descriptors) if len(descriptors) >= MANY else None
    return len(_encoder.encode(columns or descriptors)) if descriptors else 0


def decode(
    data: bytes, payloads: Sequence[object], check: Callable[[object], None] = lambda _: None
) -> Packet:
    """The packet in *data*, with *payloads* put back into its messages.

    *check* raises `ProtocolError` for a payload that no message may have. This function raises
    `ProtocolError` if *data* is no packet.
    """

    def load(number: object) -> object:
        if type(number) is not int or not 0 <= number < len(payloads):
            raise ProtocolError(f"it names a payload that is not among its {len(payloads)}")
        check(payloads[number])
        return payloads[number]

    return decode_row(data, load)


def decode_row(data: bytes | msgspec.Raw, load: Callable[[object], object]) -> Packet:
    """The packet with the row in *data*; *load* returns the payload for its placeholder.

    The row is the number of the first message, the acknowledgement, and the messages.

    Raises `ProtocolError` if *data* is no packet.
    """
    try:
        first, expects, messages = _packets.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        first, expects, messages = _one_by_one(data)
    refused: dict[int, Message] = {}
    for place, message in enumerate(messages):
        cargo: Cargo | None = getattr(message, "cargo", None)
        if cargo is None or cargo.payload is None:
            continue
        try:
            if has_columns(cargo.payload):
                join(cargo)
            payload = None if cargo.payload is None else load(cargo.payload)
        except ProtocolError as error:
            refused[place] = _malformed(str(error))
            continue
        # Nobody has seen the cargo yet, so changing the frozen object is safe.
        _put(cargo, "payload", payload)
    if refused:
        messages = tuple([refused.get(place, each) for place, each in enumerate(messages)])
    return Packet(first, messages, expects)


def _one_by_one(data: bytes | msgspec.Raw) -> tuple[int, int, tuple[Message, ...]]:
    """The same for a packet with an error in it: each message is decoded on its own."""
    try:
        first, expects, rows = _loose.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"it is no packet: {error!s:.{LONGEST}}") from None
    return first, expects, tuple(map(_message, rows))


def _message(row: msgspec.Raw) -> Message:
    try:
        message: Message = _messages.decode(row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _malformed(str(error))
    return message


def _malformed(why: str) -> Message:
    # It passes through a `Channel` in the message's place: a `Channel` looks at no message.
    return Malformed(why[:LONGEST])  # type: ignore[return-value]  # no message, but in the place of one

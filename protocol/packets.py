"""Packets as bytes, and back: MessagePack, typed, and never believed unseen.

A packet is a row: the number of its first message, what it acknowledges, the messages. A message
is the row of its fields, after the name of its class; so are the parts of messages. What is the
user's travels *beside* these bytes, pickled already: a cargo on the wire holds the number of its
payload. So that is never copied into the packet, however large it is, and whatever carries a packet
sees to the addresses in it in a way of its own.

Decoding makes each message by its class's annotations, in C, and refuses what is no such thing: a
message that comes out of here needs no `wellformed.check`. What is wrong with one message takes no
other with it: in its place is a `Malformed`, so that those behind it keep their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from .delivery import Packet
from .errors import ProtocolError
from .ids import Number
from .messages import Cargo, Descriptor, Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Malformed(msgspec.Struct, frozen=True):
    """What came in the place of a message, and why it is none."""

    why: str


class _Row(NamedTuple):
    first: Number
    expects: Number
    messages: tuple[Message, ...]


class _Rows(NamedTuple):
    """The same, with messages that are not looked at yet."""

    first: Number
    expects: Number
    messages: tuple[msgspec.Raw, ...]


_encoder = msgspec.msgpack.Encoder()
_packets = msgspec.msgpack.Decoder(_Row)
_loose = msgspec.msgpack.Decoder(_Rows)
_messages = msgspec.msgpack.Decoder(Message)

LONGEST = 200
"""Characters of what the decoder says of a malformed message that are kept."""


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
            without = Cargo(payload=number, descriptors=cargo.descriptors)
            bare.append(msgspec.structs.replace(message, cargo=without))
    return _encoder.encode((packet.first, packet.expects, bare)), tuple(payloads)


def row_of(packet: Packet) -> tuple[int, int, tuple[Message, ...]]:
    """*packet* as the row that it is on the wire, with its payloads in it."""
    return packet.first, packet.expects, packet.messages


def size_of(descriptors: tuple[Descriptor, ...]) -> int:
    """How many bytes of a packet these take."""
    return len(_encoder.encode(descriptors)) if descriptors else 0


def decode(
    data: bytes, payloads: Sequence[object], check: Callable[[object], None] = lambda _: None
) -> Packet:
    """The packet that *data* is, with *payloads* in its messages again.

    *check* raises `ProtocolError` for a payload that no message may have. Raises it if *data* is no
    packet.
    """

    def load(number: object) -> object:
        if type(number) is not int or not 0 <= number < len(payloads):
            raise ProtocolError(f"its payload is not among the {len(payloads)} that came with it")
        check(payloads[number])
        return payloads[number]

    return decode_row(data, load)


def decode_row(data: bytes | msgspec.Raw, load: Callable[[object], object]) -> Packet:
    """The packet whose `row_of` *data* is; *load* makes a payload of what is in its place.

    Raises `ProtocolError` if it is none.
    """
    try:
        first, expects, messages = _packets.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        first, expects, messages = _one_by_one(data)
    return Packet(first, tuple([_loaded(message, load) for message in messages]), expects)


def _loaded(message: Message, load: Callable[[object], object]) -> Message:
    """*message* with its payload in it."""
    cargo: Cargo | None = getattr(message, "cargo", None)
    if cargo is None or cargo.payload is None:
        return message
    try:
        payload = load(cargo.payload)
    except ProtocolError as error:
        return _malformed(str(error))
    # Nobody has seen it yet, frozen as it is.
    msgspec.structs.force_setattr(cargo, "payload", payload)
    return message


def _one_by_one(data: bytes | msgspec.Raw) -> tuple[int, int, tuple[Message, ...]]:
    """The same for a packet with something wrong in it."""
    try:
        first, expects, rows = _loose.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"no packet: {error!s:.{LONGEST}}") from None
    return first, expects, tuple(map(_message, rows))


def _message(row: msgspec.Raw) -> Message:
    try:
        message: Message = _messages.decode(row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _malformed(str(error))
    return message


def _malformed(why: str) -> Message:
    # It passes through a `Channel`, which looks at no message, as what it stands for.
    return Malformed(why[:LONGEST])  # type: ignore[return-value]

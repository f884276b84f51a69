"""Packets from A to B as they travel: their bytes, and what comes out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from farref.actors.wire import codec
from farref.protocol.delivery import Packet
from farref.protocol.ids import WorkerId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farref.protocol.messages import Message

A, B = WorkerId("A", 1), WorkerId("B", 2)


def written(
    packet: Packet, sender: WorkerId = A, to: WorkerId = B, longest: int = codec.LONGEST
) -> tuple[bytes, Sequence[object]]:
    """The bytes of *packet*, and what travels beside them; it introduces nobody."""
    return codec.encode(sender, to, packet, lambda _: None, longest)


def came(data: bytes, beside: Sequence[object] = (), sender: WorkerId = A, to: WorkerId = B) -> Any:
    """The packet in *data*, maybe with a `Malformed` in it. Raises `ProtocolError`."""
    found = codec.read(data, to, {sender.incarnation: sender}, beside)
    assert found is not None
    who, packet, _ = found
    assert who == sender
    return packet


def carried(*messages: Message) -> Any:
    """*messages* at the receiver of a packet with them."""
    return came(*written(Packet(1, messages, 0))).messages


row_of = msgspec.msgpack.Decoder(codec.PacketRow).decode
"""The structs in the bytes of a packet."""

"""The user's content of messages: its size, and whether its reader can see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from ...protocol.columns import size_of
from ...protocol.delivery import Packet
from ...protocol.errors import FarrefError
from ...protocol.messages import Cargo
from ...serialization.errors import Failure
from ...serialization.payload import Payload
from ...serialization.shared import Segment
from .messages import WorkerInfo

HEAD = 2048
"""The most bytes that a message has beside its payload and its references."""
PER_BUFFER = 5
"""The same for each buffer."""
PER_PLACE = 70
"""The same for each place of a buffer in shared memory."""
PER_PEER = 300
"""The same for each endpoint that it introduces, without the endpoint's name."""


def bytes_of(cargo: Cargo) -> int:
    """The bytes of a message with *cargo* on the wire, or a little fewer."""
    payload, size = cargo.payload, HEAD + size_of(cargo.descriptors)
    if isinstance(payload, Payload):
        size += payload.framed
        for each in payload.buffers:
            size += PER_PLACE if isinstance(each, Segment) else PER_BUFFER
        if payload.peers:
            introduced = cast("tuple[WorkerInfo, ...]", payload.peers)
            size += sum(PER_PEER + 4 * len(each.name) for each in introduced)
    elif isinstance(payload, Failure):
        size += payload.framed
    return size


def pieces(packet: Packet, largest: int) -> Iterator[Packet]:
    """Split *packet* into packets of at most *largest* bytes; a single message may be larger."""
    start = size = 0
    for number, message in enumerate(packet.messages):
        cargo = getattr(message, "cargo", None)
        more = HEAD if cargo is None else bytes_of(cargo)
        if size + more > largest and number > start:
            yield Packet(packet.first + start, packet.messages[start:number], packet.expects)
            start, size = number, 0
        size += more
    yield Packet(packet.first + start, packet.messages[start:], packet.expects)


def grounded(packet: Packet, *, near: bool) -> Packet:
    """*packet* with those buffers inside that its reader, who may be *near*, cannot open itself."""
    messages = tuple([_grounded(message, near=near) for message in packet.messages])
    return Packet(packet.first, messages, packet.expects)


def payload_of(message: object) -> Payload | None:
    """The user's payload in *message*; None for a message without one, or with an exception."""
    payload = getattr(getattr(message, "cargo", None), "payload", None)
    return payload if isinstance(payload, Payload) else None


def is_answer(payload: object) -> bool:
    """Whether it answers an `ask`, and so is not for a handler or a listener."""
    tag = getattr(payload, "tag", None)
    return type(tag) is tuple and tag[0] == "answer"


def _grounded(message: Any, *, near: bool) -> Any:
    payload = payload_of(message)
    if payload is None:
        return message
    try:
        payload = payload.grounded(near=near)
    except FarrefError:  # its sender is dead: the reader will hear of that
        return message
    cargo = Cargo(payload=payload, descriptors=message.cargo.descriptors)
    return msgspec.structs.replace(message, cargo=cargo)

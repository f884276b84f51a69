"""Messages by the user's content in them: how large it is, and whether its reader can see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...protocol.delivery import Packet
from ...protocol.errors import FarrefError
from ...protocol.messages import Cargo
from ...protocol.packets import size_of
from ...serialization.failures import Failure
from ...serialization.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .messages import WorkerInfo

HEAD = 2048
"""Bytes that a message has beside its payload and its references, at most."""
PER_PEER = 300
"""The same for each endpoint that it introduces, beside its name."""


def bytes_of(cargo: Cargo) -> int:
    """What a message with *cargo* takes on the wire, or a little less than that."""
    payload, size = cargo.payload, HEAD + size_of(cargo.descriptors)
    if isinstance(payload, Payload):
        size += payload.framed
        if payload.peers:
            introduced = cast("tuple[WorkerInfo, ...]", payload.peers)
            size += sum(PER_PEER + 4 * len(each.name) for each in introduced)
    elif isinstance(payload, Failure):
        size += payload.size
    return size


def pieces(packet: Packet, largest: int) -> Iterator[Packet]:
    """*packet* as several, none of more than *largest* bytes unless it is one message."""
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
    """*packet* with the buffers in it that its reader, who may be *near*, cannot be told of."""
    messages = tuple([_grounded(message, near=near) for message in packet.messages])
    return Packet(packet.first, messages, packet.expects)


def payload_of(message: object) -> Payload | None:
    """What of the user's is in *message*; None if there is nothing, or an exception."""
    payload = getattr(getattr(message, "cargo", None), "payload", None)
    return payload if isinstance(payload, Payload) else None


def is_answer(payload: object) -> bool:
    """Whether it answers an `ask`, rather than that it is for a handler or a listener."""
    tag = getattr(payload, "tag", None)
    return type(tag) is tuple and tag[0] == "answer"


def _grounded(message: Any, *, near: bool) -> Any:
    payload = payload_of(message)
    if payload is None:
        return message
    try:
        payload = payload.grounded(near=near)
    except FarrefError:  # its sender is dead: its reader will be told so, as we would be
        return message
    cargo = Cargo(payload=payload, descriptors=message.cargo.descriptors)
    return msgspec.structs.replace(message, cargo=cargo)

"""Packets with bytes that no correct peer sends: errors are refused, and damage nothing else.

`wellformed.check`, the other check by the same annotations, must find every field of a decoded
packet right, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from farref.actors.wire import codec
from farref.actors.wire.codec import Malformed
from farref.protocol.delivery import Packet
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import KINDS, Cargo, Message, Tell, check_message
from farref.serialization.payload import Payload

from ..packets import A, B, came, row_of, written
from .cases import ONLY, cases, damaged
from .test_protocol import MessageMaker
from .wrong import wrong

Other = Callable[[random.Random, Any], Any]

WORKERS = [WorkerId("A", 0), WorkerId("B", (1 << 64) - 1), WorkerId("Ж" * 40, 7)]
NUMBERS = (0, 1, 127, 128, (1 << 64) - 1)
IDS: dict[type, list[Any]] = {
    WorkerId: WORKERS,
    **{
        kind: [kind(who, number) for who in WORKERS for number in NUMBERS]
        for kind in (RRefId, ForkId, CallId)
    },
}
PAYLOADS = (b"zero", b"one")


def as_bytes(
    rng: random.Random, packet: Packet, other: Other, sender: WorkerId = A, to: WorkerId = B
) -> bytes:
    """*packet* as it travels; every second one has an error.

    A payload is mostly the number of one of `PAYLOADS`.
    """
    bare = Packet(packet.first, tuple(map(with_payload, packet.messages)), packet.expects)
    row = msgspec.structs.replace(row_of(written(bare, sender, to)[0]), sender=sender)
    if rng.random() < 0.5:
        row = wrong(rng, row, other)
    try:
        return msgspec.msgpack.encode(row, enc_hook=lambda junk: type(junk).__name__)
    except (OverflowError, UnicodeEncodeError, TypeError, RecursionError):  # not valid MessagePack
        return rng.randbytes(40)


def with_payload(message: Message) -> Message:
    """*message* with a payload: in the bytes, in a part of its own, beside them, or none."""
    cargo = getattr(message, "cargo", None)
    if cargo is None:
        return message
    payloads = Payload(b"data"), Payload(b"data", tag="f"), "beside", None
    payload = payloads[len(cargo.descriptors) % 4]
    with_it = Cargo(payload=payload, descriptors=cargo.descriptors)
    return msgspec.structs.replace(message, cargo=with_it)


def messages(make: MessageMaker) -> tuple[Message, ...]:
    return tuple(make.message() for _ in range(make.rng.randint(1, 5)))


def test_packets() -> None:
    """Right packets come back unchanged; of others, all right parts do."""
    pool = [each for kind in IDS.values() for each in kind]
    refused = malformed = 0
    kinds: set[type] = set()
    for case in cases("packets"):
        with case as rng:
            right = messages(MessageMaker(rng, IDS))
            kinds.update(map(type, right))
            there = Packet(rng.choice(NUMBERS), right, rng.choice(NUMBERS))
            assert came(*written(there)) == there
            data = as_bytes(rng, Packet(1, right, 2), lambda r, _: r.choice(pool))
            if rng.random() < 0.5:
                data = damaged(rng, data)
            try:
                found = codec.read(data, B, {A.incarnation: A}, PAYLOADS)
            except ProtocolError:
                refused += 1
                continue
            packet: Any = found and found[1]
            for message in packet.messages if packet else ():
                if isinstance(message, Malformed):
                    malformed += 1
                else:
                    check_message(message)
    assert not (refused + malformed) > 100 or (refused and malformed), "one kind is missing"
    assert kinds == set(KINDS) or ONLY, "a message that the fuzzer does not draw"


def test_a_wrong_message_takes_no_other_with_it() -> None:
    make = MessageMaker(random.Random(1), IDS)
    for _ in range(200):
        before, after = messages(make), messages(make)
        told = Tell(cargo=Cargo(payload=b"mine"))
        data, beside = written(Packet(5, (*before, told, *after), 6))
        rows: Any = msgspec.msgpack.decode(data)
        rows[5].insert(len(before), [0, ["ForkRequest", "not an id", 3], None, []])
        packet = came(msgspec.msgpack.encode(rows), beside)
        assert (packet.first, packet.expects) == (5, 6)
        spoiled = packet.messages[len(before)]
        assert isinstance(spoiled, Malformed)
        assert packet.messages == (*before, spoiled, told, *after)


@pytest.mark.parametrize("of", ["the part", "the message"])
def test_a_longer_row_is_of_another_version(of: str) -> None:
    """Otherwise its extra fields would be dropped silently."""
    make = MessageMaker(random.Random(2), IDS)
    for _ in range(200):
        (right,) = messages(make)[:1]
        rows: Any = msgspec.msgpack.decode(written(Packet(1, (right,), 0))[0])
        part = rows[5][0]
        if of == "the message" and part[0] == 0:
            part[1].append(None)
        else:
            part.append(None)
        (spoiled,) = came(msgspec.msgpack.encode(rows), PAYLOADS).messages
        assert isinstance(spoiled, Malformed)


def test_a_length_that_is_a_lie_takes_no_memory(little_memory: None) -> None:
    for lie in (
        b"\x97\x02\x01\x02\x00\x00\xdd\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
    ):
        with pytest.raises(ProtocolError):
            came(lie)

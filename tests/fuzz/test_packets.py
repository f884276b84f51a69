"""Packets with bytes that no correct peer sends: errors are refused, and damage nothing else.

`wellformed.check`, the other check by the same annotations, must find every field of a decoded
packet right, too.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from farref.protocol.delivery import Packet
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import KINDS, Cargo, Message, Tell, check_message
from farref.protocol.packets import Malformed, decode, encode

from .cases import ONLY, cases, damaged
from .test_protocol import MessageMaker
from .wrong import wrong

if TYPE_CHECKING:
    from collections.abc import Callable

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


def as_bytes(rng: random.Random, row: Any, other: Other) -> bytes:
    """*row* (first, expects, messages) as a packet travels; every second one has an error."""
    first, expects, messages = row
    row = (first, expects, tuple(map(bare, messages)))
    if rng.random() < 0.5:
        row = wrong(rng, row, other)
    try:
        return msgspec.msgpack.encode(row, enc_hook=lambda junk: type(junk).__name__)
    except (OverflowError, UnicodeEncodeError, TypeError, RecursionError):  # not valid MessagePack
        return rng.randbytes(40)


def bare(message: Message) -> Message:
    """*message* with the number of a payload, mostly of an existing one."""
    cargo = getattr(message, "cargo", None)
    if cargo is None:
        return message
    without = Cargo(payload=len(cargo.descriptors) % 3, descriptors=cargo.descriptors)
    return msgspec.structs.replace(message, cargo=without)


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
            assert decode(*encode(there)) == there
            data = as_bytes(rng, (1, 2, right), lambda r, _: r.choice(pool))
            if rng.random() < 0.5:
                data = damaged(rng, data)
            try:
                came: Any = decode(data, PAYLOADS)
            except ProtocolError:
                refused += 1
                continue
            for message in came.messages:
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
        (data, payloads) = encode(Packet(5, (*before, told, *after), 6))
        rows: Any = msgspec.msgpack.decode(data)
        rows[2].insert(len(before), ["ForkRequest", "not an id", 3])
        came: Any = decode(msgspec.msgpack.encode(rows), payloads)
        assert (came.first, came.expects) == (5, 6)
        spoiled = came.messages[len(before)]
        assert isinstance(spoiled, Malformed)
        assert came.messages == (*before, spoiled, told, *after)


def test_a_longer_row_is_of_another_version() -> None:
    """Otherwise its extra fields would be dropped silently."""
    make = MessageMaker(random.Random(2), IDS)
    for _ in range(200):
        (right,) = messages(make)[:1]
        rows: Any = msgspec.msgpack.decode(encode(Packet(0, (right,), 0))[0])
        rows[2][0].append(None)
        (came,) = decode(msgspec.msgpack.encode(rows), PAYLOADS).messages
        assert isinstance(came, Malformed)


def test_a_length_that_is_a_lie_takes_no_memory(little_memory: None) -> None:
    for lie in (
        b"\x93\x00\x00\xdd\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
    ):
        with pytest.raises(ProtocolError):
            decode(lie, ())

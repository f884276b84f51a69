"""All that goes over the wire arrives unchanged, as one row of MessagePack or in a short pickle.

Other data is refused.
"""

from __future__ import annotations

import pickle
import random
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import msgspec
import pytest
from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.wire import parcels
from farref.actors.wire.cargoes import payload_of
from farref.actors.wire.messages import Envelope, WorkerInfo
from farref.protocol.delivery import Packet
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import Ack, Busy, Call, Cargo, Descriptor, Message, Reply, Tell
from farref.protocol.packets import Malformed
from farref.serialization.definitions import Placed
from farref.serialization.errors import Failure
from farref.serialization.payload import Origin, Payload
from farref.serialization.shared import Segment

from ...marks import SHARED_MEMORY

A, B = WorkerId("A", 1), WorkerId("B", 2)
WHERE = ActorAddress(Address("key", "/a/path", "127.0.0.1", 1900))
INFO = WorkerInfo(A, WHERE)
RREF, FORK, CALL = RRefId(A, 3), ForkId(A, 4), CallId(A, 5)
ORIGIN = Origin("a.py:1", (("traceparent", "00-1-2-01"),))
PAYLOAD = Payload(
    b"data", (b"fixed", bytearray(b"mine")), (), (INFO,), ("ask", 7, "Look"), True, ORIGIN
)


def told(payload: object) -> Tell:
    return Tell(cargo=Cargo(payload=payload))


def packed(*messages: Message, peers: tuple[WorkerInfo, ...] = ()) -> bytes:
    made = parcels.pack(A, B, Packet(3, messages, 9), peers)
    assert made is not None
    return made


def test_everything_arrives() -> None:
    lent = Descriptor(rref=RREF, fork=FORK, owner=B, parent=A, counted=True, name=RREF)
    messages: tuple[Message, ...] = (
        Call(
            call=CALL, cargo=Cargo(payload=PAYLOAD, descriptors=(lent,)), chain=(Busy(RREF, CALL),)
        ),
        Ack(rref=RREF, fork=FORK),
        Reply(call=CALL, cargo=Cargo()),
        told(Payload(b"", (bytearray(b"other"),))),
    )
    came = parcels.unpack(packed(*messages, peers=(INFO,)))
    assert (came.sender, came.to, came.packet.first, came.packet.expects) == (A, B, 3, 9)
    assert came.packet.messages == messages
    payload: Any = came.packet.messages[0].cargo.payload  # type: ignore[union-attr]  # this one has a cargo
    assert [type(each) for each in payload.buffers] == [bytes, bytearray]  # writable or not
    (peer,), (introduced,) = came.peers, payload.peers
    for each in (peer, introduced):
        assert each.id == A
        details = each.address.addressDetails
        assert (details.key, details.path, details.host, details.port) == (
            ("key", "/a/path", "127.0.0.1", 1900)
        )


@pytest.mark.parametrize(
    "payload",
    [
        Payload(b"x" * parcels.SMALL),
        Payload(b"", (bytes(parcels.SMALL),)),
        Payload(b"", (), (WHERE,)),
        Payload(b"", tag="\udc80"),
        Payload(b"", peers=(WorkerInfo(A, ActorAddress("of another base")),)),
        Failure("E", "m", "t", None, "A", "f"),
    ],
    ids=[
        "large",
        "large buffer",
        "with an address",
        "no UTF-8",
        "a stranger",
        "a failure",
    ],
)
def test_what_has_to_be_an_envelope(payload: object) -> None:
    assert parcels.pack(A, B, Packet(0, (told(payload),), 0), ()) is None


def test_a_segment_is_told_of() -> None:
    segment = Segment((1, 2), "farref-name", 1 << 40, writable=True)
    buffers = (b"fixed", segment, bytearray(b"mine"))
    (came,) = parcels.unpack(packed(told(Payload(b"", buffers)))).packet.messages
    payload = payload_of(came)
    assert payload is not None
    fixed, there, mine = payload.buffers
    assert type(there) is Segment
    assert there.row() == segment.row()
    assert (type(fixed), type(mine)) == (bytes, bytearray)


@pytest.mark.parametrize(
    "row",
    [[1, 2, "name", 3, True], [1, 2, "name", 3, True, 0, 0], [1, "2", "name", 3, True, 0], [], 7],
)
def test_what_is_no_segment(row: object) -> None:
    whole: Any = rows()
    whole[2][2][0][1][0][1][0] = row
    came: Any = parcels.unpack(msgspec.msgpack.encode(whole)).packet.messages
    assert isinstance(came[0], Malformed)


def rows() -> list[Any]:
    made: list[Any] = msgspec.msgpack.decode(packed(told(PAYLOAD), Ack(rref=RREF, fork=FORK)))
    return made


@pytest.mark.parametrize(
    "wrong",
    [b"", b"\x00", packed()[:-1], packed() + b"\x00", msgspec.msgpack.encode(rows()[:-1])],
    ids=["nothing", "a number", "torn", "too long", "a field too few"],
)
def test_what_is_no_parcel(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        parcels.unpack(wrong)


@pytest.mark.parametrize("field", range(7))
def test_a_payload_that_is_none_takes_no_other_message_with_it(field: int) -> None:
    row = rows()
    row[2][2][0][1][0][field] = {"not": "that"}
    came: Any = parcels.unpack(msgspec.msgpack.encode(row)).packet.messages
    assert isinstance(came[0], Malformed)
    assert came[1] == Ack(rref=RREF, fork=FORK)


def test_more_buffers_than_it_says() -> None:
    row = rows()
    row[4] = row[4][:1]
    came: Any = parcels.unpack(msgspec.msgpack.encode(row)).packet.messages
    assert isinstance(came[0], Malformed)


@pytest.mark.parametrize("seed", range(5))
def test_damaged_bytes_raise_nothing_else(seed: int) -> None:
    rng, whole = random.Random(seed), packed(told(PAYLOAD), Ack(rref=RREF, fork=FORK))
    for _ in range(400):
        spoilt = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        try:
            parcels.unpack(spoilt)
        except ProtocolError:
            continue


ME = WorkerInfo(WorkerId("A", 1), ActorAddress("there"))
SEGMENT = Segment((1, 2), "farref-name", 3, writable=True)
ORIGIN = Origin("a.py:1", (("traceparent", "00-1-2-01"),))
WHOLE = [
    ME,
    Payload(
        b"data",
        (b"one", bytearray(b"two")),
        ("inert",),
        (ME,),
        "tag",
        True,
        ORIGIN,
        (Placed(1), Placed(2, A, 3, b"function")),
        plain=True,
    ),
    Envelope(ME, WorkerId("B", 2), b"packet", (Payload(b"data"),), (ME,)),
]


@pytest.mark.parametrize("thing", WHOLE, ids=lambda thing: type(thing).__name__)
def test_every_field_arrives(thing: Any) -> None:
    names, defaults = _fields(thing)
    same = [name for name, default in defaults.items() if getattr(thing, name) == default]
    assert not same, "a field that this test says nothing about"
    came = pickle.loads(pickle.dumps(thing, 5))
    assert [getattr(came, name) for name in names] == [getattr(thing, name) for name in names]


def _fields(thing: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of all fields, and the defaults of those that have one."""
    every = fields(thing) if is_dataclass(thing) else msgspec.structs.fields(thing)
    none = (MISSING, msgspec.NODEFAULT)
    defaults = {each.name: each.default for each in every if each.default not in none}
    return [each.name for each in every], defaults


def test_a_pickled_segment_is_told_of() -> None:
    came = pickle.loads(pickle.dumps(Payload(b"", (SEGMENT,)), 5)).buffers[0]
    told = (came._source, came.name, came.size, came.writable)
    assert told == ((1, 2), "farref-name", 3, True)


@SHARED_MEMORY
def test_messages_of_one_packet_each_open_what_they_share() -> None:
    """A frozen value is fetched twice: the reader of one reply closes only that reply's part."""
    segment = Segment.of(memoryview(b"frozen" * 1000), writable=False)
    assert segment is not None
    payloads = tuple(Payload(b"", (segment,), frozen=True) for _ in range(2))
    came = pickle.loads(pickle.dumps(Envelope(ME, WorkerId("B", 2), b"packet", payloads), 5))
    for payload in came.payloads:
        payload.take()
    for payload in came.payloads:
        assert bytes(payload.buffers[0].buffer()) == b"frozen" * 1000

"""One form for every packet: all messages arrive as they were, and nothing else is taken.

A few things travel beside the bytes. What an `Envelope` carries survives a pickle.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace
from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.wire import codec
from farref.actors.wire.codec import LONGEST, PART_BYTES, Malformed, OtherPart
from farref.actors.wire.messages import Envelope, WorkerInfo
from farref.protocol.columns import MANY
from farref.protocol.delivery import Packet
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Ack,
    Busy,
    Call,
    Cargo,
    ChildAck,
    Create,
    CreditAsked,
    Delete,
    Descriptor,
    Fetch,
    Invoke,
    Message,
    Moved,
    Passing,
    Reply,
    Report,
    Returned,
    Tell,
)
from farref.serialization.definitions import Exported
from farref.serialization.errors import Failure
from farref.serialization.payload import Origin, Payload, said
from farref.serialization.shared import Segment

from ...fuzz.test_packets import IDS
from ...fuzz.test_protocol import MessageMaker
from ...marks import SHARED_MEMORY
from ...packets import A as SENDER
from ...packets import came, carried, row_of, written

A, B, C = (WorkerId(name, number) for number, name in enumerate("ABC", 1 << 62))
NUMBERS = st.integers(0, (1 << 64) - 1)
ENDS = st.sampled_from((A, B, C))
WHERE = ActorAddress(Address("key", "/a/path", "127.0.0.1", 1900))
ELSEWHERE = ActorAddress("of another base")
INFO = WorkerInfo(A, WHERE)


def rarely(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((*[usual] * 4, *others))


LOANS = st.builds(
    Descriptor,
    rref=st.builds(RRefId, ENDS, NUMBERS),
    fork=st.builds(ForkId, ENDS, NUMBERS),
    owner=ENDS,
    parent=ENDS,
    passing=st.sampled_from(Passing),
    counted=st.booleans(),
)
PLACES = st.tuples(NUMBERS, NUMBERS, st.text(), NUMBERS, st.booleans(), NUMBERS)
PAYLOADS = st.builds(
    Payload,
    st.binary(),
    st.lists(
        st.one_of(st.binary(), st.builds(bytearray, st.binary()), PLACES.map(said)), max_size=2
    )
    .map(tuple)
    .flatmap(lambda buffers: rarely((), buffers)),
    rarely((), (WHERE,)),
    rarely((), (INFO,), (WorkerInfo(C, ELSEWHERE), INFO)),
    st.one_of(st.none(), st.text(), rarely("f", ("ask", 1, "Look"), "\ud800")),
    st.booleans(),
    rarely(None, Origin("here", (("traceparent", "00-1-2-01"),))),
    rarely((), (Exported(7),), (Exported(7, A, 1, b"its definition"),), (Exported(1), Exported(2))),
    st.booleans(),
)
CARGOES = st.builds(
    lambda payload, loans: Cargo(payload=payload, descriptors=tuple(loans)),
    st.one_of(PAYLOADS, rarely(Payload(b"data", tag="f"), None, "of a shell")),
    st.lists(LOANS, max_size=MANY + 1),
)
CALLS = st.builds(CallId, ENDS, NUMBERS)
RREFS, FORKS = st.builds(RRefId, ENDS, NUMBERS), st.builds(ForkId, ENDS, NUMBERS)
CHAINS = rarely((), (Busy(RRefId(A, 1), CallId(A, 1)),))
LOAN = Descriptor(rref=RRefId(A, 1), fork=ForkId(A, 1), owner=A, parent=A)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Call, call=CALLS, cargo=CARGOES, chain=CHAINS),
    st.builds(
        Invoke, call=CALLS, rref=RREFS, cargo=CARGOES, chain=CHAINS, cancelled=rarely(False, True)
    ),
    st.builds(
        Reply,
        call=CALLS,
        cargo=CARGOES,
        loans=rarely((), (Report(rref=RRefId(A, 1), fork=ForkId(A, 1), owner=A, held=True),)),
        relayed=rarely(False, True),
        refused=rarely(False, True),
        moved=rarely(None, Moved(fork=LOAN, path=())),
    ),
    st.builds(
        Fetch,
        call=CALLS,
        rref=RREFS,
        copy=st.booleans(),
        direct=st.booleans(),
        chain=CHAINS,
        cancelled=rarely(False, True),
    ),
    st.builds(
        Create,
        call=CALLS,
        rref=RREFS,
        fork=FORKS,
        cargo=CARGOES,
        target=rarely(None, RRefId(B, 1)),
        settled=NUMBERS,
    ),
    st.builds(Ack, rref=RREFS, fork=FORKS),
    st.builds(
        Delete,
        rref=RREFS,
        forks=st.lists(FORKS, max_size=2).map(tuple),
        borrowers=rarely((), ((ForkId(A, 1), B),)),
    ),
    st.builds(Tell, cargo=CARGOES),
    st.integers().map(lambda seed: MessageMaker(random.Random(seed), IDS).message()),
)
"""The frequent kinds, mostly as they are mostly, and any messages of all kinds."""


def plain(thing: Any) -> Any:
    """*thing*, with each buffer in shared memory as its place: two are never equal."""
    payload = getattr(getattr(thing, "cargo", None), "payload", None)
    if type(payload) is not Payload:
        return thing
    buffers = tuple(
        each.fields() if isinstance(each, Segment) else each for each in payload.buffers
    )
    inert = (buffers, *map(type, buffers), *payload.inert)
    cargo = Cargo(
        payload=replace(payload, buffers=(), inert=inert), descriptors=thing.cargo.descriptors
    )
    return replace(thing, cargo=cargo)


def addresses(thing: Any) -> list[tuple[Any, ...]]:
    """The addresses of the endpoints that *thing* introduces."""
    payload = getattr(getattr(thing, "cargo", None), "payload", None)
    details = [each.address.addressDetails for each in getattr(payload, "peers", ())]
    return [(each,) if type(each) is str else astuple(each) for each in details]


@given(st.lists(MESSAGES, max_size=4), NUMBERS, NUMBERS, st.sampled_from((LONGEST, 4, -1)))
def test_every_message_arrives_alone_and_with_others(
    messages: list[Message], first: int, expects: int, longest: int
) -> None:
    data, beside = written(Packet(first, tuple(messages), expects), A, B, longest)
    packet = came(data, beside, A, B)
    assert (packet.first, packet.expects) == (first, expects)
    assert list(map(plain, packet.messages)) == list(map(plain, messages))
    assert list(map(addresses, packet.messages)) == list(map(addresses, messages))


# ---- the parts of the frequent kinds

CALL, RREF, FORK = CallId(A, 5), RRefId(A, 3), ForkId(A, 4)
NAMED = Cargo(payload=Payload(b"data", tag="f"))
APART = Cargo(payload=Payload(b"data", tag="f", functions=(Exported(7),)))
ORIGIN = Origin("a.py:1", (("traceparent", "00-1-2-01"),))
TRACED = Cargo(payload=Payload(b"data", tag="f", origin=ORIGIN))
HOLES = Cargo(payload=Payload(b"data", tag="f", plain=True), descriptors=(LOAN,))
FREQUENT: list[Message] = [
    Call(call=CALL, cargo=NAMED),
    Call(call=CALL, cargo=APART),
    Call(call=CALL, cargo=HOLES),
    Call(call=CALL, cargo=TRACED),
    Invoke(call=CALL, rref=RRefId(B, 3), cargo=NAMED),
    Invoke(call=CALL, rref=RRefId(B, 3), cargo=TRACED),
    Invoke(call=CALL, rref=RRefId(C, 3), cargo=HOLES),
    Reply(call=CallId(B, 5), cargo=Cargo(payload=Payload(b"data"))),
    Reply(call=CallId(B, 5), cargo=Cargo(payload=Payload(b"data", (b"more",), frozen=True))),
    Fetch(call=CALL, rref=RREF, direct=True),
    Fetch(call=CALL, rref=RRefId(C, 3), copy=False),
    Create(call=CALL, rref=RREF, fork=FORK, cargo=NAMED, settled=2),
    Create(call=CALL, rref=RREF, fork=FORK, cargo=APART),
    Create(call=CALL, rref=RREF, fork=FORK, cargo=TRACED),
    Ack(rref=RRefId(B, 3), fork=ForkId(B, 4)),
    Ack(rref=RRefId(C, 3), fork=ForkId(B, 4)),
    Delete(rref=RREF, forks=(FORK,)),
]
RARE: list[Message] = [ChildAck(rref=RREF, fork=FORK), CreditAsked(flow="requests")]


@pytest.mark.parametrize("message", FREQUENT, ids=str)
def test_a_frequent_message_has_a_part_of_its_own(message: Message) -> None:
    data, beside = written(Packet(8, (message,), 9), A, B)
    assert not beside
    assert type(row_of(data).parts[0]) is not OtherPart
    assert came(data, (), A, B).messages == (message,)


def test_a_rare_message_changes_no_part_of_others() -> None:
    data, _ = written(Packet(8, (*FREQUENT, *RARE, *FREQUENT), 9), A, B)
    parts = row_of(data).parts
    alone = row_of(written(Packet(8, tuple(FREQUENT), 9), A, B)[0]).parts
    assert parts[: len(FREQUENT)] == parts[-len(FREQUENT) :] == alone
    assert {type(each) for each in parts[len(FREQUENT) : -len(FREQUENT)]} == {OtherPart}
    assert came(data, (), A, B).messages == (*FREQUENT, *RARE, *FREQUENT)


# ---- the sender, and those whom a packet introduces


def test_the_first_packet_says_who_its_sender_is() -> None:
    first, later = (written(Packet(number, (), 0), A, B)[0] for number in (0, 1))
    found = codec.read(first, B, {})
    assert found is not None
    assert found[0] == A
    assert codec.read(later, B, {}) is None
    assert len(later) < len(first)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("sender", "to"), [(A, C), (B, B)])
def test_a_packet_for_another_endpoint_or_of_oneself_is_refused(
    sender: WorkerId, to: WorkerId, first: int
) -> None:
    data, _ = written(Packet(first, (), 0), sender, to)
    with pytest.raises(ProtocolError, match=f"for number {to.incarnation}"):
        codec.read(data, B, {sender.incarnation: sender})


@pytest.mark.parametrize("address", [WHERE, ELSEWHERE], ids=str)
def test_those_whom_a_message_names_are_introduced(address: ActorAddress) -> None:
    report = Report(
        rref=RREF, fork=FORK, owner=A, held=False, borrowers=((FORK, C), (FORK, WorkerId("D", 4)))
    )
    packet = Packet(1, (Returned(loans=(report,)),), 0)
    data, beside = codec.encode(A, B, packet, {C: address}.get, LONGEST)
    assert list(beside) == [address][address is WHERE :]
    found = codec.read(data, B, {A.incarnation: A}, beside)
    assert found is not None
    (introduced,) = found[2]
    assert introduced.id == C
    there = introduced.address.addressDetails
    assert there == address.addressDetails
    if isinstance(there, Address):
        assert astuple(there) == astuple(WHERE.addressDetails)


@pytest.mark.parametrize("beside", [(), (b"no address",)], ids=["nothing", "no address"])
def test_an_introduction_without_an_address_is_refused(beside: tuple[object, ...]) -> None:
    row = replace(row_of(written(Packet(1, (), 0))[0]), peers=((C, 0),))
    with pytest.raises(ProtocolError):
        came(msgspec.msgpack.encode(row), beside)


# ---- what travels beside the bytes


def told(payload: object) -> Tell:
    return Tell(cargo=Cargo(payload=payload))


LARGE = Payload(bytes(LONGEST + 1), tag="f")
BESIDE = {
    "large": LARGE,
    "large buffer": Payload(b"", (bytes(LONGEST + 1),)),
    "large definition": Payload(b"", functions=(Exported(1, A, 1, bytes(LONGEST + 1)),)),
    "with an address": Payload(b"", (), (WHERE,)),
    "no UTF-8": Payload(b"", tag="\udc80"),
    "a failure": Failure("E", "m", "t", None, "A", "f"),
    "of a shell": "text",
}


@pytest.mark.parametrize("payload", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("kind", ["call", "reply", "tell"])
def test_what_travels_beside_the_bytes(payload: object, kind: str) -> None:
    cargo = Cargo(payload=payload)
    kinds: dict[str, Message] = {
        "call": Call(call=CALL, cargo=cargo),
        "reply": Reply(call=CallId(B, 5), cargo=cargo),
        "tell": Tell(cargo=cargo),
    }
    message = kinds[kind]
    data, beside = written(Packet(8, (message, *RARE), 9), A, B)
    assert any(each is payload for each in beside)
    assert len(data) < 500
    assert came(data, beside, A, B).messages == (message, *RARE)


def test_of_a_stranger_only_the_address_does() -> None:
    payload = Payload(b"data", peers=(WorkerInfo(A, ELSEWHERE), WorkerInfo(B, WHERE)))
    data, beside = written(Packet(1, (told(payload),), 0))
    assert beside == [ELSEWHERE]
    assert came(data, beside).messages == (told(payload),)


def test_in_a_packet_of_several_large_ones_do() -> None:
    """A window of parts is not too large for a packet."""
    large = Call(call=CALL, cargo=Cargo(payload=Payload(bytes(PART_BYTES + 1), tag="f")))
    data, beside = written(Packet(8, (large, large), 9), A, B, PART_BYTES)
    assert beside == [large.cargo.payload] * 2
    assert came(data, beside, A, B).messages == (large, large)


@pytest.mark.parametrize("number", [2, 1 << 63])
def test_a_payload_that_is_not_beside_them_takes_no_other_with_it(number: int) -> None:
    data, beside = written(Packet(1, (told("one"), told("two")), 0))
    row: Any = msgspec.msgpack.decode(data)
    row[5][0][2] = number
    wrong, right = came(msgspec.msgpack.encode(row), beside).messages
    assert isinstance(wrong, Malformed)
    assert right == told("two")


ANY: Any = 7


@pytest.mark.parametrize(
    "wrong",
    [
        Payload(ANY),
        Payload(b"", frozen=ANY),
        Payload(b"", peers=(A,)),
        Failure(ANY, "m", "t", None, "A", "f"),
    ],
    ids=["data", "frozen", "peers", "failure"],
)
def test_a_wrong_payload_beside_them_takes_no_other_with_it(wrong: object) -> None:
    data, _ = written(Packet(1, (told("one"), told("two")), 0))
    spoilt, right = came(data, (wrong, "two")).messages
    assert isinstance(spoilt, Malformed)
    assert right == told("two")


# ---- payloads in the bytes

PAYLOAD = Payload(
    b"data", (b"fixed", bytearray(b"mine")), (), (INFO,), ("ask", 7, "Look"), True, ORIGIN
)
BOTH = told(PAYLOAD), Ack(rref=RREF, fork=FORK)


def rows() -> list[Any]:
    """A packet with `BOTH`, without types."""
    made: list[Any] = msgspec.msgpack.decode(written(Packet(3, BOTH, 9))[0])
    return made


def test_buffers_are_writable_or_not() -> None:
    segment = Segment((1, 2), "farref-name", 1 << 40, writable=True)
    (message,) = carried(told(Payload(b"", (b"fixed", segment, bytearray(b"mine")))))
    fixed, there, mine = message.cargo.payload.buffers
    assert type(there) is Segment
    assert there.fields() == segment.fields()
    assert (type(fixed), type(mine)) == (bytes, bytearray)


def put(whole: Any, path: Sequence[int], value: object) -> bytes:
    """A packet, which is *whole* but for the *value* at *path*."""
    *inner, last = path
    at = whole
    for place in inner:
        at = at[place]
    at[last] = value
    return msgspec.msgpack.encode(whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(((field,), {"not": "that"}) for field in range(9)),
        # what is no segment
        ((1, 0), [1, 2, "name", 3, True]),
        ((1, 0), [1, 2, "name", 3, True, 0, 0]),
        ((1, 0), [1, "2", "name", 3, True, 0]),
        ((1, 0), []),
        ((1, 0), 7),
        # what is no writable buffer
        *(((2,), writable) for writable in ([2], [-1], [1 << 64 - 1], ["1"], None)),
    ],
)
def test_a_payload_that_is_none_takes_no_other_message_with_it(
    path: tuple[int, ...], value: object
) -> None:
    assert came(msgspec.msgpack.encode(rows())).messages == BOTH
    spoilt, right = came(put(rows(), (5, 0, 2, *path), value)).messages
    assert isinstance(spoilt, Malformed)
    assert right == BOTH[1]


WITH_ONE, WITHOUT = told("beside"), ChildAck(rref=RREF, fork=FORK)


@pytest.mark.parametrize(
    ("message", "path", "value"),
    [
        (WITH_ONE, (1, 1, 0), 0),
        (WITH_ONE, (2,), "beside"),
        (WITH_ONE, (3,), [7]),
        (WITHOUT, (2,), 0),
        (WITHOUT, (3,), None),
    ],
)
def test_a_payload_in_a_wrong_place(message: Message, path: tuple[int, ...], value: object) -> None:
    whole: Any = msgspec.msgpack.decode(written(Packet(1, (message, *RARE), 0))[0])
    spoilt, *others = came(put(whole, (5, 0, *path), value), ("beside",)).messages
    assert isinstance(spoilt, Malformed)
    assert others == RARE


# ---- other data


@pytest.mark.parametrize(
    "part",
    [
        [1, -1, b"", "f", None, [], False, None],
        [1, 1, "text", "f", None, [], False, None],
        [1, 1, b"", "f", -1, [], False, None],
        [1, 1, b"", "f", None, [1], False, None],
        [1, 1, b"", "f", None, [], False, ["a.py:1", [["no value"]]]],
        [1, 1, b"", "f", None, [], False],
        [1, 1, b"", "f", None, [], False, None, "one more"],
        [2, 1, b"", "f", None, [], False, None, 2, 1],
        [3, 1, b"", "f", None, [], False, None, 3, 4, -1],
        [4, 1, ["A", -1], 1, True, True],
        [4, 1, 0, 1, 7, True],
        [5, 1, b"", 0],
        [6, 1, b"", True, [[1, -1, "name", 5, True, 0]], False],
        [6, 1, b"", True, ["text"], False],
        [7, 0, 1],
        [8, 0, 3, 2, 4],
        [0, ["CreditAsked", "no flow"], None, []],
        [0, ["CreditAsked", "mail"], None],
        [0, ["CreditAsked", "mail", 1], None, []],
        [0, ["No such message"], None, []],
        [99, 1],
        ["CreditAsked", "mail"],
        None,
        7,
    ],
    ids=str,
)
def test_a_malformed_part_spoils_no_other(part: object) -> None:
    data = msgspec.msgpack.encode([2, 1, 2, 8, 9, [[7, 0, 3, 0, 4], part, [7, 0, 3, 0, 4]], []])
    packet = came(data)
    right = Ack(rref=RRefId(SENDER, 3), fork=ForkId(SENDER, 4))
    assert (packet.first, packet.expects) == (8, 9)
    before, spoilt, after = packet.messages
    assert before == after == right
    assert isinstance(spoilt, Malformed)
    assert 0 < len(spoilt.why) <= codec.TEXT


EMPTY = msgspec.msgpack.encode([2, 1, 2, 8, 9, [], []])
NO_PACKETS: list[Any] = [
    [2, -1, 2, 8, 9, [], []],
    [2, "A", 2, 8, 9, [], []],
    [2, ["A", -1], 2, 8, 9, [], []],
    [2, 1, ["B", 2], 8, 9, [], []],
    [2, 1, 2, -1, 9, [], []],
    [2, 1, 2, 8, None, [], []],
    [2, 1, 2, 8, 9, None, []],
    [2, 1, 2, 8, 9, [], [7]],
    [2, 1, 2, 8, 9, [], [[["C", 3], ["key", "path", "host"]]]],
    [2, 1, 2, 8, 9, [], [[["C", 3], -1]]],
    [2, 1, 2, 8, 9, []],
    [2, 1, 2, 8, 9, [], [], 0],
    [1, 1, 2, 8, 9, [], []],
    {},
    7,
]


NO_BYTES = b"", b"\x00", EMPTY[:-1], EMPTY + b"\x00", b"\x91" * 100_000


@pytest.mark.parametrize(
    "data",
    [*map(msgspec.msgpack.encode, NO_PACKETS), *NO_BYTES],
    ids=lambda data: repr(data[:30]),
)
def test_what_is_no_packet(data: bytes) -> None:
    assert came(EMPTY) == Packet(8, (), 9)
    with pytest.raises(ProtocolError):
        came(data)


# ---- pickles

ME = WorkerInfo(WorkerId("A", 1), ActorAddress("there"))
SEGMENT = Segment((1, 2), "farref-name", 3, writable=True)
PICKLED = [
    ME,
    Payload(
        b"data",
        (b"one", bytearray(b"two")),
        ("inert",),
        (ME,),
        "tag",
        True,
        ORIGIN,
        (Exported(1), Exported(2, A, 3, b"function")),
        plain=True,
    ),
    Envelope(ME.address, b"packet", (Payload(b"data"), ME.address)),
]


@pytest.mark.parametrize("thing", PICKLED, ids=lambda thing: type(thing).__name__)
def test_every_field_arrives(thing: Any) -> None:
    every = msgspec.structs.fields(thing)
    same = [each.name for each in every if getattr(thing, each.name) == each.default]
    assert not same, "a field that this test says nothing about"
    copy = pickle.loads(pickle.dumps(thing, 5))
    assert astuple(copy) == astuple(thing)


def test_a_pickled_segment_is_told_of() -> None:
    segment = pickle.loads(pickle.dumps(Payload(b"", (SEGMENT,)), 5)).buffers[0]
    told = (segment._source, segment.name, segment.size, segment.writable)
    assert told == ((1, 2), "farref-name", 3, True)


def twice(payload: Payload) -> list[Any]:
    """Two payloads that arrive in one packet, in the bytes."""
    return [each.cargo.payload for each in carried(told(payload), told(payload))]


def pickled_twice(payload: Payload) -> list[Any]:
    """The same beside the bytes."""
    envelope = Envelope(WHERE, b"packet", (payload, replace(payload)))
    return list(pickle.loads(pickle.dumps(envelope, 5)).beside)


@SHARED_MEMORY
@pytest.mark.parametrize("way", [twice, pickled_twice])
def test_messages_of_one_packet_each_open_what_they_share(way: Any) -> None:
    """A frozen value is fetched twice: the reader of one reply closes only that reply's part."""
    segment = Segment.of(memoryview(b"frozen" * 1000), writable=False)
    assert segment is not None
    payloads = way(Payload(b"", (segment,), frozen=True))
    for payload in payloads:
        payload.take()
    for payload in payloads:
        assert bytes(payload.buffers[0].buffer()) == b"frozen" * 1000


# ---- identities


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (WorkerInfo(A, WHERE), WorkerInfo(A, ELSEWHERE), WorkerInfo(B, WHERE)),
        (Address("a", "/here"), Address("a", "/there"), Address("b", "/here")),
    ],
)
def test_equal_by_the_name(one: Any, same: Any, other: Any) -> None:
    assert one == same
    assert not one != same  # noqa: SIM202 - `!=` is a method of its own
    assert one != other
    assert not one == other  # noqa: SIM201
    assert hash(one) == hash(same)

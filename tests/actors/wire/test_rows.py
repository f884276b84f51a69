"""Rows: each message arrives as it was, or has no row; the frequent ones have one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farref.actors.wire import rows
from farref.protocol.columns import MANY
from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    FLOWS,
    Ack,
    Busy,
    Call,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Invoke,
    Message,
    Moved,
    Passing,
    Reply,
    Report,
    RoomAsked,
    RoomGiven,
    Tell,
)
from farref.serialization.definitions import Placed
from farref.serialization.payload import Origin, Payload, said
from farref.serialization.shared import Segment

A, B, C = (WorkerId(name, number) for number, name in enumerate("ABC", 1 << 62))
NUMBERS = st.integers(0, (1 << 64) - 1)
ENDS = st.sampled_from((A, B, C))


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
    rarely((), (1,)),
    rarely((), ("a peer",)),
    st.one_of(st.none(), st.text(), rarely("f", ("ask", 1), "\ud800")),
    st.booleans(),
    rarely(None, Origin("here")),
    rarely((), (Placed(7),), (Placed(7, A, 1, b"its definition"),), (Placed(1), Placed(2))),
    st.booleans(),
)
CARGOES = st.builds(
    lambda payload, loans: Cargo(payload=payload, descriptors=tuple(loans)),
    st.one_of(PAYLOADS, rarely(Payload(b"data", tag="f"), None, "an error")),
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
    st.builds(RoomAsked, flow=st.sampled_from(FLOWS)),
    st.builds(RoomGiven, flow=st.sampled_from(FLOWS)),
    st.builds(ChildAck, rref=RREFS, fork=FORKS),
    st.builds(Tell, cargo=CARGOES),
)


def plain(thing: Any) -> Any:
    """*thing*, with each buffer in shared memory as its place: two are never equal."""
    payload = getattr(getattr(thing, "cargo", None), "payload", None)
    if type(payload) is not Payload:
        return thing
    buffers = tuple(each.row() if isinstance(each, Segment) else each for each in payload.buffers)
    cargo = Cargo(
        payload=replace(payload, buffers=(), inert=(buffers, *map(type, buffers))),
        descriptors=thing.cargo.descriptors,
    )
    return replace(thing, cargo=cargo)


@given(st.lists(MESSAGES, max_size=3), NUMBERS, NUMBERS)
def test_a_packet_arrives_as_it_was_or_has_no_row(
    messages: list[Message], first: int, expects: int
) -> None:
    data = rows.encode(A, B, Packet(first, tuple(messages), expects))
    if data is None:
        return
    assert data[0] != rows.PARCEL
    row = rows.decode(data)
    assert (row.sender, row.to) == (A.incarnation, B.incarnation)
    assert (row.first, row.expects) == (first, expects)
    assert list(map(plain, rows.messages_of(row, A, B))) == list(map(plain, messages))


CALL, RREF, FORK = CallId(A, 5), RRefId(A, 3), ForkId(A, 4)
NAMED = Cargo(payload=Payload(b"data", tag="f"))
APART = Cargo(payload=Payload(b"data", tag="f", functions=(Placed(7),)))
HOLES = Cargo(payload=Payload(b"data", tag="f", plain=True), descriptors=(LOAN,))
FREQUENT: list[Message] = [
    Call(call=CALL, cargo=NAMED),
    Call(call=CALL, cargo=APART),
    Call(call=CALL, cargo=HOLES),
    Invoke(call=CALL, rref=RRefId(B, 3), cargo=NAMED),
    Invoke(call=CALL, rref=RRefId(C, 3), cargo=HOLES),
    Reply(call=CallId(B, 5), cargo=Cargo(payload=Payload(b"data"))),
    Reply(call=CallId(B, 5), cargo=Cargo(payload=Payload(b"data", (b"more",), frozen=True))),
    Fetch(call=CALL, rref=RREF, direct=True),
    Fetch(call=CALL, rref=RRefId(C, 3), copy=False),
    Create(call=CALL, rref=RREF, fork=FORK, cargo=NAMED, settled=2),
    Create(call=CALL, rref=RREF, fork=FORK, cargo=APART),
    Ack(rref=RRefId(B, 3), fork=ForkId(B, 4)),
    Ack(rref=RRefId(C, 3), fork=ForkId(B, 4)),
    Delete(rref=RREF, forks=(FORK,)),
    RoomAsked(flow="requests"),
]


@pytest.mark.parametrize("message", FREQUENT, ids=str)
def test_a_frequent_message_has_a_row(message: Message) -> None:
    data = rows.encode(A, B, Packet(8, (message,), 9))
    assert data is not None
    assert rows.messages_of(rows.decode(data), A, B) == (message,)


def test_many_of_them_have_one() -> None:
    data = rows.encode(A, B, Packet(8, tuple(FREQUENT), 9))
    assert data is not None
    assert rows.messages_of(rows.decode(data), A, B) == tuple(FREQUENT)


def test_a_large_one_goes_alone() -> None:
    """A window of parts is not too large for a row."""
    large = Call(call=CALL, cargo=Cargo(payload=Payload(bytes(rows.PART_BYTES + 1), tag="f")))
    assert rows.encode(A, B, Packet(8, (large,), 9)) is not None
    assert rows.encode(A, B, Packet(8, (large, large), 9)) is None


@given(st.binary(min_size=1))
def test_anything_else_is_refused(data: bytes) -> None:
    try:
        row = rows.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    rows.messages_of(row, A, B)


@pytest.mark.parametrize(
    "part",
    [
        [1, -1, b"", "f", None, [], False],
        [1, 1, "text", "f", None, [], False],
        [1, 1, b"", "f", -1, [], False],
        [1, 1, b"", "f", None, [1], False],
        [1, 1, b"", "f", None, []],
        [1, 1, b"", "f", None, [], False, "one more"],
        [2, 1, b"", "f", None, [], False, 2, 1],
        [4, 1, b"", [[1, -1, "name", 5, True, 0]], False, True],
        [4, 1, b"", ["text"], False, True],
        [5, 1, ["A", -1], 1, True, True],
        [5, 1, 0, 1, 7, True],
        [6, 1, b"", "f", None, False, 3, 4, -1],
        [7, 0, 1],
        [9, "no flow"],
        [99, 1],
    ],
    ids=str,
)
def test_a_malformed_part_is_refused(part: list[object]) -> None:
    with pytest.raises(msgspec.DecodeError):
        rows.decode(msgspec.msgpack.encode([1, 1, 2, 8, 9, [part]]))


@pytest.mark.parametrize("row", [[1, -1, 2, 0, 0, []], [1, 1, 2, 0, 0], [2, 1, 2, 0, 0, []]])
def test_a_malformed_row_is_refused(row: list[object]) -> None:
    with pytest.raises(msgspec.DecodeError):
        rows.decode(msgspec.msgpack.encode(row))

"""Rows of plain messages: there and back, and refused if malformed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farref.actors.wire import rows
from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    FLOWS,
    Call,
    Cargo,
    Descriptor,
    Fetch,
    Message,
    Moved,
    Passing,
    Reply,
    Report,
    RoomAsked,
    RoomGiven,
)
from farref.serialization.definitions import Placed
from farref.serialization.payload import Origin, Payload, said
from farref.serialization.shared import Segment

A, B, C = (WorkerId(name, number) for number, name in enumerate("ABC", 1 << 62))
NUMBERS = st.integers(0, (1 << 64) - 1)
CALLS = st.builds(
    lambda number, data, name, place: Call(
        call=CallId(A, number),
        cargo=Cargo(payload=Payload(data, tag=name, functions=place)),
    ),
    NUMBERS,
    st.binary(),
    st.text(),
    st.one_of(st.just(()), st.integers(0, 255).map(lambda place: (Placed(place),))),
)
REPLIES = st.builds(
    lambda number, data: Reply(call=CallId(B, number), cargo=Cargo(payload=Payload(data))),
    NUMBERS,
    st.binary(),
)
PLACES = st.tuples(NUMBERS, NUMBERS, st.text(), NUMBERS, st.booleans(), NUMBERS)
SHARED = st.builds(
    lambda number, data, places: Reply(
        call=CallId(B, number),
        cargo=Cargo(payload=Payload(data, tuple(said(place) for place in places))),
    ),
    NUMBERS,
    st.binary(),
    st.lists(PLACES, min_size=1),
)
FROZEN = st.builds(
    lambda number, data, parts: Reply(
        call=CallId(B, number),
        cargo=Cargo(
            payload=Payload(
                data,
                tuple(each if type(each) is bytes else said(each) for each in parts),
                frozen=True,
            )
        ),
    ),
    NUMBERS,
    st.binary(),
    st.lists(st.one_of(st.binary(), PLACES)),
)
FETCHES = st.builds(
    lambda number, creator, rref, direct: Fetch(
        call=CallId(A, number), rref=RRefId(creator, rref), direct=direct
    ),
    NUMBERS,
    st.sampled_from((A, B, C)),
    NUMBERS,
    st.booleans(),
)
LOANS = st.builds(
    lambda creator, number, fork, owner, counted: Descriptor(
        rref=RRefId(creator, number),
        fork=ForkId(A, fork),
        owner=owner,
        parent=A,
        passing=Passing.LOAN,
        counted=counted,
    ),
    st.sampled_from((A, B, C)),
    NUMBERS,
    NUMBERS,
    st.sampled_from((A, B, C)),
    st.booleans(),
)
LENDING = st.builds(
    lambda call, loans: replace(
        call, cargo=Cargo(payload=call.cargo.payload, descriptors=tuple(loans))
    ),
    CALLS,
    st.lists(LOANS, min_size=1, max_size=7),
)


@given(LENDING)
def test_a_call_that_introduces_others_needs_more_than_a_row(call: Call) -> None:
    payload: Any = call.cargo.payload
    cargo = Cargo(payload=replace(payload, peers=("C",)), descriptors=call.cargo.descriptors)
    assert rows.encode(A, B, Packet(0, (replace(call, cargo=cargo),), 0)) is None


@given(st.one_of(CALLS, REPLIES, FETCHES, LENDING), NUMBERS, NUMBERS)
def test_a_message_is_the_same_at_the_other_end(
    message: Call | Reply | Fetch, first: int, expects: int
) -> None:
    data = rows.encode(A, B, Packet(first, (message,), expects))
    assert data is not None
    assert data[0] != rows.PARCEL
    row = rows.decode(data)
    assert (row.sender, row.to) == (A.incarnation, B.incarnation)
    assert (row.first, row.expects) == (first, expects)
    assert rows.message_of(row, A, B) == message


@given(st.one_of(SHARED, FROZEN), NUMBERS, NUMBERS)
def test_buffers_in_shared_memory_are_named(message: Reply, first: int, expects: int) -> None:
    """A frozen value may have others, which travel in the row."""
    data = rows.encode(A, B, Packet(first, (message,), expects))
    assert data is not None
    row = rows.decode(data)
    assert (row.first, row.expects) == (first, expects)
    there = rows.message_of(row, A, B)
    assert isinstance(there, Reply)
    one, other = message.cargo.payload, there.cargo.payload
    assert isinstance(one, Payload)
    assert isinstance(other, Payload)
    assert (there.call, other.data, other.frozen) == (message.call, one.data, one.frozen)
    assert list(map(said_of, other.buffers)) == list(map(said_of, one.buffers))


def said_of(buffer: object) -> object:
    """A buffer itself, or its place."""
    if type(buffer) is bytes:
        return buffer
    assert isinstance(buffer, Segment)
    return buffer.row()


ROOM = st.builds(
    lambda kind, flow: kind(flow=flow),
    st.sampled_from((RoomAsked, RoomGiven)),
    st.sampled_from(FLOWS),
)


@given(st.lists(st.one_of(CALLS, REPLIES, ROOM), min_size=2), NUMBERS, NUMBERS)
def test_several_messages_are_the_same_at_the_other_end(
    messages: list[Message], first: int, expects: int
) -> None:
    data = rows.encode_all(A, B, Packet(first, tuple(messages), expects))
    assert data is not None
    assert data[0] != rows.PARCEL
    row = rows.decode(data)
    assert isinstance(row, rows.SeveralRow)
    assert (row.sender, row.to) == (A.incarnation, B.incarnation)
    assert (row.first, row.expects) == (first, expects)
    assert rows.messages_of(row, A, B) == tuple(messages)


def plain_call(**more: Any) -> Call:
    return Call(call=CallId(A, 1), cargo=Cargo(payload=Payload(b"", **{"tag": "f", **more})))


def plain_reply(**more: Any) -> Reply:
    return Reply(**{"call": CallId(B, 1), "cargo": Cargo(payload=Payload(b"")), **more})


LOAN = Descriptor(
    rref=RRefId(A, 1), fork=ForkId(A, 1), owner=A, parent=A, passing=Passing.LOAN, counted=True
)


@pytest.mark.parametrize(
    "message",
    [
        Fetch(call=CallId(A, 1), rref=RRefId(A, 1)),
        replace(plain_call(), chain=(RRefId(A, 1),)),
        replace(plain_call(), call=CallId(C, 1)),
        replace(plain_call(), cargo=Cargo(payload=Payload(b"", tag="f"), descriptors=(LOAN,))),
        plain_call(tag=None),
        plain_call(tag="\ud800"),
        plain_call(tag="f" * (rows.PART_BYTES + 1)),
        plain_call(buffers=(b"",)),
        plain_call(inert=(1,)),
        plain_call(peers=(1,)),
        plain_call(frozen=True),
        plain_call(origin=Origin("here")),
        plain_call(functions=(Placed(1, A, 1, b"its definition"),)),
        plain_call(functions=(Placed(1), Placed(2))),
        plain_call(functions=(Placed(1),), origin=Origin("here")),
        replace(plain_call(), cargo=Cargo(payload=Payload(bytes(rows.PART_BYTES + 1), tag="f"))),
        replace(plain_call(), cargo=Cargo()),
        plain_reply(call=CallId(C, 1)),
        plain_reply(loans=(Report(rref=RRefId(A, 1), fork=ForkId(A, 1), owner=A, held=True),)),
        plain_reply(relayed=True),
        plain_reply(refused=True),
        plain_reply(moved=Moved(fork=LOAN, path=())),
        plain_reply(cargo=Cargo(payload=Payload(b"", functions=(Placed(1),)))),
        plain_reply(cargo=Cargo(payload=Payload(b"", tag="f"))),
        plain_reply(cargo=Cargo(payload=Payload(b""), descriptors=(LOAN,))),
        plain_reply(cargo=Cargo(payload="an error")),
    ],
)
def test_with_one_that_is_not_plain_several_need_more_than_a_row(message: Message) -> None:
    plain = plain_call(), plain_reply()
    assert rows.encode_all(A, B, Packet(0, plain, 0)) is not None
    assert rows.encode_all(A, B, Packet(0, (*plain, message), 0)) is None


def test_a_name_that_is_no_text_needs_more_than_a_row() -> None:
    call = Call(call=CallId(A, 1), cargo=Cargo(payload=Payload(b"", tag="\ud800")))
    assert rows.encode(A, B, Packet(0, (call,), 0)) is None


@given(st.binary(min_size=1))
def test_anything_else_is_refused(data: bytes) -> None:
    try:
        row = rows.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if isinstance(row, rows.SeveralRow):
        assert {type(each) for each in rows.messages_of(row, A, B)} <= {
            *(Call, Reply, RoomAsked, RoomGiven)
        }
        return
    assert type(rows.message_of(row, A, B)) in {Call, Reply, Fetch}


@pytest.mark.parametrize(
    "row",
    [
        [1, -1, 2, 0, 0, 1, b"", "f"],
        [1, 1, 2, 0, 0, 1, b"", "f", -1],
        [1, 1, 2, 0, 0, 1, "text", "f"],
        [2, 1, 2, 0, 0, 1, b"", "one field more"],
        [3, 1, 2, 0, 0, 1, 7, True],
        [7, 1, 2, 0, 0, 1, b"", [[1, -1, "name", 5, True]]],
        [7, 1, 2, 0, 0, 1, b"", [[1, 1, "name", 5]]],
        [7, 1, 2, 0, 0, 1, b"", [b"bytes"]],
        [9, 1, 2, 0, 0, 1, b""],
        [9, 1, 2, 0, 0, 1, b"", [b"itself"]],
        [11, 1, 2, 0, 0, 1, b""],
        [11, 1, 2, 0, 0, 1, b"", ["text"]],
        [11, 1, 2, 0, 0, 1, b"", [[1, 2, "name", 3, False]]],
        [10, 1, 2, 0, 0, [[1, 1, b"", "f"]]],
        [10, 1, 2, 0, 0, [[2, -1, b""]]],
        [10, 1, 2, 0, 0, [[2, 1, b"", "one field more"]]],
        [10, 1, 2, 0, 0, [[3, "no flow"]]],
        [10, 1, 2, 0, 0, [[5, "mail"]]],
    ],
)
def test_a_row_with_a_wrong_field_is_refused(row: list[object]) -> None:
    with pytest.raises(msgspec.DecodeError):
        rows.decode(msgspec.msgpack.encode(row))

"""Many references of a message in columns: all that goes in comes out, and nothing else goes in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farref.actors.wire.codec import Malformed
from farref.protocol.columns import LARGEST, MANY, MOST, size_of
from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import Call, Cargo, Descriptor, Passing, Tell

from ..packets import came, carried, written

WORKERS = [WorkerId(name, number) for name, number in (("A", 1), ("B", 2), ("C", 1 << 61))]
workers = st.sampled_from(WORKERS)
numbers = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
rrefs = st.builds(RRefId, workers, numbers)
descriptors = st.builds(
    Descriptor,
    rref=rrefs,
    fork=st.builds(ForkId, workers, numbers),
    owner=workers,
    parent=workers,
    passing=st.sampled_from(Passing),
    counted=st.booleans(),
    name=st.none() | rrefs,
)


def sent(cargo: Cargo) -> Any:
    """*cargo* at the receiver of a packet with two messages."""
    other = Tell(cargo=Cargo(payload="other"))
    tell, same = carried(Tell(cargo=cargo), other)
    assert same == other
    assert isinstance(tell, Tell)
    return tell.cargo


@given(st.lists(descriptors, max_size=3 * MANY), st.sampled_from([None, "text", 7]))
def test_what_goes_in_comes_out(rows: list[Descriptor], payload: object) -> None:
    cargo = Cargo(payload=payload, descriptors=tuple(rows))
    assert sent(cargo) == cargo


def in_a_row(many: int, step: int = 1) -> tuple[Descriptor, ...]:
    a, b, _ = WORKERS
    return tuple(
        Descriptor(rref=RRefId(b, 1000 + step * n), fork=ForkId(a, n), owner=b, parent=a)
        for n in range(1, many + 1)
    )


def test_two_bytes_for_each() -> None:
    def size(many: int) -> int:
        call = Call(
            call=CallId(WORKERS[0], 1), cargo=Cargo(payload=b"", descriptors=in_a_row(many))
        )
        data = written(Packet(1, (call,), 0))[0]
        assert size_of(call.cargo.descriptors) <= len(data) <= size_of(call.cargo.descriptors) + 40
        return len(data)

    assert size(1_000) - size(100) <= 2 * 900 + 4
    assert size(MANY) < size(MANY - 1)


def test_backwards_and_far_apart() -> None:
    cargo = Cargo(descriptors=(*in_a_row(MANY, 1 << 40), *reversed(in_a_row(MANY))))
    assert sent(cargo) == cargo


def test_those_of_a_message_share_the_names_of_endpoints() -> None:
    first, *_, last = sent(Cargo(descriptors=in_a_row(MANY))).descriptors
    assert first.rref.creator is last.rref.creator
    assert first.fork.parent is last.fork.parent
    assert first.owner is last.owner


def column(**changes: Any) -> list[Any]:
    """One column as it travels, with two references."""
    a, b = [list(msgspec.structs.astuple(each)) for each in WORKERS[:2]]
    row = {
        "creator": b,
        "fork_parent": a,
        "owner": b,
        "parent": a,
        "passing": "fork",
        "counted": False,
    }
    row |= {"name": None, "numbers": [4, 1], "forks": [9, -1]} | changes
    return list(row.values())


def received(*columns: object, rows: tuple[Descriptor, ...] = ()) -> Any:
    """The first of two messages, with these *columns* and with *rows*."""
    right = Tell(cargo=Cargo(payload="text", descriptors=in_a_row(1)))
    data, beside = written(Packet(0, (replace(right, cargo=Cargo(payload="text")), right), 0))
    whole: Any = msgspec.msgpack.decode(data)
    whole[5][0][3] = columns
    whole[5][0][1] = Tell(cargo=Cargo(descriptors=rows))
    packet = came(msgspec.msgpack.encode(whole), beside)
    assert packet.messages[1] == right, "a malformed message spoils no other"
    return packet.messages[0]


def test_the_form_by_hand() -> None:
    found = received(column())
    assert found.cargo.payload == "text"
    assert [each.rref.number for each in found.cargo.descriptors] == [4, 5]
    assert [each.fork.number for each in found.cargo.descriptors] == [9, 8]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"numbers": [4]}, "differ in length"),
        ({"numbers": [], "forks": []}, "differ in length"),
        ({"numbers": [4, -5]}, "out of range"),
        ({"forks": [-1, 5]}, "out of range"),
        ({"numbers": [1, LARGEST]}, "out of range"),
        ({"numbers": ["1", 2]}, "at `$[3][0]"),
        ({"passing": "steal"}, "at `$[3][0]"),
        ({"owner": ["B", -2]}, "at `$[3][0]"),
        ({"creator": "B"}, "at `$[3][0]"),
        ({"more": 1}, "at `$[3][0]"),
    ],
)
def test_a_malformed_column_is_refused(changes: dict[str, Any], why: str) -> None:
    found = received(column(**changes))
    assert isinstance(found, Malformed)
    assert why in found.why


@pytest.mark.parametrize("columns", [[5], [None], [[]], ["text"], [[0, []]]])
def test_malformed_columns_are_refused(columns: list[object]) -> None:
    assert isinstance(received(*columns), Malformed)


def test_rows_and_columns_at_once_are_refused() -> None:
    assert isinstance(received(column(), rows=in_a_row(1)), Malformed)


def test_too_many_are_refused() -> None:
    """In two columns together; the numbers of one come as differences."""
    ones = [1] * (MOST // 2 + 1)
    found = received(*[column(numbers=ones, forks=ones)] * 2)
    assert isinstance(found, Malformed)
    assert f"more than {MOST} references" in found.why

"""Definitions in messages: brought once, found by their places, and dropped with their peer."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from farref.actors.core.shelves import Shelves
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, WorkerId
from farref.protocol.messages import Call, Cargo, Reply
from farref.serialization.definitions import Definition, Placed
from farref.serialization.payload import Payload

A, B, C = WorkerId("A", 1), WorkerId("B", 2), WorkerId("C", 3)
CALL = CallId(A, 1)


@pytest.fixture
def gone() -> list[Any]:
    return []


@pytest.fixture
def near(gone: list[Any]) -> Shelves:
    return Shelves(gone.extend)


@pytest.fixture
def far(gone: list[Any]) -> Shelves:
    return Shelves(gone.extend)


def calling(*functions: Definition | Placed) -> Call:
    return Call(call=CALL, cargo=Cargo(payload=Payload(b"", functions=functions)))


def functions_in(message: Any) -> Any:
    return message.cargo.payload.functions


def test_the_first_message_brings_it_and_later_ones_name_it(near: Shelves, far: Shelves) -> None:
    f, g = Definition(A, 1, b"f"), Definition(A, 2, b"gg")
    first, size = near.place(B, "requests", calling(f, g, f))
    assert functions_in(first) == (Placed(0, A, 1, b"f"), Placed(1, A, 2, b"gg"), Placed(0))
    assert size == 3
    again, size = near.place(B, "requests", calling(g))
    assert (functions_in(again), size) == ((Placed(1),), 0)
    came = functions_in(far.unshelve(A, "requests", first))
    assert [each.data for each in came] == [b"f", b"gg", b"f"]
    assert functions_in(far.unshelve(A, "requests", again)) == (came[1],)


def test_flows_and_peers_have_shelves_of_their_own(near: Shelves, far: Shelves) -> None:
    f = Definition(A, 1, b"f")
    by_call, _ = near.place(B, "requests", calling(f))
    reply = Reply(call=CALL, cargo=Cargo(payload=Payload(b"", functions=(f,))))
    by_reply, more = near.place(B, "results", reply)
    assert more == 1
    assert near.place(C, "requests", calling(f))[1] == 1
    (one,) = functions_in(far.unshelve(A, "requests", by_call))
    (other,) = functions_in(far.unshelve(A, "results", by_reply))
    assert one is other, "it is one function, whichever way it came"
    relayed, more = far.place(C, "requests", calling(one))
    assert (functions_in(relayed), more) == ((Placed(0, A, 1, b"f"),), 1)


def test_a_dead_peer_is_forgotten_and_its_functions_are_let_go_of_later(
    near: Shelves, far: Shelves, gone: list[Any]
) -> None:
    f = Definition(A, 1, b"f")
    message, _ = near.place(B, "requests", calling(f))
    known = weakref.ref(functions_in(far.unshelve(A, "requests", message))[0])
    far.forget(A)
    assert known() is not None, "finalizers are user code: not here"
    gone.clear()
    gc.collect()
    assert known() is None
    near.forget(B)
    assert near.place(B, "requests", calling(f))[1] == 1, "a new peer has nothing"


def test_what_no_correct_peer_sends_is_refused(far: Shelves) -> None:
    for row in (Placed(0), Placed(7, A, 1, b"f"), Placed(0, A, 1, b"x" * (33 << 20))):
        with pytest.raises(ProtocolError):
            far.unshelve(A, "requests", calling(row))

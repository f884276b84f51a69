"""Definitions in messages: sent once, found by their index, and dropped with their peer."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from farref.actors.core.exports import Exports
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, WorkerId
from farref.protocol.messages import Call, Cargo, Reply
from farref.serialization.definitions import Definition, Exported
from farref.serialization.payload import Payload

A, B, C = WorkerId("A", 1), WorkerId("B", 2), WorkerId("C", 3)
CALL = CallId(A, 1)


@pytest.fixture
def gone() -> list[Any]:
    return []


@pytest.fixture
def near(gone: list[Any]) -> Exports:
    return Exports(gone.extend)


@pytest.fixture
def far(gone: list[Any]) -> Exports:
    return Exports(gone.extend)


def calling(*functions: Definition | Exported) -> Call:
    return Call(call=CALL, cargo=Cargo(payload=Payload(b"", functions=functions)))


def functions_in(message: Any) -> Any:
    return message.cargo.payload.functions


def test_flows_and_peers_have_caches_of_their_own(near: Exports, far: Exports) -> None:
    f = Definition(A, 1, b"f")
    by_call, _ = near.export_functions(B, "requests", calling(f))
    reply = Reply(call=CALL, cargo=Cargo(payload=Payload(b"", functions=(f,))))
    by_reply, more = near.export_functions(B, "results", reply)
    assert more == 1
    assert near.export_functions(C, "requests", calling(f))[1] == 1
    (one,) = functions_in(far.import_functions(A, "requests", by_call))
    (other,) = functions_in(far.import_functions(A, "results", by_reply))
    assert one is other, "it is one function, whichever way it came"
    relayed, more = far.export_functions(C, "requests", calling(one))
    assert (functions_in(relayed), more) == ((Exported(0, A, 1, b"f"),), 1)


def test_a_dead_peer_is_forgotten_and_its_functions_are_let_go_of_later(
    near: Exports, far: Exports, gone: list[Any]
) -> None:
    f = Definition(A, 1, b"f")
    message, _ = near.export_functions(B, "requests", calling(f))
    known = weakref.ref(functions_in(far.import_functions(A, "requests", message))[0])
    far.forget(A)
    assert known() is not None, "finalizers are user code: not here"
    gone.clear()
    gc.collect()
    assert known() is None
    near.forget(B)
    assert near.export_functions(B, "requests", calling(f))[1] == 1, "a new peer has nothing"


def test_what_no_correct_peer_sends_is_refused(far: Exports) -> None:
    for row in (Exported(0), Exported(7, A, 1, b"f"), Exported(0, A, 1, b"x" * (33 << 20))):
        with pytest.raises(ProtocolError):
            far.import_functions(A, "requests", calling(row))

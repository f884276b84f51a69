"""A plain message arrives unchanged as a row; whatever needs more than a row has gets none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from farref.actors.wire import rows
from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import Ack, Call, Cargo, Create, Delete, Fetch, Reply
from farref.serialization.definitions import Placed
from farref.serialization.payload import Payload

if TYPE_CHECKING:
    from farref.actors.wire.rows import Plain

A, B, C = WorkerId("A", 1), WorkerId("B", 2), WorkerId("C", 3)
CALL, RREF, FORK = CallId(A, 5), RRefId(A, 3), ForkId(A, 4)
NAMED = Cargo(payload=Payload(b"data", tag="f"))
APART = Cargo(payload=Payload(b"data", tag="f", functions=(Placed(7),)))


@pytest.mark.parametrize(
    "message",
    [
        Call(call=CALL, cargo=NAMED),
        Call(call=CALL, cargo=APART),
        Reply(call=CallId(B, 5), cargo=Cargo(payload=Payload(b"data"))),
        Fetch(call=CALL, rref=RREF, direct=True),
        Fetch(call=CALL, rref=RRefId(B, 3)),
        Create(call=CALL, rref=RREF, fork=FORK, cargo=NAMED, settled=2),
        Create(call=CALL, rref=RREF, fork=FORK, cargo=APART),
        Ack(rref=RRefId(B, 3), fork=ForkId(B, 4)),
        Delete(rref=RREF, forks=(FORK,)),
    ],
    ids=lambda message: f"{message}",
)
def test_it_arrives(message: Plain) -> None:
    data = rows.encode(A, B, Packet(8, (message,), 9))
    assert data is not None
    row = rows.decode(data)
    assert (row.sender, row.to, row.first, row.expects) == (1, 2, 8, 9)
    assert rows.message_of(row, A, B) == message


@pytest.mark.parametrize(
    "message",
    [
        Delete(rref=RRefId(B, 3), forks=(FORK,)),
        Delete(rref=RREF, forks=(ForkId(B, 4),)),
        Delete(rref=RREF, forks=(FORK, ForkId(A, 6))),
    ],
    ids=lambda message: f"{message}",
)
def test_it_needs_a_parcel(message: Plain) -> None:
    assert rows.encode(A, B, Packet(8, (message,), 9)) is None


@pytest.mark.parametrize("row", [[4, 1, 2, 8, 9, 5, b"data", "f", None, 3, 4, -1], [7, 1, 2, 8, 9]])
def test_a_malformed_row_is_refused(row: list[object]) -> None:
    with pytest.raises(msgspec.DecodeError):
        rows.decode(msgspec.msgpack.encode(row))

"""Malformed and foreign messages on a mailbox are refused, counted, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import farref
from farref import RRef
from farref.actors.wire.codec import OtherPart, PacketRow
from farref.actors.wire.messages import Envelope, Found, Joined, Nudge, Spawned, Welcome, WorkerInfo
from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Ack,
    Call,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Reply,
    Tell,
)
from farref.serialization.definitions import Exported
from farref.serialization.payload import Payload

from ...packets import row_of, written
from ..helpers import make_box, until

if TYPE_CHECKING:
    from thespian.actors import ActorAddress

    from farref import System

EVIL = WorkerId("evil", 666)
ANY: Any = None


def messages(to: WorkerId) -> list[Any]:
    """Messages that no correct peer sends."""
    rref, fork, call = RRefId(to, 999), ForkId(EVIL, 1), CallId(EVIL, 1)
    stranger = WorkerId("stranger", 1)
    descriptor = Descriptor(rref=rref, fork=fork, owner=to, parent=EVIL)
    forged = Descriptor(rref=rref, fork=ForkId(stranger, 1), owner=to, parent=stranger)
    bad: Any = "not an id"
    return [
        None,
        "text",
        7,
        object,
        ForkRequest(rref=rref, fork=fork),
        ForkRequest(rref=bad, fork=bad),
        Ack(rref=rref, fork=fork),
        ChildAck(rref=bad, fork=fork),
        Delete(rref=rref, forks=(fork,)),
        Delete(rref=rref, forks=bad),
        Reply(call=CallId(to, 77), cargo=Cargo()),
        Reply(call=bad, cargo=bad),
        Tell(cargo=Cargo(descriptors=(descriptor,))),
        Tell(cargo=Cargo(descriptors=(forged,))),
        Tell(cargo=bad),
        Tell(cargo=Cargo(descriptors=bad)),
        Call(call=bad, cargo=Cargo()),
        Call(call=CallId(stranger, 3), cargo=Cargo()),
        Create(call=call, rref=RRefId(stranger, 1), fork=fork, cargo=Cargo()),
        Invoke(call=call, rref=rref, cargo=Cargo()),
        Fetch(call=call, rref=bad),
    ]


def spoiled(sender: Any, to: WorkerId, first: Any, parts: Any, expects: Any) -> bytes:
    """A packet with arbitrary fields."""
    row = PacketRow(sender, to.incarnation, first, expects, parts, ())
    return msgspec.msgpack.encode(row, enc_hook=lambda junk: type(junk).__name__)


def part_of(message: Any) -> Any:
    return OtherPart(message, None, ())


def envelopes(info: WorkerInfo, sender: WorkerId, there: ActorAddress) -> list[Any]:
    bad: Any = "not a packet"
    wrong = WorkerId(info.name, info.id.incarnation + 1)

    def packet(first: Any, parts: Any, expects: Any) -> Envelope:
        return Envelope(there, spoiled(sender, info.id, first, parts, expects))

    good = packet(0, (), 0).packet
    return [
        Envelope(there, bad),
        Envelope(there, ANY),
        Envelope(ANY, good),
        Envelope(bad, good),
        Envelope(there, spoiled(info.id, info.id, 0, (), 0)),
        Envelope(there, spoiled(sender, wrong, 0, (), 0)),
        Envelope(there, spoiled(ANY, info.id, 0, (), 0)),
        Envelope(there, good, ANY),
        Envelope(there, spoiled(WorkerId("", 1), info.id, 0, (), 0)),
        Envelope(there, good.replace(sender.name.encode(), b"\xed\xa0\x80" * 5)),
        Envelope(there, b""),
        Envelope(there, good[:-1]),
        Envelope(there, good + b"x"),
        Envelope(there, b"\x91" * 100_000),
        packet(-1, (), 0),
        packet(0, (), 10**9),
        packet(10**9, ("x",), 0),
        packet(bad, bad, bad),
        packet(0, ANY, 0),
        packet(0, bad, 0),
        Found(12345, ()),
        Found(ANY, ANY),
        Spawned(12345, None, "no"),
        Nudge(),
        Joined(ANY, ANY, ANY, ANY, ANY, ANY),
        Welcome(ANY, ANY, ANY),
    ]


@pytest.mark.parametrize("kind", ["envelopes", "messages"])
@pytest.mark.parametrize("name", ["B", "program"])
def test_it_is_refused_and_the_endpoint_goes_on(system: System, kind: str, name: str) -> None:
    info = farref.get_worker_info(name)
    me = farref.get_worker_info("C")
    ref = farref.remote(info, make_box, (1,))
    mine = RRef([1])
    before = farref.rpc_sync(info, refused)
    if kind == "envelopes":
        said = envelopes(info, WorkerId("evil envelopes.", 667), me.address)
    else:
        said = [
            Envelope(me.address, spoiled(EVIL, info.id, number, (part_of(message),), 0))
            for number, message in enumerate(messages(info.id))
        ]
    for each in said:
        system._port.post(info.address, each)
    assert until(system, lambda: farref.rpc_sync(info, refused) >= before + len(said) - 8)
    assert ref.to_here().content == 1
    assert farref.rpc_sync(info, _content, (mine,)) == [1]
    assert farref.rpc_sync(info, timeout_of) == system.endpoint.core.settings.timeout


def refused() -> int:
    return farref.RRef(1)._front.core.refused


def timeout_of() -> float:
    return farref.RRef(1)._front.core.settings.timeout


def _content(ref: RRef[list[int]]) -> list[int]:
    return ref.to_here()


def test_what_follows_a_malformed_message_in_its_packet_takes_effect(system: System) -> None:
    """The first one names an index that is empty in the export cache."""
    info = farref.get_worker_info("B")
    evil, there = WorkerId("half evil", 7), farref.get_worker_info("C").address
    before = farref.rpc_sync(info, refused)
    bad: Any = "not an id"
    unpaid = OtherPart(Tell(cargo=Cargo()), 1, ())  # the number of a missing payload
    parts = ForkRequest(rref=bad, fork=bad), None, Ack(rref=bad, fork=bad), "text"
    payload = Payload(b"", functions=(Exported(99),))
    unknown = Call(call=CallId(evil, 1), cargo=Cargo(payload=payload))
    row = row_of(written(Packet(0, (unknown,), 0), evil, info.id)[0])
    batch = (*row.parts, *map(part_of, parts), unpaid)
    data = spoiled(evil, info.id, 0, batch, 0)
    system._port.post(info.address, Envelope(there, data, (b"",)))
    assert until(system, lambda: farref.rpc_sync(info, refused) == before + len(batch))


def test_foreign_things_in_the_programs_mailbox_are_its_own(system: System) -> None:
    system._port.post(farref.get_worker_info().address, {"not": "ours"})
    assert system.listen() == {"not": "ours"}

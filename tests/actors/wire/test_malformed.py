"""Malformed and foreign messages on a mailbox are refused, counted, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import farref
from farref import RRef
from farref.actors.wire.messages import Envelope, Found, Joined, Nudge, Spawned, Welcome, WorkerInfo
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

from ..helpers import make_box, until

if TYPE_CHECKING:
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


def spoiled(first: Any, messages: Any, expects: Any) -> bytes:
    """A packet with arbitrary parts."""
    return msgspec.msgpack.encode(
        (first, expects, messages), enc_hook=lambda junk: type(junk).__name__
    )


def envelopes(info: WorkerInfo, sender: WorkerInfo) -> list[Any]:
    bad: Any = "not a packet"
    wrong = WorkerId(info.name, info.id.incarnation + 1)
    good = spoiled(0, (), 0)
    return [
        Envelope(sender, info.id, bad),
        Envelope(sender, info.id, ANY),
        Envelope(ANY, info.id, good),
        Envelope(bad, info.id, good),
        Envelope(sender, ANY, good),
        Envelope(sender, wrong, good),
        Envelope(sender, info.id, good, ANY),
        Envelope(WorkerInfo(WorkerId("\ud800", 1), sender.address), info.id, good),
        Envelope(sender, info.id, b""),
        Envelope(sender, info.id, good[:-1]),
        Envelope(sender, info.id, good + b"x"),
        Envelope(sender, info.id, b"\x91" * 100_000),
        Envelope(sender, info.id, spoiled(-1, (), 0)),
        Envelope(sender, info.id, spoiled(0, (), 10**9)),
        Envelope(sender, info.id, spoiled(10**9, ("x",), 0)),
        Envelope(sender, info.id, spoiled(bad, bad, bad)),
        Envelope(sender, info.id, spoiled(0, ANY, 0)),
        Envelope(sender, info.id, spoiled(0, bad, 0)),
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
    evil = WorkerInfo(EVIL, me.address)
    if kind == "envelopes":
        said = envelopes(info, WorkerInfo(WorkerId("evil envelopes", 667), me.address))
    else:
        said = [
            Envelope(evil, info.id, spoiled(number, (message,), 0))
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
    info = farref.get_worker_info("B")
    evil = WorkerInfo(WorkerId("half evil", 7), farref.get_worker_info("C").address)
    before = farref.rpc_sync(info, refused)
    bad: Any = "not an id"
    unpaid = Tell(cargo=Cargo(payload=1))  # the number of a missing payload
    batch = (ForkRequest(rref=bad, fork=bad), None, Ack(rref=bad, fork=bad), "text", unpaid)
    system._port.post(info.address, Envelope(evil, info.id, spoiled(0, batch, 0), (b"",)))
    assert until(system, lambda: farref.rpc_sync(info, refused) == before + len(batch))


def test_foreign_things_in_the_programs_mailbox_are_its_own(system: System) -> None:
    system._port.post(farref.get_worker_info().address, {"not": "ours"})
    assert system.listen() == {"not": "ours"}

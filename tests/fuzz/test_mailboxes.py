"""Thespian messages that no correct peer sends, to a worker, a program, the registrar, an agent.

They are foreign objects, messages of ours with any field wrong, envelopes of strangers and of the
dead, repeated ones, absurd numbers. Each is refused and counted, or harmless. Calls go on
meanwhile, and after the strangers are declared dead nothing of theirs is left.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RRef, System
from farref.actors.shells.program import CallInPort
from farref.actors.wire.messages import (
    CheckProcess,
    Died,
    EndpointJoin,
    EndpointLeave,
    Envelope,
    Exited,
    Found,
    HostInfo,
    HostJoin,
    HostJoined,
    Inspect,
    Inspected,
    Joined,
    Lookup,
    Make,
    Nudge,
    Open,
    ProcessChecked,
    Serve,
    Spawn,
    Spawned,
    Unmade,
    Welcome,
    WorkerInfo,
)
from farref.actors.wire.settings import Settings
from farref.protocol.delivery import WINDOW, Packet
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.testing import Faults, duplicate

from ..actors.helpers import Box, assert_nothing_held, make_box, until
from ..actors.scripts import started
from ..bases import LINKS
from ..hosts.test_ways_in import JOINED
from ..ports import free_port
from .cases import JUNK, cases, damaged
from .conftest import Kept
from .test_packets import Other, as_bytes
from .test_protocol import MessageMaker
from .wrong import wrong

GRACE = 0.05


@pytest.fixture(scope="module", params=LINKS)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    late_copies = Faults(duplicate(0.2, seconds=(0, 0.2)), seed=1)
    with System(request.param, timeout=20, orphan_grace=GRACE, faults=late_copies) as system:
        system.worker("B")
        system.worker("C")
        yield system


def goes_on(system: System, ref: RRef[Box]) -> None:
    assert farref.rpc_sync("B", _content, (ref,)) == 1
    assert farref.rpc_sync("C", _content, (ref,)) == 1
    assert ref.to_here().content == 1


def _content(ref: RRef[Box]) -> Any:
    return ref.to_here().content


def refused() -> int:
    return RRef(1)._front.core.refused


def nobody(evil: WorkerId) -> WorkerId:
    """An endpoint that nobody has reported.

    Its number is unique, as the registrar gives none twice.
    """
    return WorkerId("nobody", evil.incarnation + 10**6)


def ids(evil: WorkerId, to: WorkerId) -> dict[type, list[Any]]:
    """The ids that a stranger may name: itself, the receiver, and another unknown one."""
    workers = [evil, to, nobody(evil)]
    return {
        WorkerId: workers,
        RRefId: [RRefId(who, number) for who in workers for number in (1, 2, 10_000)],
        ForkId: [ForkId(who, number) for who in workers for number in (1, 2, 10_000)],
        CallId: [CallId(who, number) for who in workers for number in (1, 2, 10_000)],
    }


def packet(rng: random.Random, make: MessageMaker, other: Other, *ends: WorkerId) -> bytes:
    """A packet as it travels: right, with a wrong field, or with damaged bytes."""
    first = rng.choice((0, 0, 0, 0, 1, WINDOW - 1, WINDOW, 10**9, 1 << 63))
    expects = rng.choice((0, 0, 0, 0, 1, 10**9))
    whole = Packet(first, make.some(make.message, 4), expects)
    data = as_bytes(rng, whole, other, *ends)
    return damaged(rng, data) if rng.random() < 0.2 else data


class Hostile:
    """Makes the messages to one endpoint."""

    def __init__(self, to: WorkerInfo, lair: ActorAddress) -> None:
        self.to = to
        self.lair = lair
        self.strangers = [WorkerId("evil", 0)]  # junk, such as 0, may replace a number

    def stranger(self, number: int) -> WorkerId:
        evil = WorkerId("evil", 10**6 + number)
        self.strangers += [evil, nobody(evil)]
        return evil

    def message(self, rng: random.Random, number: int) -> Any:
        evil = self.stranger(number)
        make = MessageMaker(rng, ids(evil, self.to.id))
        me = WorkerInfo(evil, self.lair)
        pool = [evil, me, *make.ids[RRefId]]
        data = packet(rng, make, lambda r, _: r.choice(pool), evil, self.to.id)
        envelope = Envelope(self.lair, data, (b"", b""))
        match rng.randrange(9):
            case 0:
                return rng.choice(JUNK)
            case 1 | 2 | 3 | 4:
                right: Any = envelope
            case 5:
                return envelope
            case 6:
                right = rng.choice(
                    (
                        Found(number, (me,)),
                        Spawned(number, me),
                        Died((evil,)),
                        Inspect(number, self.lair, rng.choice((None, RRefId(evil, 1)))),
                        Inspected(number, ("no row",)),
                    )
                )
            case 7:
                right = Joined(evil, self.lair, Settings(), ((1, 2),), (evil,), 1)
            case _:
                right = rng.choice((Welcome(evil, self.lair, Settings()), Nudge()))
        pool.append(envelope)
        return wrong(rng, right, lambda r, _: r.choice(pool))


@pytest.mark.parametrize("name", ["B", "program"])
def test_mailboxes(system: System, name: str, kept: Kept) -> None:
    info, lair = farref.get_worker_info(name), farref.get_worker_info("C").address
    hostile = Hostile(info, lair)
    in_process = isinstance(system._port, CallInPort)
    ref = farref.remote("B", make_box, (1,))
    goes_on(system, ref)
    before = farref.rpc_sync(info, refused)
    every = 1 if in_process else 10
    for case in cases("mailboxes"):
        if case.number % every:
            continue
        with case as rng:
            system._port.post(info.address, hostile.message(rng, case.number))
            if case.number % 100 == 0:
                goes_on(system, ref)
    goes_on(system, ref)
    assert until(system, lambda: farref.rpc_sync(info, refused) > before)
    for other in system.workers():
        system._port.post(other.address, Died(tuple(hostile.strangers)))
    del ref
    assert_nothing_held(system)
    assert not kept.pinning()


@pytest.mark.parametrize("spoil", ["fields", "nothing"])
def test_registrar(system: System, spoil: str) -> None:
    """A wrong request gets no answer; the others do."""
    registrar = system.endpoint.registrar_client.registrar
    lair = farref.get_worker_info("C").address
    ref = farref.remote("B", make_box, (1,))
    goes_on(system, ref)
    there = system.workers()
    for case in cases("registrar"):
        with case as rng:
            evil = WorkerId("evil", 10**9 + case.number)
            right: list[Any] = [
                EndpointJoin(evil, 1, "here"),
                EndpointJoin(farref.get_worker_info("B").id, 1, "here"),
                EndpointLeave(evil),
                Open(Settings(timeout=1), 10**7),
                Spawn(10**6 + case.number, b"no pickle", "evil", None, None),
                Lookup(10**6 + case.number, "B"),
                Lookup(10**6 + case.number, None, lair),
                Exited(ActorAddress(None)),
                HostJoin(evil, HostInfo("10.9.9.9", {})),
                Unmade(evil, "no"),
                ProcessChecked(evil, running=False),
                rng.choice(JUNK),
            ]
            message = rng.choice(right)
            if spoil == "fields":
                message = wrong(rng, message, lambda r, _, e=evil: r.choice((e, lair)))  # type: ignore[misc]  # mypy infers no default
                if isinstance(message, Exited):
                    continue  # a parent's messages are believed
            system._port.post(registrar, message)
            if case.number % 50 == 0:
                goes_on(system, ref)
    assert set(there) <= set(system.workers())
    for info in set(system.workers()) - set(there):  # a field may be wrong and still be an id
        system._port.post(registrar, EndpointLeave(info.id))
    assert until(system, lambda: system.workers() == there)
    goes_on(system, ref)
    assert farref.rpc_sync("B", timeout) == 20
    del ref
    assert_nothing_held(system)


@pytest.mark.processes
def test_host_agent(tmp_path: Path) -> None:
    """It goes on making workers for the registrar that it knows."""

    def host_agent_of() -> ActorAddress:  # a local function, as it travels whole
        mailbox: Any = RRef(1)._front.core.port
        address: ActorAddress = mailbox._actor._myRef._parentAddr
        return address

    first, port = f"127.0.0.2:{free_port('127.0.0.2')}", str(free_port("127.0.0.3"))
    with (
        System(host="127.0.0.2", port=int(first.partition(":")[2]), timeout=20) as system,
        started(tmp_path, JOINED, first, port) as program,
    ):
        system.worker("B", on="127.0.0.3")
        assert program.stdout
        assert program.stdout.readline() == "ready\n"
        agent = farref.rpc_sync("B", host_agent_of)
        for case in cases("host-agent"):
            with case as rng:
                evil = WorkerId("evil", 10**9 + case.number)
                right: list[Any] = [
                    Serve(1),
                    HostJoined(Settings(silence=0.1)),
                    Make(evil, b"no pickle", None, None),
                    CheckProcess(evil, 1),
                    Died((evil,)),
                    rng.choice(JUNK),
                ]
                message = rng.choice(right)
                if rng.random() < 0.5:
                    message = wrong(rng, message, lambda r, _, e=evil: r.choice((e, agent)))  # type: ignore[misc]  # mypy infers no default
                system._port.post(agent, message)
        system.worker("C", on="127.0.0.3")
        assert farref.rpc_sync("C", pow, (2, 2)) == 4
        assert len(system.hosts()) == 2
        assert_nothing_held(system)


def timeout() -> float:
    return RRef(1)._front.core.settings.timeout

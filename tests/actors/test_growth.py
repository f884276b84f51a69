"""A step takes as long with 10,000 of a thing as with 1,000, in the shells and at the registrar.

`tests/protocol/test_growth.py` has the tables of the reference machines, and the way of counting.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RRef, System
from farref.actors.base.addresses import Address
from farref.actors.core.links import Links
from farref.actors.core.peers import Peers
from farref.actors.wire.messages import AllocateId, EndpointJoin, Exited, Lookup, Spawn
from farref.protocol.delivery import Packet
from farref.protocol.ids import WorkerId
from farref.protocol.messages import Cargo, Tell
from farref.protocol.rendezvous.limits import RoundLimits, Timeouts
from farref.protocol.rendezvous.observer import RendezvousRun
from farref.protocol.rendezvous.state import Join, Leave, State
from farref.protocol.store import Op, Table

from ..counting import functions, instructions
from ..protocol.test_growth import FEW, MANY
from .cluster.terms import Term

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.test_growth import Step

DUTIES_UNCHECKED = "it counts functions"

MESSAGE = Tell(cargo=Cargo())
ME = WorkerId("me", 1)


def at(number: int) -> ActorAddress:
    return ActorAddress(Address(f"key {number}"))


def others(number: int) -> list[WorkerId]:
    return [WorkerId(f"w{each}", 100 + each) for each in range(number)]


# ---- the registrar


def members(number: int) -> Term:
    """A registrar of a system with *number* workers."""
    term = Term()
    term.host("a")
    for each in range(number):
        join = EndpointJoin(WorkerId(f"w{each}", 0), 1, "", beats=False, place="a")
        term.ask("a", join, f"key {each}")
    term.delivered("a")
    return term


ASKED: dict[str, tuple[object, str]] = {
    "a name is looked up": (Lookup(1, name="w8"), "key 7"),
    "an address is looked up": (Lookup(1, address=at(8)), "key 7"),
    "another one joins": (EndpointJoin(WorkerId("new", 0), 1, "", place="a"), "key new"),
    "one joins again": (EndpointJoin(WorkerId("w7", 0), 1, "", place="a"), "key 7"),
    "a worker is ordered": (Spawn(1, b"class", "made", None, 1, None), "key 7"),
    "a name is ordered that is taken": (Spawn(1, b"class", "w8", None, 1, None), "key 7"),
    "an actor creates one": (AllocateId(1, "child"), "key 7"),
    "what was no endpoint has exited": (Exited(at(-1)), "key 7"),
}
"""Messages to the registrar, each from an endpoint at a key."""


def test_the_registrar_looks_at_its_own_part() -> None:
    """But a death is told to all."""
    _, few, many = (
        {
            what: instructions(partial(term.ask, "a", message, by))
            for what, (message, by) in ASKED.items()
        }
        for term in map(members, (10, FEW, MANY))
    )
    assert min(few.values()) > 20
    assert many == few


# ---- an endpoint's peers


def timed_peers(number: int) -> Step:
    """One of them sends one more message, gets one, and its acknowledgement is due."""
    links = Links()
    for place, peer in enumerate(others(number)):
        links.receive(peer, Packet(0, (MESSAGE,), 0), place / 1e9)
    one = others(8)[7]

    def step() -> None:
        links.receive(one, Packet(1, (MESSAGE,), 0), 0.01)
        links.send(one, MESSAGE)
        links.packets(0.01)
        links.deadline()
        links.due(0.02)

    return step


def known_peers(number: int) -> Step:
    """One of them dies."""
    peers = Peers()
    for each in others(number):
        peers.learn(each, at(each.incarnation))

    def step() -> None:
        peers.worker_at(at(100))
        peers.forget(others(8)[7])

    return step


# ---- the rendezvous, and the store of a round


def run_of(number: int, room: int) -> tuple[RendezvousRun, RoundLimits]:
    limits = RoundLimits(number + room, number + room)
    run = RendezvousRun(State(limits), Timeouts(), 0.0)
    for each in others(number):
        run.do(Join(node=each, limits=limits), 0.0)
    return run, limits


def participants(number: int) -> Step:
    """One more joins a round that forms, beats, and leaves."""
    run, limits = run_of(number, 2)

    def step() -> None:
        run.do(Join(node=ME, limits=limits), 0.0)
        run.heard(ME, 0.0)
        run.pause()
        run.do(Leave((ME,)), 0.0)

    return step


def members_of_a_round(number: int) -> Step:
    """One of them asks for news, and joins again."""
    run, limits = run_of(number, 0)
    one = others(8)[7]
    assert run.state.complete

    def step() -> None:
        assert run.state.news(one, 0) is None
        run.do(Join(node=one, limits=limits), 0.0)

    return step


def answers_of_a_store(number: int) -> Step:
    """The caller waits for the first one still."""
    table = Table()
    for each in range(1, number + 1):
        table.do(Op(ME, each, 1, "set", (f"key {each}",), (b"",)))
    return lambda: table.do(Op(ME, number + 1, 1, "set", ("key",), (b"",)))


ROWS = (timed_peers, known_peers, participants, members_of_a_round, answers_of_a_store)


@pytest.mark.parametrize("row", ROWS)
def test_a_step_looks_at_its_own_part(row: Callable[[int], Step]) -> None:
    few, many = (instructions(row(number)) for number in (FEW, MANY))
    assert few > 20
    assert many == few


# ---- a whole system


def one() -> int:
    return 1


GATE = asyncio.Event()


async def until_open() -> None:
    await GATE.wait()


async def open_gate() -> None:
    GATE.set()


def fewest(work: Callable[[], object], enough: int = 0) -> int:
    """The functions that *work* calls, if no clock and no other thread adds any.

    On a busy machine nearly every call does what is due after a time, so up to 200 are counted,
    and no more once one has called *enough*.
    """
    least = functions(work)
    for number in range(200):
        if number >= 20 and (not enough or least <= enough):
            break
        least = min(least, functions(work))
    return least


@pytest.mark.long
def test_a_call_beside_waiting_futures_and_objects(
    limits: Callable[[dict[str, object]], None],
) -> None:
    """In one process and one thread, so the count is exact."""
    limits({"actors.core.brief.BRIEF": 60.0})  # on a busy machine one may seem long
    counts: list[tuple[int, int]] = []
    with System("simpleSystemBase", timeout=600) as system:
        system.worker("B")
        futures: list[Any] = []
        refs: list[Any] = []
        for number in (FEW, MANY):
            while len(futures) < number:
                futures.append(farref.rpc_async("B", until_open))
                refs.append(RRef(number))
            before = counts[-1] if counts else (0, 0)
            counts.append(
                (
                    fewest(lambda: farref.rpc_sync("B", one), before[0]),
                    fewest(lambda: farref.remote("B", one).to_here(), before[1]),
                )
            )
        farref.rpc_sync("B", open_gate)
    few, many = counts
    assert many[0] <= few[0]
    assert many[1] <= few[1]

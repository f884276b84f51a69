"""A system does not wear out: after much work and many visitors, it is as before.

This test does some hundred operations of each kind, which show any growth per operation. `make
soak` does 20,000 of each kind, and measures their cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from operator import le
from typing import Any

import pytest
from thespian.actors import Actor, ActorAddress, ActorExitRequest

import farref
from farref import RRef, System
from farref.actors.calls import unasked
from farref.actors.cluster import membership
from farref.actors.core import ages, pool, registrar_client
from farref.actors.core.current import enter_program, frame
from farref.actors.hosting import bases
from farref.testing import assert_nothing_held, until

from ..bases import LINKS, STOCK
from .census import census, grown
from .gauge import MOST, gauge, in_turns
from .steps import steps_of_a_call
from .work import Answering, make, take, work

BOUNDED = {
    "Ages._notes",
    "Brief._long",
    "Server.recent",
    "instances of Trial",
    "farref.serialization.by_pickle.BY_NAME",
    "cache of farref.protocol.wellformed._check_of",  # by the types of the fields of messages
    "ActorSystemBase.actorRegistry",
}
"""Caches, and memories of ages and errors; each has a bound of its own.

The last one is Thespian's: its in-process base never forgets an actor.
"""
SETTLED = 30.0
READINGS = 3
DEARER = 1.1
"""The factor by which a call's function count may grow: one acknowledgement more or less."""
TIMES, ROUNDS = 20_000, 10
"""For each kind of operation, in `make soak`."""
BASES_OF_WEAR = [
    *LINKS,
    *(pytest.param(*each.values, marks=[*each.marks, pytest.mark.slow]) for each in STOCK),
]
"""`make soak` adds Thespian's bases with processes, which take a minute."""
GRACE = 0.2
PAUSE = 0.5
"""Seconds between two readings: a thread that the last one needed has ended by then."""

Reading = dict[str, Counter[str]]
"""The census of each process."""


def read(system: System, name: str) -> Reading:
    """The census of the program, and of the worker *name*."""
    farref.remote(name, make, (1,)).to_here()  # its reply acknowledges the earlier messages
    found = {"program": census(system), name: farref.rpc_sync(name, there)}
    for each in found.values():
        for what in BOUNDED:
            del each[what]
    return found


def there() -> Counter[str]:
    return census(frame().core.actor)


def least(one: Reading, other: Reading) -> Reading:
    """The smaller of each: messages in flight in one reading are gone in the other."""
    return {who: found & other[who] for who, found in one.items()}


def reading(system: System, name: str) -> Reading:
    """The census while nothing happens."""
    assert_nothing_held(system)
    until(system, lambda: False, 6 * GRACE)  # the dead are buried, also at the registrar
    found = read(system, name)
    for _ in range(READINGS - 1):
        until(system, lambda: False, PAUSE)
        found = least(found, read(system, name))
    return found


def assert_as_before(system: System, name: str, before: Reading) -> None:
    """Assert that each table gets back to its size *before*."""
    now = reading(system, name)

    def more() -> dict[str, Any]:
        return {who: much for who, found in now.items() if (much := grown(before[who], found))}

    def none() -> bool:
        nonlocal now
        until(system, lambda: False, PAUSE)
        now = least(now, read(system, name))
        return not more()

    assert until(system, none, SETTLED), f"there is more than before, of: {more()}"


@pytest.fixture(autouse=True)
def bounds_are_reached_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the workers, too, which are forked from here."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", GRACE)
    monkeypatch.setattr(ages, "MOST", 64)
    monkeypatch.setattr(unasked, "MOST_PLACES", 8)
    monkeypatch.setattr(membership, "REMEMBERED", 4)


def wear(base: str, warm: int, times: int) -> None:
    with System(base, timeout=30, orphan_grace=GRACE) as system:
        system.create(Answering, "B")
        work(system, "B", warm)
        before, steps = reading(system, "B"), fewest_steps(system)
        work(system, "B", times)
        assert_as_before(system, "B", before)
        assert_no_dearer(system, steps)


def assert_no_dearer(system: System, before: tuple[int, int]) -> None:
    """Assert that a call gets back to its steps *before*."""
    most = [DEARER * each for each in before]
    now = fewest_steps(system, most)
    assert all(map(le, now, most)), f"{now} steps, in place of {before}"


def fewest_steps(system: System, most: Sequence[float] = (inf, inf)) -> tuple[int, int]:
    """The steps of a call without interference, here and at the worker: the least of some medians.

    On a busy machine, or after a pause of the whole process, the worker's function goes to the pool
    for a while, which takes more steps. So this looks again until there are no more than *most*.
    """
    found: list[tuple[int, int]] = []

    def lowest() -> tuple[int, int]:
        return min(here for here, _ in found), min(there for _, there in found)

    def enough() -> bool:
        here, there = steps_of_a_call("B")
        if there is not None:
            found.append((here, there))
        return len(found) >= READINGS and all(map(le, lowest(), most))

    until(system, enough, SETTLED)
    assert len(found) >= READINGS, "the worker ran no two calls in one thread"
    return lowest()


@pytest.mark.parametrize("base", BASES_OF_WEAR)
def test_nothing_grows_with_the_work(base: str) -> None:
    own = bases.BASES[base].own or not bases.BASES[base].processes
    wear(base, *((30, 100) if own else (10, 40)))


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(3600)
def test_after_20_000_of_each_everything_costs_what_it_did() -> None:
    with System(timeout=30, orphan_grace=GRACE) as system:
        system.create(Answering, "B")
        work(system, "B", 200)
        before, figures, steps = reading(system, "B"), gauge("B"), fewest_steps(system)
        for _ in range(ROUNDS):
            work(system, "B", TIMES // ROUNDS)
            for who, each in gauge("B").items():
                print(who, each)  # noqa: T201 - the course of a failed run
        assert_as_before(system, "B", before)
        assert_no_dearer(system, steps)
        for who, after in gauge("B").items():
            for what, most in MOST.items():
                assert after[what] <= most(figures[who][what]), f"{what} of {who}"
        with System(timeout=30) as fresh:
            fresh.create(Answering, "B")
            here, there = system.endpoint.core, fresh.endpoint.core
            ways = (lambda: enter_program(here), lambda: enter_program(there))
            ratio = in_turns(ways, "B", 15)
        assert ratio < 1.4, f"a call costs {ratio:.2f} times as much as in a fresh system"


# ---- visitors


def visit(system: System, name: str) -> None:
    """Another program comes, shares, asks and fetches, and leaves."""
    with System.attach(system.name, timeout=30) as viewer:
        assert len(viewer.workers()) == 3
        farref.rpc_sync(name, take, (RRef(1),))
        assert farref.remote(name, make, (2,)).to_here() == 2
        assert viewer.ask(name, "so?") == "so?"
        assert len(viewer.endpoint.core.context.dead) <= 3
        assert_nothing_held(viewer)


def serve(system: System, name: str) -> None:
    """A worker is created, gets references of others, has a child, and is ended."""
    system.create(Parent, "C")
    farref.rpc_sync("C", take, (farref.remote(name, make, (1,)),))
    child = system.ask("C", "child")
    assert system.ask(child, "so?") == "so?"
    if system._port.runs_by_itself:  # otherwise Thespian keeps the news of each of their ends
        plain = system._asys.createActor(Plain)
        system.tell(plain, "nothing")
        system.tell(plain, ActorExitRequest())
    system.tell("C", ActorExitRequest())
    assert until(system, lambda: len(system.workers()) == 2)


class Plain(Actor):
    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        """An actor that cannot hold references."""


class Parent(Answering):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.createActor(Answering) if message == "child" else message)


def spans() -> int:
    """The number of entries in which this endpoint remembers the dead."""
    return len(frame().core.context.dead)


def last(each: Callable[[System, str], None], system: System) -> None:
    """Visit once more, when short-lived beliefs about actors have expired."""
    until(system, lambda: False, registrar_client.BELIEVED)
    each(system, "B")


def come_and_go(base: str, each: Callable[[System, str], None], warm: int, times: int) -> None:
    with System(base, timeout=30, orphan_grace=GRACE) as system:
        system.create(Answering, "B")
        for _ in range(warm):
            each(system, "B")
        last(each, system)
        before = reading(system, "B")
        for _ in range(times):
            each(system, "B")
        last(each, system)
        assert_as_before(system, "B", before)
        assert farref.rpc_sync("B", spans) <= 3


@pytest.mark.processes
def test_no_table_grows_with_the_programs_that_have_been_here() -> None:
    come_and_go("farrefBase", visit, 5, 30)


@pytest.mark.parametrize("base", BASES_OF_WEAR)
def test_no_table_grows_with_the_workers_that_have_been_here(base: str) -> None:
    come_and_go(base, serve, 3, 10)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("each", "times"), [(visit, 500), (serve, 200)], ids=["visit", "serve"])
def test_no_table_grows_with_hundreds(each: Callable[[System, str], None], times: int) -> None:
    come_and_go("farrefBase", each, 5, times)

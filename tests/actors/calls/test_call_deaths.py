"""Deaths of processes to which requests have gone, in each discipline."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import farref
from farref import OwnerDiedError, RRef, WorkerDiedError
from farref.protocol.sharing import DISCIPLINES
from farref.testing import until

from ...stopping import stop
from . import noting
from .noting import (
    LONG,
    SlowToCopy,
    begin_anew,
    begun,
    note,
    note_with,
    noted,
    ready,
    wait_for,
    wait_with,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import System

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module", params=DISCIPLINES)
def shared(request: pytest.FixtureRequest) -> Iterator[System]:
    yield from noting.started(request.param)


@pytest.fixture
def system(shared: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """A system in which each test kills a worker of its own."""
    yield from noting.checked(shared, request)


def worker(system: System, name: str) -> int:
    """Start a worker that has many threads; return the id of its process."""
    system.worker(name)
    pid: int = farref.rpc_sync(name, os.getpid)
    return pid


def test_a_death_ends_the_calls_that_run(system: System, gate: Path) -> None:
    pid = worker(system, "C")
    ready(system, "C")
    mine = RRef(1)
    where = str(gate)
    with ThreadPoolExecutor(2) as waiting:
        ends = [waiting.submit(farref.rpc_sync, "C", wait_for, (where, "sync"))]
        assert until(system, begun(gate, "sync").exists)
        ends += [
            farref.rpc_async("C", wait_for, (where, "async")),
            waiting.submit(farref.rpc_sync, "C", wait_with, (where, "lent", mine)),
        ]
        for who in ("async", "lent"):
            assert until(system, begun(gate, who).exists)
        os.kill(pid, signal.SIGKILL)
        for each in ends:
            assert isinstance(each.exception(LONG), WorkerDiedError)
    for again in (farref.rpc_sync, farref.rpc_async, farref.remote):
        with pytest.raises(WorkerDiedError):
            again("C", note, (1,))


def test_a_death_ends_the_waits_for_values(system: System, gate: Path) -> None:
    """For one that is being copied, and for one that is being made."""
    pid = worker(system, "D")
    ready(system, "D")
    there = farref.remote("D", SlowToCopy, (str(gate),))
    farref.wait([there])
    made = farref.remote("D", wait_for, (str(gate), "made"))
    with ThreadPoolExecutor(2) as waiting:
        ends = [waiting.submit(each.to_here) for each in (there, made)]
        for who in ("copy", "made"):
            assert until(system, begun(gate, who).exists)
        assert until(system, lambda: farref.counters().in_flight == 2)
        os.kill(pid, signal.SIGKILL)
        for each in ends:
            assert isinstance(each.exception(LONG), OwnerDiedError)
    for ref in (there, made):
        with pytest.raises(OwnerDiedError):
            ref.to_here()


def test_a_death_ends_what_has_not_arrived(system: System) -> None:
    """The process is stopped when the requests are sent, and then killed."""
    pid = worker(system, "E")
    ready(system, "E")
    mine = RRef(1)
    there = farref.remote("E", note, (1,))
    farref.wait([there])
    stop(pid)
    with ThreadPoolExecutor(3) as waiting:
        calls = [
            farref.rpc_async("E", note, (2,)),
            waiting.submit(farref.rpc_sync, "E", note, (3,)),
            waiting.submit(farref.rpc_sync, "E", note_with, (4, mine)),
        ]
        made = farref.remote("E", note, (5,))
        fetch = waiting.submit(there.to_here)
        assert until(system, lambda: farref.counters().backlog == 5)
        os.kill(pid, signal.SIGKILL)
        for each in calls:
            assert isinstance(each.exception(LONG), WorkerDiedError)
        assert isinstance(fetch.exception(LONG), OwnerDiedError)
    with pytest.raises(OwnerDiedError):
        made.to_here()


def test_the_death_of_a_lender_leaves_the_reference(system: System, gate: Path) -> None:
    """F lends to G, and is killed. G's call runs on, and nobody else keeps what it was lent."""
    pid = worker(system, "F")
    worker(system, "G")
    value = RRef(7)
    farref.rpc_sync("F", lend_on, ("G", "", value))
    for each in ("F", "G"):
        farref.rpc_sync(each, begin_anew)
    call = farref.rpc_async("F", lend_on, ("G", str(gate), value))
    assert until(system, begun(gate, "G").exists)
    del value
    os.kill(pid, signal.SIGKILL)
    assert isinstance(call.exception(LONG), WorkerDiedError)
    assert until(system, lambda: "F" not in holders()), "it is buried"
    gate.touch()
    assert until(system, lambda: farref.rpc_sync("G", noted) == ["G", 7])


def holders() -> list[str]:
    """Those for which the program keeps its one object."""
    (row,) = farref.references()
    return [*row.forks.values(), *row.pins.values(), *row.borrowers.values()]


def lend_on(to: str, gate: str, ref: RRef[int]) -> None:
    farref.rpc_sync(to, use_later, (gate, to, ref))


def use_later(gate: str, who: str, ref: RRef[int]) -> None:
    wait_for(gate, who)
    note(ref.to_here())

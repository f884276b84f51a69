"""Control never waits for user code: busy functions and handlers delay nobody's share."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef, System

from .conftest import BASES, GRACE, PROCESSES
from .helpers import make_box, until

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY = 1.5
"""Seconds that the owner's user code is busy."""


class Blocking(RefActor):
    def receiveMsg_float(self, message: float, sender: ActorAddress) -> None:
        self.send(sender, "busy")
        time.sleep(message)


@pytest.fixture(params=BASES)
def forking_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """Where a reference in a call is shared at once: the owner must answer while it is busy."""
    with System(request.param, sharing="fork", timeout=20, orphan_grace=GRACE) as system:
        yield system


def share(system: System, ref: RRef[Any]) -> float:
    """Seconds from the call until C's share of B's object is confirmed, and dropped again."""
    start = time.monotonic()
    assert farref.rpc_sync("C", _confirmed, (ref,), timeout=10)
    return time.monotonic() - start


def _confirmed(ref: RRef[Any]) -> bool:
    end = time.monotonic() + 8
    while not ref.confirmed_by_owner():
        if time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


@pytest.mark.parametrize("how", [time.sleep, spin], ids=["sleeping", "computing"])
def test_two_busy_functions_delay_no_share(forking_system: System, how: Any) -> None:
    system = forking_system
    system.worker("B", threads=2)
    system.worker("C")
    ref = farref.remote("B", make_box)
    ref.to_here()
    idle = statistics.median(share(system, ref) for _ in range(10))
    busy = [farref.rpc_async("B", how, (BUSY,)) for _ in range(2)]
    times: list[float] = []
    while not any(future.done() for future in busy) and len(times) < 20:
        times.append(share(system, ref))
    assert len(times) >= 5, f"only {len(times)} shares while B was busy"
    # A share that waited for a function would take about as long as that is busy.
    assert statistics.median(times) < max(50 * idle, BUSY / 5), (idle, times)
    assert all(future.result() is None for future in busy)


def test_a_blocking_handler_delays_no_share(forking_system: System) -> None:
    system = forking_system
    actor = system.create(Blocking, "B")
    system.worker("C")
    ref = farref.remote("B", make_box)
    ref.to_here()
    idle = statistics.median(share(system, ref) for _ in range(10))
    assert system.ask(actor, BUSY) == "busy"
    start = time.monotonic()
    times: list[float] = []
    while time.monotonic() < start + BUSY * 0.8 and len(times) < 20:
        times.append(share(system, ref))
        assert ref.rpc_sync(timeout=5).get() is None
    assert len(times) >= 5
    assert statistics.median(times) < max(50 * idle, BUSY / 5), (idle, times)


@pytest.mark.parametrize("forking_system", PROCESSES, indirect=True)  # others need its calls
def test_a_busy_program_delays_no_share(forking_system: System) -> None:
    system = forking_system
    for name in "BC":
        system.worker(name)
    ref = RRef([1])
    future = farref.rpc_async("B", _pass_to, ("C", ref))
    spin(0.5)
    assert future.done()
    assert future.result()


def _pass_to(name: str, ref: RRef[Any]) -> bool:
    return bool(farref.rpc_sync(name, _confirmed, (ref,)))


def test_a_program_that_does_nothing_owns_uses_and_receives(system: System) -> None:
    mine, theirs = RRef([1]), farref.remote("B", list, ((2,),))
    future = farref.rpc_async("C", _use, (mine, theirs))
    assert until(system, future.done)
    assert future.result() == [1, 2]
    assert until(system, theirs.confirmed_by_owner)


def _use(first: RRef[list[int]], second: RRef[list[int]]) -> list[int]:
    return first.to_here() + second.to_here()

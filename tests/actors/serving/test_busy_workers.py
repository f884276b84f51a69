"""Control messages never wait for user code: busy functions and handlers delay no share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef, System

from ...bases import BASES, PROCESSES
from ...waiting import eventually
from ..conftest import GRACE
from ..helpers import HELD, PATIENCE, hold, make_box, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=BASES)
def forking_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """Systems that share references in calls at once: the owner must answer while it is busy."""
    with System(request.param, sharing="fork", timeout=HELD, orphan_grace=GRACE) as system:
        yield system


class Blocking(RefActor):
    def receiveMsg_Path(self, message: Path, sender: ActorAddress) -> None:
        self.send(sender, "busy")
        self.send(sender, hold(message, "no more"))


def share(ref: RRef[Any]) -> None:
    """C gets the object, is confirmed, and drops it again."""
    farref.rpc_sync("C", be_confirmed, (ref,))


def be_confirmed(ref: RRef[Any]) -> None:
    eventually(ref.confirmed_by_owner)


def spin(gate: Path) -> None:
    """Compute until *gate* is open."""
    end = time.monotonic() + HELD
    while not gate.exists() and time.monotonic() < end:
        sum(range(10_000))


@pytest.mark.parametrize("how", [hold, spin], ids=["sleeping", "computing"])
def test_two_busy_functions_delay_no_share(forking_system: System, gate: Path, how: Any) -> None:
    system = forking_system
    system.worker("B", threads=2)
    system.worker("C")
    ref = farref.remote("B", make_box)
    ref.to_here()
    busy = [farref.rpc_async("B", how, (gate,)) for _ in range(2)]
    for _ in range(5):
        share(ref)
    assert not any(future.done() for future in busy)
    gate.touch()
    assert all(future.result() is None for future in busy)


def test_a_blocking_handler_delays_no_share(forking_system: System, gate: Path) -> None:
    system = forking_system
    actor = system.create(Blocking, "B")
    system.worker("C")
    ref = farref.remote("B", make_box)
    ref.to_here()
    me = farref.get_worker_info().address
    asker = system.create(Asker)
    system.tell(asker, (actor, gate, me))
    assert system.listen() == "busy"
    for _ in range(5):
        share(ref)
        assert ref.rpc_sync().get() is None
    gate.touch()
    assert system.listen() == "no more"


class Asker(RefActor):
    """Passes on its messages to the program."""

    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        actor, gate, self.program = message
        self.send(actor, gate)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(self.program, message)


@pytest.mark.parametrize("forking_system", PROCESSES, indirect=True)  # others need a call in
def test_a_busy_program_delays_no_share(forking_system: System) -> None:
    system = forking_system
    for name in "BC":
        system.worker(name)
    ref = RRef([1])
    future = farref.rpc_async("B", share, (ref,))
    end = time.monotonic() + PATIENCE
    while not future.done() and time.monotonic() < end:
        sum(range(100))
    assert future.done()
    assert future.result() is None


def test_a_program_that_does_nothing_owns_uses_and_receives(system: System) -> None:
    mine, theirs = RRef([1]), farref.remote("B", list, ((2,),))
    future = farref.rpc_async("C", _use, (mine, theirs))
    assert until(system, future.done)
    assert future.result() == [1, 2]
    assert until(system, theirs.confirmed_by_owner)


def _use(first: RRef[list[int]], second: RRef[list[int]]) -> list[int]:
    return first.to_here() + second.to_here()


@pytest.mark.processes
def test_busy_functions_hold_up_no_copy_and_no_free(gate: Path) -> None:
    freed: list[int] = []
    with System() as system:
        system.worker("B", threads=1)
        ready = farref.remote("B", list, ((1,),))
        ready.to_here()
        busy = farref.rpc_async("B", hold, (gate,))
        assert farref.wait([ready])[0] == [ready]
        assert ready.to_here() == [1]
        assert not busy.done()
        mine = RRef([1], on_delete=lambda _: freed.append(1))
        del mine
        assert until(system, lambda: freed)
        gate.touch()

"""`local_value` at the owner: it waits while the value is being made, as in PyTorch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, RefActor, RRef, SelfWaitError, WouldBlockError

from ..helpers import Box, hold, until

if TYPE_CHECKING:
    from pathlib import Path

    from thespian.actors import ActorAddress

    from farref import System

TRIES = 60


class Agent:
    """An object that takes a while to make."""

    def __init__(self, seconds: float) -> None:
        time.sleep(seconds)
        self.number = 0

    def add(self, number: int) -> int:
        self.number += number
        return self.number


def call_method(method: Any, rref: RRef[Any], *args: Any) -> Any:
    """PyTorch's idiom: run *method* where the object is."""
    return method(rref.local_value(), *args)


def test_a_method_is_called_on_an_object_that_is_being_made(system: System) -> None:
    for number in range(TRIES):
        agent = farref.remote("B", Agent, (number % 5 * 0.005,))
        assert farref.rpc_sync("B", call_method, (Agent.add, agent, 7)) == 7


def test_the_program_waits_for_its_own_object(system: System, gate: Path) -> None:
    ref = farref.remote(farref.get_worker_info(), hold, (gate, 1))
    with pytest.raises(FetchTimeoutError, match=r"did not come within 0\.1 s"):
        ref.local_value(timeout=0.1)
    gate.touch()
    assert ref.local_value() == 1


def test_the_timeout_of_the_creation_ends_the_wait(system: System, gate: Path) -> None:
    ref = farref.remote(farref.get_worker_info(), hold, (gate, 1), timeout=0.2)
    with pytest.raises(FetchTimeoutError, match=r"within (0\.\d+|1) s"):  # 1 s if we ask late
        ref.local_value()
    gate.touch()
    assert ref.local_value() == 1


def fail(gate: Path) -> None:
    hold(gate)
    raise KeyError("no such agent")


def test_the_error_of_the_constructor_is_raised(system: System, gate: Path) -> None:
    ref = farref.remote("B", fail, (gate,))
    future = farref.rpc_async("B", RRef.local_value, (ref,))
    gate.touch()
    with pytest.raises(KeyError, match="no such agent"):
        future.result()


def make_box(gate: Path) -> Box:
    return Box(hold(gate))


class Holding(Box):
    """Its method holds the object until a gate opens."""

    def hold(self, gate: Path) -> None:
        hold(gate)


def make_holding(gate: Path) -> Holding:
    return Holding(hold(gate))


def test_it_does_not_wait_for_methods_that_are_queued(
    system: System, gate: Path, tmp_path: Path
) -> None:
    open_later = tmp_path / "later"
    ref = farref.remote("B", make_holding, (gate,))
    method = ref.rpc_async().hold(open_later)
    local = farref.rpc_async("B", call_method, (Holding.get, ref))
    gate.touch()
    assert local.result() is None
    assert not method.done()
    open_later.touch()
    method.result()


def return_it(ref: RRef[Any]) -> RRef[Any]:
    return ref


@pytest.mark.parametrize("owner", ["B", "C"])
def test_an_alias_has_the_local_value_of_an_object_that_is_made_here(
    system: System, gate: Path, owner: str
) -> None:
    inner = farref.remote(owner, make_box, (gate,))
    alias = farref.remote("B", return_it, (inner,))
    local = farref.rpc_async("B", call_method, (Box.get, alias))
    gate.touch()
    if owner == "B":
        assert local.result() is None
    else:
        with pytest.raises(ValueError, match=r"owned by C.*to_here.*farref\.wait"):
            local.result()


@pytest.mark.processes
def test_waits_do_not_use_up_the_threads(process_system: System, gate: Path) -> None:
    """The worker's only thread waits for a creation that has to run in it."""
    process_system.worker("B")
    process_system.worker("W", threads=1)
    argument = farref.remote("B", hold, (gate, 0.0))
    agent = farref.remote("W", Agent, (argument,), resolve=True)
    waits = [farref.rpc_async("W", call_method, (Agent.add, agent, 1)) for _ in range(3)]
    gate.touch()
    assert sorted(wait.result() for wait in waits) == [1, 2, 3]


def wants_itself(gate: Path) -> None:
    hold(gate)
    KEPT.pop().local_value()


KEPT: list[RRef[Any]] = []


def keep(ref: RRef[Any]) -> None:
    KEPT.append(ref)


def test_a_constructor_that_asks_for_its_own_value_is_refused(system: System, gate: Path) -> None:
    ref = farref.remote("B", wants_itself, (gate,))
    farref.rpc_sync("B", keep, (ref,))
    gate.touch()
    with pytest.raises(SelfWaitError, match=r"waits? for itself"):
        ref.to_here()


class Local(RefActor):
    """Says what `local_value` does in a handler."""

    def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        try:
            self.send(sender, message.local_value())
        except WouldBlockError as error:
            self.send(sender, f"refused: {error}")


def test_a_handler_gets_a_value_that_is_there_and_never_waits(system: System, gate: Path) -> None:
    actor = system.create(Local)
    ref = farref.remote(actor, hold, (gate, 1))
    assert "await" in system.ask(actor, ref)
    gate.touch()
    assert until(system, lambda: bool(farref.wait([ref])[0]))
    assert system.ask(actor, ref) == 1


async def local_in_coroutine(ref: RRef[Any]) -> Any:
    return ref.local_value()


def test_a_coroutine_never_waits(system: System, gate: Path) -> None:
    ref = farref.remote("B", hold, (gate, 1))
    with pytest.raises(WouldBlockError, match="await"):
        farref.rpc_sync("B", local_in_coroutine, (ref,))
    gate.touch()

"""A lender or borrower is killed: the others keep their references, and nothing leaks."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, System, WorkerDiedError
from farref.protocol.sharing import DISCIPLINES

from ..calls.test_sharing import keep, let_go, read_kept, same
from ..helpers import Box, assert_nothing_held, hold, until
from .witness import witness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes

GRACE = 0.8
"""Seconds. Longer than in other tests: here orphans must announce themselves before it ends, even
on a loaded machine."""


@pytest.fixture(params=DISCIPLINES)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of the test's own; at its end nothing may be left in it."""
    with System(sharing=request.param, timeout=20, orphan_grace=GRACE) as system:
        for name in "BCD":
            system.worker(name)
        yield system
        gc.collect()
        assert_nothing_held(system)


def kill(system: System, *names: str, owner: str = "program") -> None:
    """Kill the workers, and wait until *owner* has released what they held there."""
    freed = [witness(system, owner, name) for name in names]
    for name in names:
        os.kill(farref.rpc_sync(name, os.getpid), signal.SIGKILL)
    assert until(system, lambda: not {*names} & {info.name for info in system.workers()})
    assert all(until(system, each) for each in freed)


def lend_and_wait(name: str, function: Any, ref: RRef[Any], gate: Path) -> None:
    """Lend on, and reply only when the gate is open."""
    farref.rpc_sync(name, function, (ref,))
    hold(gate)


def lend_on_and_wait(ref: RRef[Any], gate: Path) -> None:
    farref.rpc_sync("C", lend_and_wait, ("E", keep, ref, gate))


def keep_and_wait(ref: RRef[Any], gate: Path) -> None:
    keep(ref)
    hold(gate)


def is_kept(name: str) -> bool:
    return bool(farref.rpc_sync(name, read_kept))


def test_the_middle_borrower_dies_before_it_merged(system: System, gate: Path) -> None:
    """The note's corner case: the owner never heard of C from B, and C goes on."""
    ref = RRef([1])
    call = farref.rpc_async("B", lend_and_wait, ("C", keep, ref, gate))
    assert until(system, lambda: is_kept("C"))
    kill(system, "B")
    with pytest.raises(WorkerDiedError):
        call.result()
    del ref, call
    gc.collect()
    assert farref.rpc_sync("C", read_kept) == [[1]]
    assert farref.rpc_sync("C", let_go) == 1


def test_the_lender_dies_while_the_callee_runs(system: System, gate: Path) -> None:
    """B made the object on D, lent it to C, and is killed. C's call runs on and keeps it."""
    call = farref.rpc_async("B", _make_and_lend, (gate,))
    assert until(system, lambda: is_kept("C"))
    kill(system, "B", owner="D")
    assert farref.rpc_sync("C", read_kept) == [[7]]
    gate.touch()
    assert call.exception() is not None
    assert farref.rpc_sync("C", read_kept) == [[7]]
    assert farref.rpc_sync("C", let_go) == 1


def _make_and_lend(gate: Path) -> None:
    ref = farref.remote("D", list, ((7,),))
    farref.rpc_sync("C", keep_and_wait, (ref, gate))


def test_the_callee_replies_to_a_lender_that_died(system: System, gate: Path) -> None:
    """C kept nothing. Its borrowed reference goes, although its lender cannot be told."""
    call = farref.rpc_async("B", _make_and_lend_for_a_look, (gate,))
    assert until(system, lambda: farref.rpc_sync("C", _looks) == 1)
    kill(system, "B", owner="D")
    gate.touch()
    assert call.exception() is not None
    assert until(system, lambda: farref.rpc_sync("C", _looks) == 2)


_looked: list[int] = []


def _looks() -> int:
    return len(_looked)


def _make_and_lend_for_a_look(gate: Path) -> None:
    ref = farref.remote("D", list, ((7,),))
    farref.rpc_sync("C", _look_twice, (ref, gate))


def _look_twice(ref: RRef[Any], gate: Path) -> None:
    _looked.append(ref.to_here()[0])
    hold(gate)
    _looked.append(ref.to_here()[0])


def test_the_callee_dies_and_the_pin_goes(system: System, gate: Path) -> None:
    box = Box()
    watch = weakref.ref(box)
    call = farref.rpc_async("B", keep_and_wait, (RRef(box), gate))
    del box
    assert until(system, lambda: is_kept("B"))
    kill(system, "B")
    with pytest.raises(WorkerDiedError):
        call.result()
    assert until(system, lambda: watch() is None)


def test_a_callee_dies_after_it_kept_it(system: System) -> None:
    box = Box()
    watch = weakref.ref(box)
    farref.rpc_sync("B", keep, (RRef(box),))
    del box
    gc.collect()
    assert is_kept("B")
    kill(system, "B")
    assert until(system, lambda: watch() is None)


def test_both_above_the_last_borrower_die(system: System, gate: Path) -> None:
    system.worker("E")
    ref = RRef([1])
    call = farref.rpc_async("B", lend_on_and_wait, (ref, gate))
    del ref
    assert until(system, lambda: is_kept("E"))
    kill(system, "B", "C")
    assert call.exception() is not None
    del call
    gc.collect()
    assert farref.rpc_sync("E", read_kept) == [[1]]
    assert farref.rpc_sync("E", let_go) == 1


def test_the_owner_dies_while_its_object_is_lent(system: System, gate: Path) -> None:
    ref = farref.remote("D", list, ((7,),))
    assert ref.to_here() == [7]
    call = farref.rpc_async("B", _wait_and_return, (ref, gate))
    kill(system, "D")
    gate.touch()
    assert call.result() == ref
    with pytest.raises(OwnerDiedError):
        farref.rpc_sync("B", same, (ref,))
    with pytest.raises(OwnerDiedError):
        ref.to_here()


def _wait_and_return(ref: RRef[Any], gate: Path) -> Any:
    hold(gate)
    return ref

"""Functions that note what they do in their process, and a system with a worker for them."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.actors.inspect.counting import counters
from farref.testing import assert_nothing_held, until

from ..conftest import FAILED, GRACE
from ..helpers import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from farref.protocol.sharing import Sharing

_noted: list[Any] = []
"""What the functions below have done in this process."""


def started(sharing: Sharing) -> Iterator[System]:
    """A system with the worker B, which runs one function at a time."""
    gc.freeze()  # every process inherits pytest's heap
    with System("farrefBase", sharing=sharing, timeout=60, orphan_grace=GRACE) as system:
        system.worker("B", threads=1)
        yield system


def checked(system: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """*system*, in which nothing is held or under way after a test that has not failed."""
    yield system
    if not request.node.stash.get(FAILED, False):  # a traceback would keep the test's objects alive
        settle(system)
        assert_nothing_held(system)


def ready(system: System, worker: str = "B") -> None:
    """Have *worker* run each function: its first call takes longer. Then note anew."""
    mine = RRef(0)
    for _ in range(2):
        farref.rpc_sync(worker, note, (0,))
        farref.rpc_sync(worker, note_with, (0, mine))
        farref.rpc_sync(worker, wait_for, ("", ""))
        farref.rpc_sync(worker, wait_with, ("", "", mine))
        farref.rpc_sync(worker, bytes, (0,))
        farref.remote(worker, note, (0,)).to_here()
        farref.remote(worker, SlowToCopy, ("",)).to_here()
        with pytest.raises(Failing):
            farref.rpc_sync(worker, fail, (0,))
        with pytest.raises(Failing):
            farref.rpc_sync(worker, fail_with, (0, mine))
    del mine
    assert_nothing_held(system)
    farref.rpc_sync(worker, begin_anew)
    begin_anew()
    settle(system)


def begin_anew() -> None:
    _noted.clear()


def settle(system: System) -> None:
    """Wait until each message of the program has arrived, and each of its requests is over."""

    def settled() -> bool:
        now = counters()
        return now.in_flight == now.backlog == 0

    assert until(system, settled), counters()


def noted() -> list[Any]:
    return _noted.copy()


def note(number: int) -> int:
    """Note the number; some take too long for the thread that receives."""
    _noted.append(number)
    if number % 10 == 9:
        time.sleep(0.001)
    return number


def note_with(number: int, ref: RRef[Any]) -> int:
    return note(number)


def wait_for(gate: str, who: str) -> str:
    """Say that *who* has begun; end when the gate is open."""
    if gate:
        begun(gate, who).touch()
        hold(Path(gate))
        _noted.append(who)
    return who


def wait_with(gate: str, who: str, ref: RRef[Any]) -> str:
    return wait_for(gate, who)


def begun(gate: str | Path, who: str) -> Path:
    """The file that is there once *who* has begun."""
    return Path(f"{gate} {who}")


class Failing(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def fail(code: int) -> None:
    raise Failing(code=code)


def fail_with(code: int, ref: RRef[Any]) -> None:
    fail(code)


class Copied:
    """Its owner notes each copy that is made of it."""

    def __reduce__(self) -> Any:
        _noted.append("copied")
        return Copied, ()


class SlowToCopy:
    """A copy of it waits for the gate."""

    def __init__(self, gate: str) -> None:
        self.gate = gate

    def __reduce__(self) -> Any:
        wait_for(self.gate, "copy")
        return SlowToCopy, ("",)


class Uncopied:
    """A copy of it fails."""

    def __reduce__(self) -> Any:
        fail(7)

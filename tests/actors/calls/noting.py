"""Functions that note what they do in their process, and a system with a worker for them."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.testing import assert_nothing_held, until

from ..conftest import FAILED, GRACE
from ..helpers import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from farref.protocol.sharing import Sharing

LONG = 30.0
"""Seconds within which a wait has certainly ended. A system's timeout is twice as long."""
_noted: list[Any] = []
"""What the functions below have done in this process."""


def started(sharing: Sharing) -> Iterator[System]:
    """A system with the worker B, which runs one function at a time."""
    gc.freeze()  # every process inherits pytest's heap
    settings: Any = {"sharing": sharing, "timeout": 2 * LONG, "orphan_grace": GRACE}
    with System("farrefBase", silence=None, **settings) as system:  # tests stop processes
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
    for _ in range(2):
        call_each(worker)
    assert_nothing_held(system)
    farref.rpc_sync(worker, begin_anew)
    begin_anew()
    settle(system)


def call_each(worker: str) -> None:
    mine = RRef(0)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        *((note, (0,)), (note_with, (0, mine)), (bytes, (0,))),
        *((wait_for, ("", "")), (wait_with, ("", "", mine))),
    ]
    for function, args in calls:
        farref.rpc_sync(worker, function, args)
    farref.remote(worker, SlowToCopy, ("",)).to_here()
    for function, args in ((fail, (0,)), (fail_with, (0, mine))):
        with pytest.raises(Failing):
            farref.rpc_sync(worker, function, args)


def begin_anew() -> None:
    _noted.clear()


def settle(system: System) -> None:
    """Wait until each message of the program has arrived, and each of its requests is over."""

    def settled() -> bool:
        now = farref.counters()
        return now.in_flight == now.backlog == 0

    assert until(system, settled), farref.counters()


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

    def __init__(self, content: Any = None) -> None:
        self.content = content

    def __reduce__(self) -> Any:
        _noted.append("copied")
        return Copied, (self.content,)


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

"""What went straight, as each process counts for itself; and functions for tests of that."""

from __future__ import annotations

import gc
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.actors.core.lines import Lines
from farref.actors.looking.counting import counters
from farref.actors.serving.straight import StraightServer
from farref.testing import assert_nothing_held, until

from ..conftest import FAILED, GRACE
from ..helpers import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from farref.protocol.sharing import Sharing

_sent: Counter[str] = Counter()
"""The messages that this process has sent straight: their kinds and functions."""
_taken: Counter[str] = Counter()
"""The requests that it has taken straight."""
_noted: list[Any] = []
"""What the functions below have done in this process."""


def started(sharing: Sharing) -> Iterator[System]:
    """A system with the worker B. Its processes count. B runs one function at a time."""
    with pytest.MonkeyPatch.context() as patch:  # for the workers, too: they are forked from here
        patch.setattr(Lines, "send", _counting(Lines.send, _sent))
        for take in ("_take_call", "_take_create", "_take_fetch"):
            patch.setattr(StraightServer, take, _counting(getattr(StraightServer, take), _taken))
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


def _counting(method: Any, counts: Counter[str]) -> Any:
    """*method*, which counts its message, unless it leaves that to the general way."""

    def counted(self: Any, peer: Any, message: Any, more: Any) -> Any:
        result = method(self, peer, message, more)
        if result is not False:
            payload = getattr(getattr(message, "cargo", None), "payload", None)
            tag = getattr(payload, "tag", None)
            counts[type(message).__name__ + (f" {tag}" if tag else "")] += 1
        return result

    return counted


def ready(system: System, worker: str = "B") -> int:
    """Have *worker* run each function: its first call never goes straight. Then count anew.

    Returns 1 if calls that lend go straight, or else 0.
    """
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
    return system.endpoint.core.settings.sharing == "lend"


def check_ways(worker: str, expected: dict[str, int]) -> None:
    """Check that so many requests have left straight, and that *worker* has taken them straight.

    An endpoint leaves a message to the general way if a receipt is due at that moment, or a handle
    has just ended. So the worker may have left some of many: two thirds of each kind at most.
    """
    here, there = sent(), farref.rpc_sync(worker, taken)
    for kind, count in expected.items():
        assert here[kind] == count, here
        assert 3 * there[kind] >= count, there


def begin_anew() -> None:
    for each in (_sent, _taken, _noted):
        each.clear()


def settle(system: System) -> None:
    """Wait until each message of the program has arrived, and each of its requests is over."""

    def settled() -> bool:
        now = counters()
        return now.in_flight == now.backlog == 0

    assert until(system, settled), counters()


def sent() -> Counter[str]:
    return _sent.copy()


def taken() -> Counter[str]:
    return _taken.copy()


def ways() -> Counter[str]:
    """Both together, for a process that sends the ones, and takes the others."""
    return _sent + _taken


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

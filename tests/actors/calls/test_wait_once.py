"""`farref.wait` asks for each value once, however often it is called, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import System
from farref.testing import assert_nothing_held

from ...waiting import eventually
from ..helpers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
CALLS, FLYING = 200, 40
GATES: dict[str, threading.Event] = {}


def same(value: Any) -> Any:
    return value


def gated(name: str) -> str:
    GATES.setdefault(name, threading.Event()).wait(PATIENCE)
    return name


def opened(name: str) -> None:
    GATES.setdefault(name, threading.Event()).set()


@pytest.fixture
def system() -> Iterator[System]:
    with System(timeout=PATIENCE) as made:
        for name in "BC":
            made.worker(name)
        yield made


def fetches() -> int:
    """The questions that the program has sent so far."""
    return farref.counters().user.get("Fetch", 0)


def test_a_loop_that_keeps_calls_in_flight_asks_once_for_each(system: System) -> None:
    """Ray's way to limit the calls in flight."""
    before = fetches()
    pending = [farref.remote("BC"[number % 2], same, (number,)) for number in range(FLYING)]
    made = FLYING
    done: list[Any] = []
    ready: list[Any] = []
    while pending:
        ready, pending = farref.wait(pending, num_returns=1)
        done += ready
        if made < CALLS:
            pending.append(farref.remote("BC"[made % 2], same, (made,)))
            made += 1
    assert fetches() - before <= CALLS
    assert sorted(farref.get(done)) == list(range(CALLS))
    del ready, done
    assert_nothing_held(system)


def test_polls_share_one_question(system: System) -> None:
    refs = [farref.remote("B", gated, (name,)) for name in ("x", "y")]
    before = fetches()
    for _ in range(20):
        assert farref.wait(refs, timeout=0) == ([], refs)
    assert fetches() - before == 2
    farref.rpc_sync("B", opened, ("y",))
    assert farref.wait(refs) == ([refs[1]], [refs[0]])
    assert farref.wait(refs) == ([refs[1]], [refs[0]])
    farref.rpc_sync("B", opened, ("x",))
    assert farref.wait(refs, 2) == (refs, [])
    assert fetches() - before == 2
    assert farref.get(refs) == ["x", "y"]


def test_what_is_dropped_while_it_is_waited_for_goes_once_it_is_there(system: System) -> None:
    ref = farref.remote("B", gated, ("dropped",))
    assert farref.wait([ref], timeout=0) == ([], [ref])
    del ref
    farref.rpc_sync("B", opened, ("dropped",))
    assert_nothing_held(system)


def test_a_death_ends_a_question_that_nobody_waits_for_just_now(system: System) -> None:
    ref = farref.remote("C", gated, ("never",))
    assert farref.wait([ref], timeout=0) == ([], [ref])
    os.kill(farref.rpc_sync("C", os.getpid), signal.SIGKILL)
    assert farref.wait([ref]) == ([ref], [])
    with pytest.raises(farref.OwnerDiedError):
        ref.to_here()


def test_two_threads_and_two_handles_wait_for_one_value(system: System) -> None:
    ref = farref.remote("B", gated, ("shared",))
    again = farref.rpc_sync("C", same, (ref,))
    there: list[Any] = []
    threads = [threading.Thread(target=lambda: there.append(farref.wait([ref, again], 2)))]
    threads.append(threading.Thread(target=lambda: there.append(farref.wait([again], 1))))
    for each in threads:
        each.start()
    farref.rpc_sync("B", opened, ("shared",))
    for each in threads:
        each.join(PATIENCE)
    assert sorted(len(ready) for ready, _ in there) == [1, 2]


def test_an_error_in_place_of_the_value_is_there_too(system: System) -> None:
    refs = [farref.remote("B", int, ("no number",)), farref.remote("B", same, (1,))]
    eventually(lambda: farref.wait(refs, 2, timeout=0)[1] == [])
    with pytest.raises(ValueError, match="no number"):
        refs[0].to_here()

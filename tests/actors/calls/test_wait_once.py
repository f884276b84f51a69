"""`farref.wait` asks for each value once, however often it is called, and leaves nothing behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import System
from farref.testing import assert_nothing_held

from ...waiting import eventually
from ..helpers import PATIENCE, hold, kill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes
CALLS, FLYING = 200, 40


def same(value: Any) -> Any:
    return value


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


def test_polls_share_one_question(system: System, gate: Path) -> None:
    x, y = gate, gate.with_name("y")
    refs = [farref.remote("B", hold, (each, each.name)) for each in (x, y)]
    before = fetches()
    for _ in range(20):
        assert farref.wait(refs, timeout=0) == ([], refs)
    assert fetches() - before == 2
    y.touch()
    assert farref.wait(refs) == ([refs[1]], [refs[0]])
    assert farref.wait(refs) == ([refs[1]], [refs[0]])
    x.touch()
    assert farref.wait(refs, 2) == (refs, [])
    assert fetches() - before == 2
    assert farref.get(refs) == [x.name, y.name]


def test_what_is_dropped_while_it_is_waited_for_goes_once_it_is_there(
    system: System, gate: Path
) -> None:
    ref = farref.remote("B", hold, (gate,))
    assert farref.wait([ref], timeout=0) == ([], [ref])
    del ref
    gate.touch()
    assert_nothing_held(system)


def test_a_death_ends_a_question_that_nobody_waits_for_just_now(system: System, gate: Path) -> None:
    ref = farref.remote("C", hold, (gate,))
    assert farref.wait([ref], timeout=0) == ([], [ref])
    kill("C")
    assert farref.wait([ref]) == ([ref], [])
    with pytest.raises(farref.OwnerDiedError):
        ref.to_here()


def test_two_threads_and_two_handles_wait_for_one_value(system: System, gate: Path) -> None:
    ref = farref.remote("B", hold, (gate,))
    again = farref.rpc_sync("C", same, (ref,))
    there: list[Any] = []
    threads = [threading.Thread(target=lambda: there.append(farref.wait([ref, again], 2)))]
    threads.append(threading.Thread(target=lambda: there.append(farref.wait([again], 1))))
    for each in threads:
        each.start()
    gate.touch()
    for each in threads:
        each.join(PATIENCE)
    assert sorted(len(ready) for ready, _ in there) == [1, 2]


def test_an_error_in_place_of_the_value_is_there_too(system: System) -> None:
    refs = [farref.remote("B", int, ("no number",)), farref.remote("B", same, (1,))]
    eventually(lambda: farref.wait(refs, 2, timeout=0)[1] == [])
    with pytest.raises(ValueError, match="no number"):
        refs[0].to_here()

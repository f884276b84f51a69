"""Each guarantee for requests, in each discipline, with real processes."""

from __future__ import annotations

import os
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

import farref
from farref import FetchTimeoutError, RRef, SerializationError
from farref.protocol.sharing import DISCIPLINES
from farref.testing import until

from ...stopping import stopped
from . import noting
from .noting import (
    LONG,
    Copied,
    Failing,
    Uncopied,
    begun,
    fail,
    fail_with,
    note,
    note_with,
    noted,
    ready,
    settle,
    wait_for,
)
from .test_errors import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from farref import Future, System

pytestmark = pytest.mark.processes

ROUNDS = 4
AT_ONCE = 14
"""So many requests in flight do not gather: each leaves alone."""
FLYING = 200
SOON = 0.05
"""The timeout of a wait, in seconds."""


@pytest.fixture(scope="module", params=DISCIPLINES)
def shared(request: pytest.FixtureRequest) -> Iterator[System]:
    yield from noting.started(request.param)


@pytest.fixture
def system(shared: System, request: pytest.FixtureRequest) -> Iterator[System]:
    yield from noting.checked(shared, request)


def test_each_takes_effect_once(system: System) -> None:
    """While B is stopped, all that was sent to it is sent again."""
    pid = farref.rpc_sync("B", os.getpid)
    ready(system)
    value, mine = farref.remote("B", Copied), RRef(1)
    farref.wait([value])
    settle(system)
    before, again = system.counters()["B"].duplicates, farref.counters().retransmissions
    with ThreadPoolExecutor(3) as waiting, stopped(pid):
        calls = [farref.rpc_async("B", note, (number,)) for number in range(5)]
        made = [farref.remote("B", note, (number,)) for number in range(5, 9)]
        waits = [
            waiting.submit(farref.rpc_sync, "B", note, (9,)),
            waiting.submit(farref.rpc_sync, "B", note_with, (10, mine)),
            waiting.submit(value.to_here),
        ]
        assert until(system, lambda: farref.counters().backlog == 12)
        assert until(system, lambda: farref.counters().retransmissions >= again + 12)
    answers: list[Any] = [*calls, *waits]
    for each in answers:
        each.result()
    assert len(farref.get(made)) == 4
    done = farref.rpc_sync("B", noted)
    assert done.count("copied") == 1
    assert sorted(each for each in done if each != "copied") == list(range(11))
    assert system.counters()["B"].duplicates >= before + 12


def test_they_begin_in_the_order_sent(system: System) -> None:
    """Calls in flight, with creations between them; then so many calls that they gather."""
    pid = farref.rpc_sync("B", os.getpid)
    ready(system)
    made, calls, number = [], [], 0
    for _ in range(ROUNDS):
        settle(system)
        with stopped(pid):
            for _ in range(AT_ONCE):
                if number % 3 == 2:
                    made.append(farref.remote("B", note, (number,)))
                else:
                    calls.append(farref.rpc_async("B", note, (number,)))
                number += 1
        calls[-1].result()
    settle(system)
    calls += [farref.rpc_async("B", note, (number + each,)) for each in range(FLYING)]
    for each in calls:
        each.result()
    assert farref.rpc_sync("B", noted) == list(range(number + FLYING))


def time_out(values: list[RRef[Any]], lent: RRef[Any]) -> list[Future[int]]:
    """Wait in each way, until the wait has timed out; return the futures of the calls in flight.

    The calls note the numbers from 0 to 7.
    """
    numbers, futures = iter(range(8)), []
    late = r" did not come within 0\.0\d+ s"  # of `SOON`

    def fly() -> None:
        futures.append(farref.rpc_async("B", note, (next(numbers),), timeout=SOON))

    for value in values:
        fly()
        with pytest.raises(FetchTimeoutError, match=rf"the reply of B to note\(\){late}"):
            farref.rpc_sync("B", note, (next(numbers),), timeout=SOON)
        with pytest.raises(FetchTimeoutError, match=f"the value of {value.id}{late}"):
            value.to_here(SOON)
    for _ in range(2):
        fly()
        with pytest.raises(FetchTimeoutError, match=rf"the reply of B to note_with\(\){late}"):
            farref.rpc_sync("B", note_with, (next(numbers), lent), timeout=SOON)
    for future in futures:
        with pytest.raises(FetchTimeoutError, match=rf"the reply of B to note\(\){late}"):
            future.result()
    return futures


def test_waits_for_a_stopped_process_time_out(system: System) -> None:
    """A timeout ends the call for everybody. Later, the calls take effect all the same."""
    pid = farref.rpc_sync("B", os.getpid)
    ready(system)
    values = [farref.remote("B", str, (each,)) for each in range(2)]
    farref.wait(values, 2)
    with stopped(pid):
        futures = time_out(values, RRef(1))
    assert all(type(each.exception(LONG)) is FetchTimeoutError for each in futures)
    settle(system)
    assert farref.rpc_sync("B", noted) == list(range(8))
    assert [each.to_here() for each in values] == ["0", "1"]


def test_waits_for_a_busy_worker_time_out(system: System, gate: Path) -> None:
    """B runs one call for long. The others, and the creations of values, wait for its thread."""
    ready(system)
    busy = farref.rpc_async("B", wait_for, (str(gate), "busy"))
    assert until(system, begun(gate, "busy").exists)
    values = [farref.remote("B", note, (8 + each,)) for each in range(2)]
    futures = time_out(values, RRef(1))
    assert until(system, lambda: farref.counters().in_flight == 1), "only the first call goes on"
    gate.touch()
    assert busy.result(LONG) == "busy"
    assert all(type(each.exception(LONG)) is FetchTimeoutError for each in futures)
    settle(system)
    assert farref.rpc_sync("B", noted) == ["busy", 8, 9, *range(8)]
    assert [each.to_here() for each in values] == [8, 9]


def test_a_call_that_is_cancelled_does_not_begin(system: System, gate: Path) -> None:
    """One that runs goes on, and its result comes."""
    ready(system)
    busy = farref.rpc_async("B", wait_for, (str(gate), "busy"))
    assert until(system, begun(gate, "busy").exists)
    waits = [farref.rpc_async("B", note, (number,)) for number in range(3)]
    lent = farref.rpc_async("B", note_with, (3, RRef(1)))
    resolved = farref.rpc_async("B", note, (RRef(4),), resolve=True)
    for each in (waits[1], lent, resolved):
        assert each.cancel()
        assert each.cancel(), "again"
        assert each.cancelled()
        with pytest.raises(CancelledError):
            each.result()
    assert not busy.cancel()
    gate.touch()
    assert busy.result() == "busy"
    assert [waits[each].result() for each in (0, 2)] == [0, 2]
    assert not waits[0].cancel()
    assert farref.rpc_sync("B", noted) == ["busy", 0, 2]


def test_an_error_has_its_type_and_its_traceback(system: System) -> None:
    ready(system)
    mine = RRef(1)
    both = [(farref.remote("B", fail, (7,)), farref.remote("B", Uncopied)) for _ in range(3)]
    for made, uncopied in both:
        of_made = f"fail(), for the reference {made.id}"
        of_copy = f"fetch, for the reference {uncopied.id}"
        acts: list[tuple[type[Exception], str, Callable[[], Any]]] = [
            (Failing, "fail()", partial(farref.rpc_sync, "B", fail, (7,))),
            (Failing, "fail()", farref.rpc_async("B", fail, (7,)).result),
            (Failing, "fail_with()", partial(farref.rpc_sync, "B", fail_with, (7, mine))),
            (Failing, of_made, made.to_here),
            (SerializationError, of_copy, uncopied.to_here),
        ]
        for kind, where, act in acts:
            with pytest.raises(kind, match="code 7") as caught:
                act()
            text = told(caught.value)
            assert f"raised on worker B by {where}" in text
            assert "in fail\n    raise Failing(code=code)" in text, "the remote traceback"
            assert getattr(caught.value, "code", 7) == 7
            del caught

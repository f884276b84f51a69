"""Requests that meet full queues."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, OverloadedError, System
from farref.actors.calls import calls
from farref.actors.calls.queues import Queues
from farref.actors.serving import server
from farref.protocol import deadlocks
from farref.protocol.context import Context
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import Fetch
from farref.testing import until

from ...stopping import stopped
from . import noting
from .noting import LONG, begun, note, noted, ready, wait_for
from .test_rings import ring_at, set_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from farref import Future

IMPATIENT = 5.0
"""The timeout of a program, in seconds: for so long it waits for room."""
BRIEFLY = 0.2
ON_THE_WAY = 10_000
"""The most messages on the way to one peer."""
QUEUED = 100
"""The most requests that wait for a thread of a worker, as set here."""
LARGE = 20_000
UNFETCHED = 10 * LARGE
"""The most bytes of results in futures, as set here."""


def in_threads(acts: list[Callable[[], Any]]) -> list[BaseException | None]:
    """The error of each act; they run at the same time."""
    with ThreadPoolExecutor(len(acts)) as threads:
        return [each.exception() for each in [threads.submit(act) for act in acts]]


@pytest.mark.processes
def test_requests_beyond_what_is_on_the_way_wait() -> None:
    """A thread that sends one more gets an error after the system's timeout.

    A fetch that times out leaves two messages, as it is taken back. Its owner is polled no more
    often than there is room for them.
    """
    polls = 10
    with System("farrefBase", timeout=LONG, silence=None) as patient:
        patient.worker("B", threads=1)
        pid = farref.rpc_sync("B", os.getpid)
        with (
            System.attach(patient.name, timeout=IMPATIENT) as system,
            ThreadPoolExecutor(1) as waiting,
        ):
            value = farref.remote("B", str, (1,))
            assert value.to_here(LONG) == "1"
            noting.settle(system)
            call = partial(farref.rpc_async, "B", note, timeout=LONG)
            with stopped(pid):
                futures = [call((number,)) for number in range(ON_THE_WAY - 2 * polls)]
                for _ in range(polls):
                    with pytest.raises(FetchTimeoutError):
                        value.to_here(0.01)
                for _ in range(5):
                    with pytest.raises(OverloadedError, match=r"10000 messages or more wait for B"):
                        value.to_here(0.01)
                    with pytest.raises(OverloadedError, match="fetch less often"):
                        farref.get([value], timeout=0.01)
                more: list[Any] = [farref.rpc_sync, farref.rpc_async, farref.remote]
                for error in in_threads([partial(each, "B", note, (-1,)) for each in more]):
                    assert isinstance(error, OverloadedError)
                    assert "slower than" in str(error)
                last = waiting.submit(call, (-2,))
                assert not until(system, last.done, BRIEFLY)
                assert farref.counters().user["Call"] == len(futures), "no other one has left"
                os.kill(pid, signal.SIGCONT)
                futures.append(last.result(LONG))
            done = [*range(ON_THE_WAY - 2 * polls), -2]
            assert [each.result(LONG) for each in futures] == done
            assert value.to_here(LONG) == "1"
            assert farref.rpc_sync("B", noted) == done


@pytest.fixture(scope="module")
def shared() -> Iterator[System]:
    with pytest.MonkeyPatch.context() as patch:  # as docs/limits.md says: before the system starts
        patch.setattr(server, "MAX_WAITING", QUEUED)
        patch.setattr(calls, "MAX_UNFETCHED_BYTES", UNFETCHED)
        yield from noting.started("lend")


@pytest.fixture
def system(shared: System, request: pytest.FixtureRequest) -> Iterator[System]:
    yield from noting.checked(shared, request)


@pytest.mark.processes
@pytest.mark.parametrize("at_once", [False, True])
def test_calls_beyond_what_a_worker_queues_are_refused(
    system: System, gate: Path, at_once: bool
) -> None:
    """B has begun none of them.

    If it receives all calls at once, it counts also those that its receiving thread is to run.
    """
    ready(system)
    pid, kept = farref.rpc_sync("B", os.getpid), farref.remote("B", note, (-1,))
    busy = farref.rpc_async("B", wait_for, (str(gate), "busy"))
    assert until(system, begun(gate, "busy").exists)
    if at_once:
        with stopped(pid):
            burst = [farref.rpc_async("B", note, (number,)) for number in range(2 * QUEUED)]
        assert kept.to_here() == -1  # B has received all
        queued, refused = burst[:QUEUED], burst[QUEUED:]
    else:
        queued = [farref.rpc_async("B", note, (number,)) for number in range(QUEUED)]
        assert until(system, lambda: system.counters()["B"].waiting == QUEUED)
        refused = [farref.rpc_async("B", note, (-1,)) for _ in range(10)]
        refused.append(farref.remote("B", note, (-1,)).future())
    for each in refused:
        with pytest.raises(OverloadedError, match=r"B did not start .* wait already for a thread"):
            each.result()
    assert not any(each.done() for each in queued)
    gate.touch()
    assert busy.result() == "busy"
    assert [each.result() for each in queued] == list(range(QUEUED))
    assert farref.rpc_sync("B", noted) == [-1, "busy", *range(QUEUED)]


@pytest.mark.processes
def test_requests_wait_while_results_are_not_fetched(system: System) -> None:
    """Calls that are waited for, calls in flight, and fetches. All go on when there is room."""
    ready(system)
    with System.attach(system.name, timeout=IMPATIENT) as impatient, ThreadPoolExecutor(3) as pool:
        value = farref.remote("B", note, (1,))
        farref.wait([value])
        futures: list[Future[bytes]] = []
        for _ in range(UNFETCHED // LARGE):
            futures.append(farref.rpc_async("B", bytes, (LARGE,), timeout=LONG))
            assert until(impatient, futures[-1].done)
        requests: list[Callable[[], int]] = [
            lambda: farref.rpc_sync("B", note, (2,), timeout=LONG),
            lambda: farref.rpc_async("B", note, (3,), timeout=LONG).result(),
            lambda: value.to_here(LONG),
        ]
        for error in in_threads([*requests]):
            assert isinstance(error, OverloadedError)
            assert "of results" in str(error)
        waits = [pool.submit(request) for request in requests]
        assert not until(impatient, lambda: any(each.done() for each in waits), BRIEFLY)
        assert all(len(each.result()) == LARGE for each in futures)
        assert [each.result(LONG) for each in waits] == [2, 3, 1]
    assert sorted(farref.rpc_sync("B", noted)) == [1, 2, 3]


def test_a_queue_is_suspected_while_the_creation_of_its_object_has_not_come() -> None:
    """Its caller may hold it back, behind a request that waits for one in this queue."""
    caller, me = WorkerId("A", 1), WorkerId("B", 1)
    context = Context(me, "lend")
    queues = Queues(context, lambda _: False)
    fetch = Fetch(call=CallId(caller, 1), rref=RRefId(caller, 2), copy=True, direct=False)
    context.receive(caller, fetch)
    queues.arrived(fetch, lambda: 0.0)
    suspected = [bool(queues.look(0.2 * look)) for look in range(1, 5)]
    assert suspected == [True, True, False, True]


@pytest.mark.processes
def test_a_ring_of_more_waits_than_are_followed_ends_by_timeouts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deadlocks, "MAX_HOPS", 1)
    with System(timeout=5) as system:
        for name in "BC":
            system.worker(name)
        futures = set_out(ring_at("BC"), tmp_path, "method")
        ends = [future.exception(LONG) for future in futures]
        # The first wait that ends breaks the ring, and may set the other free.
        assert {type(each) for each in ends} - {type(None)} == {FetchTimeoutError}

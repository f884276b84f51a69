"""Requests that meet full queues, and rings of waits, in each discipline."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import farref
from farref import FetchTimeoutError, OverloadedError, RRef, SelfWaitError
from farref.actors.calls import calls
from farref.actors.inspect.counting import counters
from farref.actors.serving import server
from farref.protocol.sharing import DISCIPLINES
from farref.testing import until

from ...stopping import stopped
from . import noting
from .noting import begun, note, noted, ready, settle, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from farref import Future, System

pytestmark = pytest.mark.processes

LONG = 30.0
"""Seconds within which a wait has certainly ended. The system's timeout is twice as long."""
BRIEFLY = 0.2
"""Seconds."""
ON_THE_WAY, QUEUED = 60, 100
"""The most messages on the way to one peer, and the most requests that wait for a thread there."""
LARGE = 20_000
UNFETCHED = 10 * LARGE
"""The bytes of results that may be in futures."""


@pytest.fixture(scope="module", params=DISCIPLINES)
def shared(request: pytest.FixtureRequest) -> Iterator[System]:
    with pytest.MonkeyPatch.context() as patch:  # of the workers, too
        patch.setattr(server, "MAX_WAITING", QUEUED)
        yield from noting.started(request.param)


@pytest.fixture
def system(shared: System, request: pytest.FixtureRequest) -> Iterator[System]:
    yield from noting.checked(shared, request)


# ---- full queues


@contextmanager
def impatient(system: System) -> Iterator[None]:
    """In the block, the system's timeout is brief for the program."""
    core = system.endpoint.core
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "settings", replace(core.settings, timeout=BRIEFLY))
        yield


def test_calls_beyond_what_is_on_the_way_wait(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that sends one more waits until the timeout."""
    pid = farref.rpc_sync("B", os.getpid)
    ready(system)
    monkeypatch.setattr(calls, "MAX_BACKLOG", ON_THE_WAY)
    with stopped(pid), ThreadPoolExecutor(1) as waiting:
        futures = [farref.rpc_async("B", note, (number,)) for number in range(ON_THE_WAY)]
        for more in (farref.rpc_sync, farref.rpc_async, farref.remote):
            with impatient(system), pytest.raises(OverloadedError, match="slower than"):
                more("B", note, (-1,))
        last = waiting.submit(farref.rpc_async, "B", note, (ON_THE_WAY,))
        assert not until(system, last.done, BRIEFLY)
        assert counters().backlog == ON_THE_WAY
        os.kill(pid, signal.SIGCONT)
        futures.append(last.result(LONG))
    assert [each.result() for each in futures] == list(range(ON_THE_WAY + 1))
    assert farref.rpc_sync("B", noted) == list(range(ON_THE_WAY + 1))


def test_a_poll_of_a_stopped_owner_ends(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fetch that times out leaves two messages, as it is taken back."""
    pid = farref.rpc_sync("B", os.getpid)
    ready(system)
    value = farref.remote("B", note, (1,))
    assert value.to_here() == 1
    settle(system)
    monkeypatch.setattr(calls, "MAX_BACKLOG", ON_THE_WAY)
    with stopped(pid):
        for _ in range(ON_THE_WAY // 2):
            with pytest.raises(FetchTimeoutError):
                value.to_here(timeout=0.01)
        for _ in range(5):
            with pytest.raises(OverloadedError, match=f"{ON_THE_WAY} messages or more wait for B"):
                value.to_here(timeout=0.01)
            with pytest.raises(OverloadedError, match="fetch less often"):
                farref.get([value], timeout=0.01)
        assert counters().backlog == ON_THE_WAY
    assert value.to_here() == 1


def test_calls_beyond_what_a_worker_queues_are_refused(system: System, gate: Path) -> None:
    """B has begun none of them."""
    ready(system)
    busy = farref.rpc_async("B", wait_for, (str(gate), "busy"))
    assert until(system, begun(gate, "busy").exists)
    queued = [farref.rpc_async("B", note, (number,)) for number in range(QUEUED)]
    assert until(system, lambda: system.counters()["B"].waiting == QUEUED)
    for _ in range(10):
        with pytest.raises(OverloadedError, match="did not start"):
            farref.rpc_sync("B", note, (-1,))
    gate.touch()
    assert busy.result() == "busy"
    assert [each.result() for each in queued] == list(range(QUEUED))
    assert farref.rpc_sync("B", noted) == ["busy", *range(QUEUED)]


def test_a_burst_beyond_what_a_worker_queues_is_refused(system: System, gate: Path) -> None:
    """B receives all calls at once, and counts also those that its receiving thread is to run."""
    ready(system)
    pid, kept = farref.rpc_sync("B", os.getpid), farref.remote("B", note, (-1,))
    busy = farref.rpc_async("B", wait_for, (str(gate), "busy"))
    assert until(system, begun(gate, "busy").exists)
    with stopped(pid):
        burst = [farref.rpc_async("B", note, (number,)) for number in range(2 * QUEUED)]
    assert kept.to_here() == -1  # B has received all
    assert until(system, lambda: sum(each.done() for each in burst) >= QUEUED)
    assert not any(each.done() for each in burst[:QUEUED])
    for each in burst[QUEUED:]:
        with pytest.raises(OverloadedError, match="did not start"):
            each.result()
    gate.touch()
    assert busy.result() == "busy"
    assert [each.result() for each in burst[:QUEUED]] == list(range(QUEUED))


def test_calls_wait_while_results_are_not_fetched(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that are waited for, calls in flight, and fetches. All go on when there is room."""
    monkeypatch.setattr(calls, "MAX_UNFETCHED_BYTES", UNFETCHED)
    ready(system)
    value = farref.remote("B", note, (1,))
    farref.wait([value])
    futures: list[Future[bytes]] = []
    for _ in range(UNFETCHED // LARGE):
        futures.append(farref.rpc_async("B", bytes, (LARGE,)))
        assert until(system, futures[-1].done)
    requests: list[Callable[[], int]] = [
        lambda: farref.rpc_sync("B", note, (2,)),
        lambda: farref.rpc_async("B", note, (3,)).result(),
        value.to_here,
    ]
    for request in requests:
        with impatient(system), pytest.raises(OverloadedError, match="of results"):
            request()
    with ThreadPoolExecutor(3) as waiting:
        waits = [waiting.submit(request) for request in requests]
        assert not until(system, lambda: any(each.done() for each in waits), BRIEFLY)
        assert all(len(each.result()) == LARGE for each in futures)
        assert [each.result(LONG) for each in waits] == [2, 3, 1]
    assert sorted(farref.rpc_sync("B", noted)) == [1, 2, 3]


# ---- rings of waits


class Node:
    """Its method waits for a function that waits for this very object."""

    def go(self, to: str, how: str) -> Any:
        return go(to, how)


def go(to: str, how: str) -> Any:
    return farref.rpc_async(to, fetch_it if how == "fetch" else call_it).result()


_kept: list[RRef[Node]] = []
"""In each process: the reference that the program has given to it."""


def keep(node: RRef[Node]) -> None:
    _kept.append(node)


def let_go() -> None:
    _kept.clear()


def fetch_it() -> str:
    return type(_kept[0].to_here()).__name__


def call_it() -> Any:
    return farref.rpc_sync("B", fetch_it)


@pytest.mark.parametrize("how", ["fetch", "call"])
def test_an_object_that_waits_for_itself_is_refused(system: System, how: str) -> None:
    """Its method waits for a function, and that one waits, too.

    Neither says which objects wait for it. So nothing is refused at once: the last wait of this
    ring is for the object's turn.
    """
    name, node = f"another {how}", farref.remote("B", Node)
    system.worker(name)
    for each in ("B", name):
        farref.rpc_sync(each, keep, (node,))
    for _ in range(20):  # later, the helper runs the functions
        assert farref.rpc_sync("B", go, (name, how)) == "Node"
    with pytest.raises(SelfWaitError) as caught:
        node.rpc_async().go(name, how).result()
    if how == "fetch":
        assert f"fetch_it() on {name} waits for the value of {node.id}" in str(caught.value)
    else:
        assert f"call_it() on {name} waits for the reply of B to fetch_it()" in str(caught.value)
    for each in ("B", name):
        farref.rpc_sync(each, let_go)

"""A timeout is a property of the call: it ends it for everybody, also where nobody waits (G6)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, Future, RefActor, RRef, System
from farref.testing import assert_nothing_held

from ...bases import PROCESSES
from ..helpers import Box, hold, make_box, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHORT = 0.2


class Silent(RefActor):
    def receiveMsg_str(self, message: str, sender: object) -> None:
        pass


class Slow:
    def __init__(self, gate: Path | None = None) -> None:
        if gate is not None:
            hold(gate)

    def hold(self, gate: Path) -> None:
        hold(gate)


def relay(gate: Path, timeout: float) -> Future[Any]:
    """A future that nobody here waits for."""
    return farref.rpc_async("C", hold, (gate,), timeout=timeout)


def _ask(system: System, _: Path) -> Future[Any]:
    if "silent" not in {info.name for info in system.workers()}:
        system.create(Silent, "silent")
    return system.ask_async("silent", "question", timeout=SHORT)


REQUESTS: dict[str, Callable[[System, Path], Any]] = {
    "call": lambda _, gate: farref.rpc_async("B", hold, (gate,), timeout=SHORT),
    "keywords": lambda _, gate: farref.rpc_async("B", hold, kwargs={"gate": gate}, timeout=SHORT),
    "reference": lambda _, gate: farref.rpc_async("B", hold, (gate, RRef(1)), timeout=SHORT),
    "to any": lambda _, gate: farref.rpc_async(farref.ANY, hold, (gate,), timeout=SHORT),
    "fetch": lambda _, gate: farref.remote("B", hold, (gate,)).future(timeout=SHORT),
    "creation": lambda _, gate: farref.remote("B", hold, (gate,), timeout=SHORT).future(),
    "method": lambda _, gate: farref.remote("B", Slow).rpc_async(timeout=SHORT).hold(gate),
    "method of a creation": lambda _, gate: (
        farref.remote("B", Slow, (gate,)).rpc_async(timeout=SHORT).hold(gate)
    ),
    "ask": _ask,
    "returned": lambda _, gate: farref.rpc_async("B", relay, (gate, SHORT)),
}


@pytest.mark.parametrize("way", REQUESTS)
def test_it_ends_for_those_who_do_not_wait(system: System, gate: Path, way: str) -> None:
    """The gate is closed until all of them have their outcome."""
    future: Future[Any] = REQUESTS[way](system, gate)
    heard: list[BaseException | None] = []
    future.add_done_callback(lambda done: heard.append(done.exception()))
    chained = future.then(lambda done: type(done.exception()))
    assert until(system, lambda: heard and chained.done())
    assert isinstance(heard[0], FetchTimeoutError)
    assert chained.result() is FetchTimeoutError
    assert future.failed
    # The time of a creation runs since `remote`; its future has what is left.
    took = r"0\.[01]\d*|0\.2" if way == "creation" else str(SHORT)
    with pytest.raises(FetchTimeoutError, match=f"did not come within ({took}) s"):
        future.result(timeout=60)

    async def wait() -> None:
        await future

    with pytest.raises(FetchTimeoutError):
        asyncio.run(wait())


def test_a_late_reply_leaves_nothing(system: System, gate: Path) -> None:
    kept = farref.remote("B", make_box)
    assert isinstance(kept.to_here(), Box)
    late = farref.rpc_async("B", hold, (gate, kept), timeout=SHORT)
    with pytest.raises(FetchTimeoutError):
        late.result()
    assert farref.counters().in_flight == 0
    gate.touch()
    assert isinstance(kept.to_here(), Box)
    del kept
    assert_nothing_held(system)


@pytest.mark.parametrize("base", PROCESSES)
def test_a_wait_may_be_longer_if_the_call_names_no_time(base: str, gate: Path) -> None:
    seconds = 5  # enough for a busy machine to make a worker
    with System(base, timeout=seconds) as system:
        system.worker("B")
        future = farref.rpc_async("B", hold, (gate, 1))
        again = farref.rpc_async("B", hold, (gate, 1), timeout=seconds)
        waits = threading.Thread(target=lambda: future.result(timeout=100))
        waits.start()
        with pytest.raises(FetchTimeoutError):
            again.result(timeout=100)
        assert not future.done()  # though it was called before
        gate.touch()
        waits.join(60)
        assert future.result() == 1


def test_the_waits_of_others_end_with_it(system: System, gate: Path) -> None:
    """Those of `concurrent.futures`, which call in nowhere."""
    if not system.endpoint.core.port.runs_by_itself:
        pytest.skip("actors run only while the program calls in")
    future = farref.rpc_async("B", hold, (gate,), timeout=SHORT)
    done, _ = concurrent.futures.wait([future])
    assert done == {future}
    (same,) = concurrent.futures.as_completed([future])
    assert same is future


def test_many_calls_end_together(system: System, gate: Path) -> None:
    """More than end in one turn of the mailbox thread; and answered ones are forgotten."""
    for _ in range(30 if system.endpoint.core.port.runs_by_itself else 3):
        for future in [farref.rpc_async("B", pow, (2, 2)) for _ in range(100)]:
            assert future.result() == 4
    assert len(system.endpoint.calls.deadlines) < 2500
    futures = [farref.rpc_async("B", hold, (gate,), timeout=SHORT) for _ in range(2500)]
    assert until(system, lambda: all(each.done() for each in futures))
    assert all(each.failed for each in futures)
    gate.touch()


def test_the_first_error_of_resolved_arguments_ends_the_wait_for_the_others(
    system: System, gate: Path
) -> None:
    refs = farref.remote("C", hold, (gate,)), farref.remote("B", _fail)
    with pytest.raises(KeyError, match="the cause"):
        farref.rpc_sync("B", max, refs, resolve=True)
    gate.touch()


def _fail() -> None:
    raise KeyError("the cause")

"""`Future`: wait, chain, cancel, await, from one thread or many."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError

from ...waiting import eventually
from ..helpers import hold, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from farref import System


def test_a_future_is_a_concurrent_future(system: System) -> None:
    future = farref.rpc_async("B", pow, (2, 3))
    assert isinstance(future, concurrent.futures.Future)
    assert until(system, future.done)
    assert not future.cancelled()
    assert not future.running()
    assert future.exception() is None
    assert [f.result() for f in concurrent.futures.as_completed([future], 5)] == [8]


@pytest.mark.parametrize("seconds", [0, 0.05])
def test_a_timeout_leaves_the_future_usable(system: System, gate: Path, seconds: float) -> None:
    future = farref.rpc_async("B", hold, (gate,))
    with pytest.raises(FetchTimeoutError, match=r"hold.*wait again for this future") as caught:
        future.result(seconds)
    gate.touch()
    assert isinstance(caught.value, TimeoutError)
    assert future.wait() is None
    assert future.result(0) is None


def polled(gate: Path, times: int) -> int:
    """How many more objects there are after so many polls."""
    future = farref.rpc_async("C", hold, (gate,))
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(times):
        with contextlib.suppress(FetchTimeoutError):
            future.result(1e-4)
    gc.collect()
    return len(gc.get_objects()) - before


@pytest.mark.usefixtures("system")
def test_polls_leave_nothing_behind(gate: Path) -> None:
    assert farref.rpc_sync("B", polled, (gate, 500)) < 250
    assert polled(gate, 500) < 250
    gate.touch()


def test_the_exception_of_a_call_and_of_what_comes_after_it(system: System) -> None:
    future = farref.rpc_async("B", divmod, (1, 0))
    assert isinstance(future.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        future.wait()
    chained = farref.rpc_async("B", divmod, (1, 0)).then(lambda done: done.result())
    assert until(system, chained.done)
    assert isinstance(chained.exception(), ZeroDivisionError)


ALL_TAKE = threading.Event()


class SlowToRebuild:
    there = False

    def __getstate__(self) -> object:
        return {"there": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ALL_TAKE.wait(30)
        self.__dict__.update(state)


def in_threads(number: int, call: Callable[[], object]) -> list[threading.Thread]:
    """Threads that make the *call*; each is in the library."""
    threads = [threading.Thread(target=call, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
        eventually(partial(_is_in_the_library, thread))
    return threads


def _is_in_the_library(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and not frame.f_globals["__name__"].startswith("farref."):
        frame = frame.f_back
    return frame is not None


def test_many_threads_take_one_result(system: System) -> None:
    ALL_TAKE.clear()
    future = farref.rpc_async("B", SlowToRebuild)
    assert until(system, future.done)
    taken: list[Any] = []
    threads = in_threads(8, lambda: taken.append(future.result()))
    ALL_TAKE.set()
    for thread in threads:
        thread.join(30)
    assert len(taken) == 8
    assert all(each.there for each in taken)
    assert len({id(each) for each in taken}) == 1


def test_cancel_takes_back_what_has_not_left(system: System, gate: Path) -> None:
    """A call behind a direct fetch is held back at its maker."""
    made = farref.remote("B", hold, args=(gate, [1]))
    before, fetched = farref.counters().in_flight, list[Any]()
    (thread,) = in_threads(1, lambda: fetched.append(made.to_here()))
    assert until(system, lambda: farref.counters().in_flight > before)
    assert made.rpc_async().append(2).cancel()
    last = made.rpc_async().copy()
    gate.touch()
    assert last.result() == [1]
    thread.join(30)
    assert fetched == [[1]]


def test_cancel_wakes_the_threads_that_wait(system: System, gate: Path) -> None:
    future = farref.rpc_async("B", hold, (gate,))
    seen: list[BaseException] = []

    def wait() -> None:
        try:
            future.result()
        except concurrent.futures.CancelledError as error:
            seen.append(error)

    (thread,) = in_threads(1, wait)
    assert future.cancel(interrupt=True)
    thread.join(30)
    assert len(seen) == 1


def test_futures_and_references_are_awaited_on_the_programs_own_loop(system: System) -> None:
    async def main() -> list[Any]:
        ref = farref.remote("B", list, ((1, 2),))
        return [await farref.rpc_async("B", pow, (2, 3)), await ref, await ref.future()]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [8, [1, 2], [1, 2]]


def test_an_await_ends_with_the_calls_own_timeout(system: System, gate: Path) -> None:
    async def main() -> None:
        await farref.rpc_async("B", hold, (gate,), timeout=0.05)

    with pytest.raises(FetchTimeoutError):
        asyncio.run(main())


def test_a_result_that_is_there_can_be_awaited_after_the_deadline(system: System) -> None:
    async def late(future: Any) -> Any:
        return await future

    future = farref.rpc_async("B", abs, (-3,))
    assert future.result() == 3
    future.deadline = time.monotonic() - 1
    assert asyncio.run(late(future)) == 3

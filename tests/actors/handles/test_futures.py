"""`Future`: wait, chain, cancel, await, from one thread or many."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, RRef

from ..helpers import hold, until

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System


class SlowToRebuild:
    def __setstate__(self, state: dict[str, Any]) -> None:
        time.sleep(0.2)
        self.__dict__.update(state)


def slow_to_rebuild() -> SlowToRebuild:
    result = SlowToRebuild()
    result.__dict__["there"] = True
    return result


def test_a_future_is_a_concurrent_future(system: System) -> None:
    future = farref.rpc_async("B", pow, (2, 3))
    assert isinstance(future, concurrent.futures.Future)
    assert until(system, future.done)
    assert not future.cancelled()
    assert not future.running()
    assert future.exception() is None
    assert [f.result() for f in concurrent.futures.as_completed([future], 5)] == [8]


def test_a_timeout_leaves_the_future_usable(system: System, gate: Path) -> None:
    future = farref.rpc_async("B", hold, (gate,))
    with pytest.raises(FetchTimeoutError, match="hold") as caught:
        future.result(0.05)
    gate.touch()
    assert isinstance(caught.value, TimeoutError)
    assert future.result() is None


def test_a_future_polls_with_0(system: System, gate: Path) -> None:
    future = farref.rpc_async("B", hold, (gate,))
    with pytest.raises(FetchTimeoutError):
        future.result(0)
    gate.touch()
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


def test_the_exception_of_a_call(system: System) -> None:
    future = farref.rpc_async("B", divmod, (1, 0))
    assert isinstance(future.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        future.wait()


def test_then_chains(system: System) -> None:
    future = farref.rpc_async("B", pow, (2, 3))
    chained = future.then(lambda done: done.result() + 1)
    assert until(system, chained.done)
    assert chained.result() == 9


def test_then_passes_the_error_on(system: System) -> None:
    chained = farref.rpc_async("B", divmod, (1, 0)).then(lambda done: done.result())
    assert until(system, chained.done)
    assert isinstance(chained.exception(), ZeroDivisionError)


def test_many_threads_take_one_result(system: System) -> None:
    future = farref.rpc_async("B", slow_to_rebuild)
    assert until(system, future.done)
    taken: list[Any] = []
    threads = [
        threading.Thread(target=lambda: taken.append(future.result()), daemon=True)
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(taken) == 8
    assert all(isinstance(each, SlowToRebuild) for each in taken)
    assert len({id(each) for each in taken}) == 1


def test_cancel_takes_back_what_has_not_started(own_system: System, gate: Path) -> None:
    one = own_system.worker("one", threads=1)
    ran: RRef[list[int]] = RRef([])
    busy = farref.rpc_async("one", hold, (gate,))
    future = farref.rpc_async("one", _append, (ran, 1))
    assert future.cancel()
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    # Until the cancel has arrived: messages to one peer take effect in the order of sending.
    assert until(own_system, lambda: not own_system.endpoint.delivery.load(one.id, "mail")[0])
    gate.touch()
    busy.result()
    assert farref.rpc_sync("one", pow, (2, 2)) == 4
    assert ran.local_value() == []
    assert not busy.cancel()


def _append(where: RRef[list[int]], what: int) -> None:
    where.rpc_sync().append(what)


def test_cancel_takes_back_what_has_not_left(system: System, gate: Path) -> None:
    """A call behind a direct fetch is held back at its maker."""
    made = farref.remote("B", hold, args=(gate, [1]))
    fetched = made._fetch(None, (), direct=True)
    assert made.rpc_async().append(2).cancel()
    last = made.rpc_async().copy()
    gate.touch()
    assert fetched.result() == [1]
    assert last.result() == [1]


def test_cancel_does_not_stop_what_runs(system: System, gate: Path) -> None:
    ran: RRef[list[str]] = RRef([])
    future = farref.rpc_async("B", _slow_append, (ran, gate))
    idle_until_started(system, ran)
    assert future.cancel()
    gate.touch()
    assert until(system, lambda: ran.local_value() == ["started", "ended"])


def _slow_append(where: RRef[list[str]], gate: Path) -> None:
    where.rpc_sync().append("started")
    hold(gate)
    where.rpc_sync().append("ended")


def idle_until_started(system: System, ran: RRef[list[str]]) -> None:
    assert until(system, lambda: ran.local_value() == ["started"])


def test_cancel_wakes_the_threads_that_wait(system: System, gate: Path) -> None:
    future = farref.rpc_async("B", hold, (gate,))
    seen: list[BaseException] = []

    def wait() -> None:
        try:
            future.result()
        except concurrent.futures.CancelledError as error:
            seen.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.1)
    assert future.cancel()
    thread.join(30)
    assert len(seen) == 1


def test_a_dropped_future_gives_back_its_references(system: System) -> None:
    future = farref.rpc_async("B", _own_one)
    assert until(system, future.done)
    del future  # the fixture checks every table


def _own_one() -> RRef[list[int]]:
    return RRef([1])


def test_a_cancelled_future_gives_back_its_references(system: System) -> None:
    farref.rpc_async("B", _own_later).cancel()


def _own_later() -> RRef[list[int]]:
    time.sleep(0.1)
    return RRef([1])


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


def test_callbacks_chain(system: System) -> None:
    chained = farref.rpc_async("B", abs, (-1,)).then(lambda f: f.result() + 1)
    assert chained.then(lambda f: f.result() * 10).wait() == 20

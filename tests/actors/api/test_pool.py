"""`System.pool`: an executor of workers, with bounded iteration, which outlives their deaths."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System, WorkerDiedError
from farref.testing import assert_nothing_held, until

from ..helpers import hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as system:
        yield system
        assert_nothing_held(system)


THREAD = concurrent.futures.ThreadPoolExecutor(1)


def named(system: System, name: str) -> list[str]:
    return [info.name for info in system.workers() if info.name.startswith(name)]


def square(number: int) -> int:
    return number * number


def inverse(number: int) -> float:
    return 1 / number


async def later_inverse(number: int) -> float:
    await asyncio.sleep(0)
    return 1 / number


def inverse_by_future(number: int) -> farref.Future[float]:
    future: farref.Future[float] = farref.Future()
    future.set_result(1 / number)
    return future


def inverse_in_a_thread(number: int) -> concurrent.futures.Future[float]:
    return THREAD.submit(inverse, number)


async def later_list(items: str) -> list[str]:
    await asyncio.sleep(0)
    return list(items)


def hold_and_say(gate: Path, word: str) -> str:
    hold(gate)
    return word


def end_of(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_it_is_an_executor(system: System) -> None:
    with system.pool(2, "executor") as pool:
        assert isinstance(pool, concurrent.futures.Executor)
        futures = [pool.submit(square, number) for number in range(20)]
        done = concurrent.futures.as_completed(futures, timeout=60)
        assert sorted(future.result() for future in done) == [n * n for n in range(20)]
        assert list(pool.map(pow, [2, 3], [3, 2])) == [8, 9]
        assert list(pool.map(square, range(7), chunksize=3)) == [n * n for n in range(7)]
        with pytest.raises(ZeroDivisionError):
            pool.submit(inverse, 0).result(timeout=60)
        with pytest.raises(TypeError, match="a task needs a function"):
            pool.submit(5)  # type: ignore[call-overload]  # wrong on purpose

        async def in_loop() -> int:
            return await asyncio.get_running_loop().run_in_executor(pool, square, 5)

        assert asyncio.run(in_loop()) == 25
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(square, 1)
    assert named(system, "executor") == []


@pytest.mark.parametrize("fn", [later_inverse, inverse_by_future, inverse_in_a_thread])
def test_a_result_may_come_later(system: System, fn: Callable[[int], Any]) -> None:
    with system.pool(2, fn.__name__) as pool:
        wanted = [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
        assert pool.submit(fn, 2).result(timeout=60) == 1 / 2
        assert list(pool.map(fn, range(1, 6))) == wanted
        assert list(pool.imap(fn, range(1, 6), chunksize=2)) == wanted
        assert sorted(pool.imap_unordered(fn, range(1, 6)), reverse=True) == wanted
        with pytest.raises(ZeroDivisionError):
            list(pool.map(fn, range(3), chunksize=3))
        kept = pool.keep(later_list, "ab").result(timeout=60)
        assert kept.rpc_sync().index("b") == 1
        del kept


def test_a_long_task_keeps_no_other_waiting(system: System, tmp_path: Path) -> None:
    with system.pool(2, "fair") as pool:
        long = pool.submit(hold_and_say, tmp_path / "gate", "long")
        assert list(pool.map(square, range(10), timeout=60)) == [n * n for n in range(10)]
        assert not long.done()
        (tmp_path / "gate").touch()
        assert long.result(timeout=60) == "long"


@pytest.mark.parametrize("unordered", [False, True])
def test_an_endless_iterable_is_taken_as_it_is_needed(system: System, unordered: bool) -> None:
    taken = 0

    def numbers() -> Iterator[int]:
        nonlocal taken
        while True:
            yield taken
            taken += 1

    with system.pool(2, f"endless-{unordered}") as pool:
        results = (pool.imap_unordered if unordered else pool.imap)(square, numbers(), chunksize=2)
        some = [next(results) for _ in range(50)]
        assert taken < 50 + 20
        if not unordered:
            assert some == [n * n for n in range(50)]
        assert len(set(some) & {n * n for n in range(70)}) == 50
        results.close()  # type: ignore[attr-defined]  # it is a generator


def test_results_may_stay_where_they_are(system: System) -> None:
    with system.pool(2, "keeping") as pool:
        kept = [pool.keep(list, "abc").result(timeout=60) for _ in range(3)]
        assert all(isinstance(each, RRef) for each in kept)
        assert farref.get(kept) == [["a", "b", "c"]] * 3
        assert all(each.owner().name.startswith("keeping-") for each in kept)
        # References travel in arguments, too.
        assert pool.submit(RRef.to_here, kept[0]).result(timeout=60) == ["a", "b", "c"]
        del kept


def test_workers_come_back(system: System, caplog: pytest.LogCaptureFixture) -> None:
    with system.pool(2, "phoenix") as pool:
        for number in range(3):
            with pytest.raises(WorkerDiedError):
                pool.submit(end_of, number).result(timeout=60)
        assert list(pool.map(square, range(20), timeout=60)) == [n * n for n in range(20)]
        assert until(system, lambda: "2 workers" in repr(pool))


def test_an_idle_worker_that_dies_takes_no_task_with_it(system: System) -> None:
    with system.pool(1, "idle") as pool:
        pid = pool.submit(os.getpid).result(timeout=60)
        os.kill(pid, signal.SIGKILL)
        assert until(system, lambda: not named(system, "idle"))
        assert pool.submit(square, 3).result(timeout=60) == 9


def test_tasks_that_have_not_begun_can_be_cancelled(system: System, tmp_path: Path) -> None:
    pool = system.pool(1, "cancelled")
    first = pool.submit(hold_and_say, tmp_path / "gate", "first")
    others = [pool.submit(square, number) for number in range(5)]
    assert others[0].cancel()
    ending = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True})
    ending.start()
    concurrent.futures.wait(others, timeout=60)
    assert all(other.cancelled() for other in others)
    assert not first.cancel()
    (tmp_path / "gate").touch()
    ending.join(60)
    assert first.result(timeout=60) == "first"


@pytest.mark.parametrize(("size", "threads"), [(0, 1), (1, 0)])
def test_it_needs_a_worker(system: System, size: int, threads: int) -> None:
    with pytest.raises(ValueError, match="at least 1 worker and 1 thread"):
        system.pool(size, threads=threads)

"""A function may return a future: its outcome is the answer, and no thread waits for it."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

import farref
from farref import FarrefError, FetchTimeoutError, Future, RRef, System
from farref.testing import references_everywhere

from ..helpers import PLACES, made_at, until

if TYPE_CHECKING:
    pass

everywhere = pytest.mark.parametrize("place", PLACES)


class BatchServer:
    """PyTorch's batching parameter server: the last of a batch answers all."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.left = batch
        self.sum = 0
        self.future: Future[int] = Future()

    def update(self, value: int) -> Future[int]:
        future = self.future
        self.sum += value
        self.left -= 1
        if not self.left:
            self.left, self.future = self.batch, Future()
            future.set_result(self.sum)
        return future

    async def update_later(self, value: int) -> int:
        return await self.update(value)

    async def future_later(self, value: int) -> Future[int]:
        return self.update(value)

    def waiting(self) -> int:
        return self.batch - self.left

    def threads(self) -> int:
        return threading.active_count()

    def keep(self) -> Future[int]:
        return self.future

    def fail(self) -> None:
        self.future.set_exception(KeyError("set by another call"))

    def forget(self) -> Future[int]:
        return Future()

    def of_a_call(self, to: str) -> Future[int]:
        return farref.rpc_async(to, pow, (2, 5))

    def chained(self, to: str) -> Future[int]:
        return farref.rpc_async(to, pow, (2, 5)).then(lambda future: future.value() + 1)

    def of_an_executor(self) -> concurrent.futures.Future[int]:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(pow, 2, 5)

    def of_itself(self, me: RRef[BatchServer]) -> Future[int]:
        future: Future[int] = me.rpc_async().waiting()
        return future

    def in_a_list(self) -> list[Future[int]]:
        return [self.future]


def unanswered(system: System, server: RRef[BatchServer]) -> int:
    """The calls on the object that have no answer."""
    rows = itertools.chain(*references_everywhere(system).values())
    (tasks,) = (row.tasks for row in rows if row.rref == str(server.id) and row.role == "owner")
    return tasks


@everywhere
@pytest.mark.parametrize("method", ["update", "update_later", "future_later"])
def test_a_batching_parameter_server(system: System, place: str, method: str) -> None:
    server = made_at(system, place, BatchServer, 4)
    for total in (10, 20):
        futures = [getattr(server.rpc_async(), method)(value) for value in (1, 2, 3, 4)]
        assert [future.result() for future in futures] == [total] * 4


@everywhere
def test_no_thread_waits_for_it(system: System, place: str) -> None:
    server = made_at(system, place, BatchServer, 1000)
    before = server.rpc_sync().threads()
    futures = [server.rpc_async().update(1) for _ in range(999)]
    assert until(system, lambda: server.rpc_sync().waiting() == 999)
    assert server.rpc_sync().threads() <= before + 20  # threads of the pool
    assert not any(future.done() for future in futures)
    assert server.rpc_sync().update(1) == 1000
    assert {future.result() for future in futures} == {1000}


@everywhere
def test_the_future_of_a_call_may_be_returned(system: System, place: str) -> None:
    server = made_at(system, place, BatchServer, 2)
    assert server.rpc_sync().of_a_call("C") == 32
    assert server.rpc_sync().chained("C") == 33
    assert server.rpc_sync().of_an_executor() == 32
    assert server.rpc_sync().of_itself(server) == 0  # it has no turn any more


@everywhere
def test_an_answer_that_nobody_can_set_is_an_error(system: System, place: str) -> None:
    server = made_at(system, place, BatchServer, 2)
    with pytest.raises(FarrefError, match="forgotten before anybody had set it"):
        server.rpc_sync().forget()
    assert server.rpc_sync().waiting() == 0


def test_a_future_that_is_never_set_ends_by_the_timeout(system: System) -> None:
    server = RRef(BatchServer(2))
    with pytest.raises(FetchTimeoutError):
        server.rpc_sync(timeout=0.2).keep()
    server.rpc_sync().fail()


@pytest.mark.processes
@everywhere
def test_a_cancelled_call_does_not_wait_for_it(system: System, place: str) -> None:
    """The others do: it is the answer to all of them, so it is not cancelled itself."""
    server = made_at(system, place, BatchServer, 2)
    first, second = server.rpc_async().keep(), server.rpc_async().keep()
    ends = 2 if place == "program" else 1  # the caller's, and the owner's
    assert until(system, lambda: unanswered(system, server) == 2 * ends)
    assert first.cancel()
    assert until(system, lambda: unanswered(system, server) == ends)
    server.rpc_sync().fail()
    with pytest.raises(KeyError):
        second.result()


def test_a_cancelled_function_does_not_wait_for_it(system: System) -> None:
    """The argument that it has borrowed until then goes back."""
    system.worker("one", threads=1)
    call = farref.rpc_async("one", _unset, (RRef(1),))
    assert not farref.rpc_sync("one", _kept_is_cancelled)  # it has ended, and its answer is open
    assert system.counters()["one"].borrowed == 1
    assert call.cancel()
    assert until(system, lambda: system.counters()["one"].borrowed == 0)
    assert not farref.rpc_sync("one", _kept_is_cancelled)


_kept: list[Future[int]] = []


def _unset(_: object) -> Future[int]:
    _kept[:] = [Future()]
    return _kept[0]


def _kept_is_cancelled() -> bool:
    return _kept[0].cancelled()


def _wait_for(server: RRef[BatchServer]) -> None:
    server.rpc_sync().keep()


def test_it_does_not_keep_the_calls_of_the_dead(process_system: System) -> None:
    for name in ("B", "C"):
        process_system.worker(name)
    server, pid = farref.remote("B", BatchServer, (2,)), farref.rpc_sync("C", os.getpid)
    farref.rpc_async("C", _wait_for, (server,))
    assert until(process_system, lambda: unanswered(process_system, server) == 1)
    os.kill(pid, signal.SIGKILL)
    assert until(process_system, lambda: unanswered(process_system, server) == 0)


def test_the_result_of_remote_is_its_outcome(system: System) -> None:
    server = farref.remote("B", BatchServer, (2,))
    first, second = server.remote().update(1), server.remote().update(2)
    assert farref.get([first, second]) == [3, 3]
    frozen = farref.remote("B", later_list, (5,), frozen=True)
    assert frozen.to_here() == [0, 1, 2, 3, 4]
    assert frozen.rpc_sync().count(3) == 1


def later_list(count: int) -> Future[list[int]]:
    return farref.rpc_async("C", list, (range(count),))


def test_a_reference_may_be_the_outcome(system: System) -> None:
    made = farref.remote("B", later_reference)
    assert made.to_here() == "value"
    assert farref.rpc_sync("B", later_reference).to_here() == "value"


def later_reference() -> Future[RRef[str]]:
    return farref.rpc_async("C", RRef, ("value",))


def test_a_future_inside_a_value_is_refused(system: System) -> None:
    with pytest.raises(farref.SerializationError, match="return it alone from a function"):
        RRef(BatchServer(2)).rpc_sync().in_a_list()

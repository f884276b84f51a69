"""`async def` methods of one object interleave at their awaits; no object runs in two threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, SelfWaitError, System, WouldBlockError, on

from ..helpers import PLACES, assert_nothing_held, made_at, until

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from farref import Future

number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)


class Signal:
    """Ray's SignalActor, and what else an object may do while it awaits."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waiting = 0
        self.log: list[Any] = []
        self.inside = 0

    async def wait(self, name: Any = None) -> Any:
        self.waiting += 1
        self.log.append(("begins", name))
        await self.event.wait()
        self.log.append(("ends", name))
        return name

    async def send(self) -> None:
        self.event.set()

    def send_plainly(self) -> None:
        """Ray's is a plain one."""
        self.event.set()

    def count(self) -> int:
        return self.waiting

    def threads(self) -> int:
        return threading.active_count()

    def take_log(self) -> list[Any]:
        log, self.log = self.log, []
        return log

    # ---- calls of its own object

    async def call_back(self, me: RRef[Signal]) -> Any:
        value = await me
        return await me.rpc_async().count(), type(value) is Signal

    async def call_back_through(self, other: str, me: RRef[Signal]) -> Any:
        return await farref.rpc_async(other, count_of, (me,))

    async def block(self, me: RRef[Signal]) -> Any:
        return me.rpc_sync().count()

    def wait_for_itself(self, me: RRef[Signal]) -> Any:
        return me.rpc_sync().count()

    # ---- asyncio

    async def with_timeout(self) -> str:
        try:
            async with asyncio.timeout(0.05):
                await self.event.wait()
        except TimeoutError:
            return "late"
        return "in time"

    async def cancels_itself(self) -> str:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        try:
            await self.event.wait()
        except asyncio.CancelledError:
            task.uncancel()
        await Plain(0)
        return "cancelled"

    async def keeps_its_context(self, value: int) -> int:
        number.set(value)
        await self.wait()
        return number.get()

    async def gathers(self) -> list[int]:
        async def one(value: int) -> int:
            return await Plain(value)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(one(1))
        return [task.result(), *await asyncio.gather(one(2), one(3)), await Plain(4)]

    async def step_in_tasks(self, steps: int) -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.step_often(steps))
            task = asyncio.create_task(self.step_often(steps))
        done = await asyncio.gather(self.step_often(steps), self.step_often(steps), task)
        late = await asyncio.wait_for(self.step_often(steps), 20)
        return sum(done) + late + await self.step_often(steps)

    async def leaves_a_task(self) -> str:
        async def outlive() -> None:
            await self.event.wait()
            self.log.append("outlived")

        self.task = asyncio.create_task(outlive(), name="mine")
        return self.task.get_name()

    async def cancels_tasks(self) -> list[str]:
        tasks = [asyncio.create_task(self.event.wait()) for _ in range(3)]
        await Plain(0)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return [type(end).__name__ for end in ends]

    async def raises(self) -> None:
        await Plain(0)
        raise KeyError("after an await")

    # ---- one thread at a time

    async def step_often(self, steps: int) -> int:
        for _ in range(steps):
            self.alone()
            await Plain(0)
        return steps

    def step(self) -> int:
        self.alone()
        return 1

    def alone(self) -> None:
        """Raise, if another thread is in here."""
        self.inside += 1
        time.sleep(0.0005)  # another thread may come in
        if self.inside != 1:
            raise AssertionError("the object runs in two threads")
        self.inside -= 1


class Plain:
    """An awaitable without a coroutine. It lets others run."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, int]:
        yield
        yield from asyncio.sleep(0).__await__()
        return self.value


def count_of(signal: RRef[Signal]) -> Any:
    return signal.rpc_sync().count()


everywhere = pytest.mark.parametrize("place", PLACES)


def wait_until(system: System, signal: RRef[Signal], count: int) -> None:
    assert until(system, lambda: signal.rpc_sync().count() == count)


@everywhere
def test_others_run_while_methods_await(system: System, place: str) -> None:
    """The methods begin in order, each before another one ends."""
    signal = made_at(system, place, Signal)
    futures = [signal.rpc_async().wait(name) for name in range(5)]
    wait_until(system, signal, 5)  # a plain method, while five others await
    assert not any(future.done() for future in futures)
    signal.rpc_sync().send()
    assert [future.result() for future in futures] == list(range(5))
    assert signal.rpc_sync().take_log()[:5] == [("begins", name) for name in range(5)]


@pytest.mark.parametrize("place", [*PLACES, "not serial"])
def test_a_plain_method_may_set_an_event(system: System, place: str) -> None:
    """The loop sleeps when the event is set in another thread."""
    signal = (
        farref.remote("B", Signal, serial=False)
        if place == "not serial"
        else made_at(system, place, Signal)
    )
    futures = [signal.rpc_async().wait(name) for name in range(3)]
    wait_until(system, signal, 3)
    signal.rpc_sync().send_plainly()
    assert [future.result() for future in futures] == [0, 1, 2]


@everywhere
def test_a_method_may_await_its_own_object(system: System, place: str) -> None:
    signal = made_at(system, place, Signal)
    assert signal.rpc_sync().call_back(signal) == (0, True)
    assert signal.rpc_sync().call_back_through("C", signal) == 0


@everywhere
def test_what_would_wait_for_itself_is_refused(system: System, place: str) -> None:
    signal = made_at(system, place, Signal)
    with pytest.raises(SelfWaitError):
        signal.rpc_sync().wait_for_itself(signal)
    with pytest.raises(WouldBlockError):
        signal.rpc_sync().block(signal)


@everywhere
def test_asyncio_works_in_it(system: System, place: str) -> None:
    signal = made_at(system, place, Signal)
    assert signal.rpc_sync().with_timeout() == "late"
    assert signal.rpc_sync().cancels_itself() == "cancelled"
    assert signal.rpc_sync().gathers() == [1, 2, 3, 4]
    futures = [signal.rpc_async().keeps_its_context(value) for value in range(5)]
    wait_until(system, signal, 5)
    signal.rpc_sync().send()
    assert [future.result() for future in futures] == list(range(5))
    with pytest.raises(KeyError, match="after an await"):
        signal.rpc_sync().raises()


@everywhere
def test_neither_the_object_nor_its_tasks_run_in_two_threads(system: System, place: str) -> None:
    signal = made_at(system, place, Signal)
    futures = [signal.rpc_async().step_in_tasks(10) for _ in range(2)]
    futures += [signal.rpc_async().step() for _ in range(40)]
    assert [future.result() for future in futures] == [50] * 2 + [1] * 40
    assert signal.rpc_sync().cancels_tasks() == ["CancelledError"] * 3
    assert signal.rpc_sync().leaves_a_task() == "mine"
    signal.rpc_sync().send()
    assert until(system, lambda: signal.rpc_sync().take_log() == ["outlived"])


@everywhere
def test_thousand_that_await_take_no_threads(system: System, place: str) -> None:
    signal = made_at(system, place, Signal)
    before = signal.rpc_sync().threads()
    futures = [signal.rpc_async().wait(name) for name in range(1000)]
    wait_until(system, signal, 1000)
    assert signal.rpc_sync().threads() <= before + 20  # the loop, and threads of the pool
    signal.rpc_sync().send()
    assert [future.result() for future in futures] == list(range(1000))


def test_an_object_is_there_as_long_as_a_method_awaits(system: System) -> None:
    gate: Future[str] = farref.Future()
    gone: list[str] = []

    class Patient:
        async def wait(self) -> None:
            gone.append(await gate)

    patient = RRef(Patient(), on_delete=lambda _: gone.append("freed"))
    future = patient.rpc_async().wait()
    del patient
    assert not until(system, lambda: bool(gone), 0.3)
    gate.set_result("went on")
    future.result()
    assert until(system, lambda: gone == ["went on", "freed"])


# ---- objects that are not serial


class Crowd:
    """Methods of this object wait for each other."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count)

    def meet(self) -> int:
        return self.barrier.wait(60)

    def call(self, me: RRef[Crowd]) -> Any:
        return me.rpc_sync().answer()

    async def call_later(self, me: RRef[Crowd]) -> Any:
        return await me.rpc_async().answer()

    def answer(self) -> str:
        return "answer"

    def make(self, count: int) -> Crowd:
        return Crowd(count)


def crowds(where: str) -> RRef[Any]:
    ways: dict[str, Callable[[], RRef[Crowd]]] = {
        "value": lambda: RRef(Crowd(3), serial=False),
        "function": lambda: farref.remote("B", Crowd, (3,), serial=False),
        "method": lambda: farref.remote("B", Crowd, (1,)).remote(serial=False).make(3),
    }
    return ways[where]()


@pytest.mark.parametrize("where", ["value", "function", "method"])
def test_methods_of_an_object_that_is_not_serial_run_at_once(system: System, where: str) -> None:
    crowd = crowds(where)
    futures = [crowd.rpc_async().meet() for _ in range(3)]
    assert sorted(future.result() for future in futures) == [0, 1, 2]
    assert crowd.rpc_sync().call(crowd) == "answer"
    assert crowd.rpc_sync().call_later(crowd) == "answer"


# ---- leaks


def test_nothing_holds_what_an_async_method_got(system: System) -> None:
    class Value:
        pass

    class Taker:
        async def take(self, value: RRef[Value]) -> None:
            await Plain(0)

        async def fail(self, value: RRef[Value]) -> None:
            await self.take(value)
            raise KeyError("it")

    value = Value()
    gone = weakref.ref(value)
    taker, ref = RRef(Taker()), RRef(value)
    on(taker).rpc_sync(Taker.take, ref)
    future: Future[Any] = taker.rpc_async().fail(ref)
    assert type(future.exception()) is KeyError
    del value, ref, future
    assert until(system, lambda: gone() is None)
    del taker
    assert_nothing_held(system)

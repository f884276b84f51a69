"""A program whose own code is asyncio's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import Actor, ActorAddress

import farref
from farref import FetchTimeoutError, RefActor, System, SystemDownError

from ...bases import LINKS
from ..helpers import hold

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path


class Echo(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message != "silent":
            self.send(sender, message.upper())

    def receiveMsg_int(self, count: int, sender: ActorAddress) -> None:
        for number in range(count):
            self.send(sender, number)


class Plain(Actor):
    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, str):
            self.send(sender, message.upper())


@pytest.fixture(scope="module", params=LINKS)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with System(request.param) as system:
        system.create(Echo, "echo")
        yield system


def test_asking_without_blocking(system: System) -> None:
    async def ask() -> list[str]:
        questions = [system.ask_async("echo", text) for text in ("a", "b")]
        return [await each for each in questions]

    assert asyncio.run(ask()) == ["A", "B"]
    assert system.ask_async("echo", "c").wait() == "C"


def test_an_answer_that_does_not_come(system: System) -> None:
    async def ask() -> None:
        await system.ask_async("echo", "silent", timeout=0.1)

    with pytest.raises(FetchTimeoutError):
        asyncio.run(ask())


async def _sets(system: System) -> tuple[int, int]:
    """What `asyncio.wait` says of a question that is answered, and of one that never is."""
    asked = [system.ask_async("echo", text, timeout=30) for text in ("a", "silent")]
    first, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]  # typeshed knows asyncio's only
    assert first == {asked[0]}
    done, pending = await asyncio.wait(asked, timeout=0.05)  # type: ignore[type-var]  # as above
    for each in pending:
        each.cancel()
    assert pending == set(asked) - done
    assert all(not each._done_callbacks for each in asked)  # asyncio has taken them away
    return len(done), len(pending)


async def _texts(asked: Iterable[Awaitable[str]]) -> list[str]:
    return [await each for each in asked]


WITH_FUTURES: dict[str, tuple[Callable[[System], Awaitable[Any]], object]] = {
    "wait": (_sets, (1, 1)),
    "gather": (
        lambda system: asyncio.gather(*(system.ask_async("echo", each) for each in "ab")),
        ["A", "B"],
    ),
    "as_completed": (
        lambda system: _texts(
            asyncio.as_completed([system.ask_async("echo", "a") for _ in range(2)])
        ),
        ["A", "A"],
    ),
    "wait_for": (lambda system: asyncio.wait_for(system.ask_async("echo", "a"), 30), "A"),
    "shield": (lambda system: asyncio.shield(system.ask_async("echo", "a")), "A"),
    "wrap_future": (lambda system: asyncio.wrap_future(system.ask_async("echo", "a")), "A"),
    "a task": (lambda system: asyncio.ensure_future(system.ask_async("echo", "a")), "A"),
}


@pytest.mark.parametrize("name", WITH_FUTURES)
def test_the_functions_of_asyncio_take_futures(system: System, name: str) -> None:
    wait, result = WITH_FUTURES[name]

    async def run() -> Any:
        return await wait(system)

    assert asyncio.run(run()) == result


async def _wait_in_a_function() -> list[str]:
    asked = [farref.rpc_async("echo", str, (n,)) for n in range(3)]
    await asyncio.wait(asked)  # type: ignore[type-var]  # as above
    return [each.result() for each in asked]


def test_a_function_on_a_loop_of_farrefs_waits_by_asyncio(system: System) -> None:
    assert farref.rpc_sync("echo", _wait_in_a_function) == ["0", "1", "2"]


def _fail() -> None:
    raise KeyError("the cause")


def test_an_error_ends_the_waits_for_the_first_one(system: System, gate: Path) -> None:
    """Though it is still pickled when it comes."""
    asked = [farref.rpc_async("echo", hold, (gate,)), farref.rpc_async("echo", _fail)]

    async def first() -> set[Any]:
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_EXCEPTION)  # type: ignore[type-var]  # as above
        return {*done}

    assert asyncio.run(first()) == {asked[1]}
    assert asked[1].failed
    if farref.rpc_sync("echo", os.getpid) != os.getpid():  # else nobody calls in meanwhile
        asked[1] = farref.rpc_async("echo", _fail)
        done, _ = concurrent.futures.wait(asked, return_when=concurrent.futures.FIRST_EXCEPTION)
        assert done == {asked[1]}
        gate.touch()
        assert {*concurrent.futures.as_completed(asked)} == {*asked}
    assert not asked[0].failed
    gate.touch()


def test_references_are_no_futures(system: System) -> None:
    ref: Any = farref.remote("echo", pow, (2, 3))

    async def wait() -> None:
        await asyncio.wait([ref])

    takes: tuple[Callable[[], object], ...] = (
        lambda: asyncio.run(wait()),
        lambda: concurrent.futures.wait([ref]),
        lambda: [*concurrent.futures.as_completed([ref])],
    )
    for take in takes:
        with pytest.raises((TypeError, AttributeError), match=r"pass `ref\.future\(\)`"):
            take()

    async def tasks() -> list[int]:
        done, _ = await asyncio.wait([asyncio.ensure_future(ref), ref.future()])
        return [each.result() for each in done]

    assert asyncio.run(tasks()) == [8, 8]


def test_asking_a_plain_actor(system: System) -> None:
    async def ask() -> Any:
        return await system.ask_async(system.create(Plain), "a")

    assert asyncio.run(ask()) == "A"


def test_messages_as_they_come(system: System) -> None:
    async def listen() -> list[int]:
        system.tell("echo", 5)
        found = []
        async for number in system.messages():
            found.append(number)
            if len(found) == 5:
                break
        return found

    assert asyncio.run(listen()) == [0, 1, 2, 3, 4]


def test_no_message_is_lost_if_the_loop_is_cancelled(system: System) -> None:
    async def first() -> None:
        async for _ in system.messages():
            pass

    async def cancelled() -> None:
        task = asyncio.create_task(first())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancelled())
    system.tell("echo", "late")
    assert system.listen(10) == "LATE"


def test_a_system_in_async_with() -> None:
    async def main() -> tuple[list[Any], int]:
        found, ticks = [], 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with System() as system:
            system.worker("B")

            async def hear() -> None:
                found.extend([message async for message in system.messages()])

            hearing = asyncio.create_task(hear())
            assert await farref.rpc_async("B", pow, args=(2, 3)) == 8
            await asyncio.sleep(0)  # the listener begins
            before = ticks
        meanwhile = ticks - before
        await asyncio.wait_for(hearing, 10)  # the end of the system ends the loop over messages
        ticking.cancel()
        return found, meanwhile

    found, meanwhile = asyncio.run(main())
    assert found == []
    assert meanwhile > 1, "the other tasks ran while the system ended"


def test_an_error_in_async_with() -> None:
    async def main() -> System:
        system = System("simpleSystemBase")
        with pytest.raises(KeyError):
            async with system:
                raise KeyError("x")
        return system

    with pytest.raises(SystemDownError):
        asyncio.run(main()).workers()


def test_waiting_on_the_programs_loop_warns_once_for_each_line(system: System) -> None:
    async def block() -> None:
        for _ in range(3):
            assert system.ask("echo", "a") == "A"
        system.tell("echo", "b")
        assert system.listen() == "B"

    globals().pop("__warningregistry__", None)  # the lines that got a warning before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        asyncio.run(block())
    said = [str(each.message) for each in caught]
    assert len(said) == 2, said
    assert "ask_async" in said[0]
    assert "system.messages()" in said[1]
    assert {each.category for each in caught} == {RuntimeWarning}
    assert {each.filename for each in caught} == {__file__}

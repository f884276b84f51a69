"""Races of two threads: each order here once went wrong, and is now forced to happen."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import itertools
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress, ActorExitRequest

import farref
from farref import (
    Future,
    OwnerDiedError,
    RefActor,
    RRef,
    System,
    SystemDownError,
    WorkerDiedError,
    WouldBlockError,
)
from farref.actors.shells import mailbox
from farref.actors.values import packing
from farref.protocol.messages import Cargo
from farref.serialization.payload import Payload

from ...waiting import PATIENCE, eventually
from ..helpers import assert_nothing_held, hold, until
from .interrupting import Finalizing, Interrupting
from .test_interrupts import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def alone() -> Iterator[System]:
    """A system in this process."""
    with System("simpleSystemBase", timeout=20) as system:
        system.worker("B")
        yield system


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


class Echo(RefActor):
    """Sends each number back."""

    def receiveMsg_int(self, number: int, sender: ActorAddress) -> None:
        self.send(sender, number)


# ---- an event at any place of an operation; the main thread runs all endpoints of the system


STEPS = (
    *("/calls.py", "/core.py", "/current.py", "/delivery.py", "/futures.py"),
    *("/registrar_client.py", "/system.py", "/waiter.py"),
)
ASKS: dict[str, Callable[[System], object]] = {
    "a call": lambda _: farref.rpc_async("echo", pow, (2, 3)).result(),
    "a question": lambda system: system.ask("echo", 8),
    "an await": lambda _: asyncio.run(_awaited()),
    "a question to the registrar": lambda system: len(system.workers()) and 8,
}


async def _awaited() -> object:
    return await farref.rpc_async("echo", pow, (2, 3))


@pytest.mark.long
@pytest.mark.parametrize("ask", ASKS)
def test_a_system_ends_at_any_place_of(ask: str, caplog: pytest.LogCaptureFixture) -> None:
    """There is an answer, or the system's end is named; and no other error is logged."""
    finalizing, outcomes = Finalizing(*STEPS), list[object]()

    def run() -> None:
        try:
            outcomes.append(ASKS[ask](system))
        except SystemDownError:
            outcomes.append("ended")

    def end() -> None:  # the thread that is in the midst of it may have a lock
        in_thread(lambda: system.shutdown(graceful=False)).join(0.02)

    for place in itertools.count(0, 7):
        with System("simpleSystemBase", timeout=20) as system:
            system.create(Echo, "echo")
            met = finalizing.at_place(run, place, end)
        assert outcomes.pop() in (8, "ended"), place
        said = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert not [each for each in said if "SystemDownError" not in each], place
        if not met:
            break
    assert place > 14


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("ask", ["a call", "a question"])
def test_an_actor_dies_at_any_place_of(ask: str) -> None:
    """There is an answer, or the death is named: nobody waits for the timeout."""
    finalizing, outcomes = Finalizing(*STEPS), list[object]()

    def run() -> None:
        try:
            outcomes.append(ASKS[ask](system))
        except WorkerDiedError:
            outcomes.append("died")

    def is_dead() -> bool:
        return "echo" not in [info.name for info in system.workers()]

    def kill() -> None:  # the thread that is in the midst of it may have a lock
        os.kill(pid, signal.SIGKILL)
        in_thread(lambda: eventually(is_dead)).join(0.3)

    with System("farrefBase", timeout=PATIENCE, orphan_grace=0.1) as system:
        for place in itertools.count(0, 11):
            system.create(Echo, "echo")
            pid = farref.rpc_sync("echo", os.getpid)
            if not finalizing.at_place(run, place, kill):
                break
            assert outcomes.pop() in (8, "died"), place
            eventually(is_dead)
    assert place > 70


def test_a_system_ends_at_any_place_of_a_search_for_it(own_folder: Path) -> None:
    entry, errors = own_folder / "found.json", set[str]()

    def run() -> None:
        try:
            System.attach("found").shutdown()
        except SystemDownError as error:
            errors.add(str(error))

    with System("farrefBase", name="found"):
        data, finalizing = entry.read_bytes(), Finalizing("/directory.py")
        for place in itertools.count(0, 3):
            if not finalizing.at_place(run, place, entry.unlink):
                break
            entry.write_bytes(data)
    assert "system 'found' has just ended" in errors
    assert all("has just ended" in each or "no system named" in each for each in errors), errors


def pair() -> list[RRef[Any]]:
    return [RRef(1), RRef(2)]


def test_a_cancel_comes_at_any_place_of_an_answer(alone: System) -> None:
    """The references in it are taken, or they are given back, and once."""
    finalizing, ends = Finalizing("/futures.py", "/calls.py", "/discards.py"), set[int]()

    def is_met(place: int) -> bool:
        future: Future[list[RRef[int]]] = farref.rpc_async("B", pair)

        def run() -> None:
            try:
                ends.add(len(future.result()))
            except concurrent.futures.CancelledError:
                ends.add(0)

        return finalizing.at_place(run, place, lambda: in_thread(future.cancel).join(0.02))

    assert next(place for place in itertools.count() if not is_met(place)) > 20
    assert ends == {0, 2}
    assert_nothing_held(alone)


def test_a_program_is_in_its_system_while_it_enters_it_again(alone: System) -> None:
    def look() -> None:
        assert farref.get_worker_info().name == "program"

    places = 0
    finalizing = Finalizing("/current.py", "/system.py")
    while finalizing.at_place(alone.__enter__, places, look):
        places += 1
    assert places > 3
    look()


# ---- futures


def test_a_chain_that_is_cancelled_before_its_turn_is_no_error(
    alone: System, caplog: pytest.LogCaptureFixture
) -> None:
    first: Future[int] = Future()
    chained = first.then(lambda done: done.result())
    assert chained.cancel()
    ran = first.then(lambda _: "after it")
    with caplog.at_level(logging.ERROR):
        first.set_result(1)
        assert until(alone, ran.done)
    assert chained.cancelled()
    assert not caplog.records


@pytest.mark.processes
@pytest.mark.parametrize("steps", range(6))
def test_a_cancel_that_comes_with_the_answer_is_not_lost(steps: int) -> None:
    """Otherwise a deadline around the await does nothing, and later code may wait for ever (G6)."""
    went_on: list[bool] = []

    async def waits(future: Future[int]) -> None:
        await future
        went_on.append(True)

    async def main() -> None:
        future: Future[int] = Future()
        task = asyncio.create_task(waits(future))
        await asyncio.sleep(0)
        future.set_result(1)
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = task.cancel()
        await asyncio.wait([task])
        assert cancelled == task.cancelled() == (not went_on)

    with System("farrefBase"):  # there an await only waits to be woken
        asyncio.run(main())


def test_a_callback_of_a_cancel_may_cancel_when_the_system_has_ended(alone: System) -> None:
    """The end fails one of these futures, and that one cancels all others."""
    seen = list[tuple[bool, bool]]()
    futures: list[Future[int]] = [Future() for _ in range(5)]

    def cancel_all(_: object) -> None:
        for each in futures:
            each.cancel()

    for future in futures:
        future.add_done_callback(lambda done: seen.append((done.done(), done.cancel())))
        concurrent.futures.Future.add_done_callback(future, cancel_all)  # in the thread of the end
    alone.shutdown()
    eventually(lambda: sorted(seen) == [(True, False)] + 4 * [(True, True)])


def test_a_chain_ends_with_the_system_though_every_thread_is_busy() -> None:
    started, release = threading.Semaphore(0), threading.Event()

    def occupy(_: object) -> None:
        started.release()
        release.wait(PATIENCE)

    with System("simpleSystemBase", threads=2) as system:
        futures: list[Future[int]] = [Future() for _ in range(3)]
        for each in futures[:2]:
            each.add_done_callback(occupy)
            each.set_result(1)
            assert started.acquire(timeout=PATIENCE)
        chained = futures[2].then(lambda _: "the end of the chain")
        futures[2].set_result(1)
        assert not chained.done()
        try:
            system.shutdown(timeout=0)
            assert chained.result() == "the end of the chain"
        finally:
            release.set()


# ---- threads that wait, and actors that work, when the system ends


def test_a_thread_that_waits_when_the_system_ends_just_waits_on(alone: System) -> None:
    seen: list[object] = []
    begun, ended = threading.Event(), threading.Event()

    def over() -> bool:
        begun.set()
        return ended.is_set()

    thread = in_thread(lambda: seen.append(until(alone, over, 60)))
    assert begun.wait(PATIENCE)
    alone.shutdown()
    begun.clear()
    assert begun.wait(PATIENCE)  # it pumps, or tries to
    ended.set()
    thread.join(PATIENCE)
    assert seen == [True]


def test_a_thread_that_listens_waits_though_another_takes_what_came(alone: System) -> None:
    echo, got = alone.create(Echo), list[int]()
    threads = [in_thread(lambda: got.append(alone.listen(30))) for _ in range(2)]
    for number in range(2):  # the first message wakes both
        alone.tell(echo, number)
        assert until(alone, lambda: len(got) > number)  # noqa: B023 - in this round only
    for each in threads:
        each.join(PATIENCE)
    assert got == [0, 1]


class Kept:
    """Arrives as the object kept in this process under its number: events cannot be pickled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return take, (self.number,)


def take(number: int) -> Any:
    return kept[number]


kept: dict[int, tuple[threading.Event, threading.Event]] = {}
made: list[Any] = []
"""What functions of actors in this process leave for the test."""


class Late(RefActor):
    """Its handlers take longer than its system lives. Meanwhile it has a reference."""

    async def _nothing(self) -> None:
        pass

    def receiveMsg_tuple(self, message: tuple[threading.Event, ...], sender: object) -> Any:
        started, release = message
        ref = RRef(1)
        started.set()
        release.wait(PATIENCE)
        del ref
        return self._nothing()


def test_a_handler_that_outlives_its_system_ends_quietly(
    alone: System, caplog: pytest.LogCaptureFixture
) -> None:
    actor = alone.create(Late, "late")
    kept[0] = kept[1] = started, release = threading.Event(), threading.Event()
    for number in range(2):
        alone.tell(actor, Kept(number))
    assert until(alone, started.is_set)
    thread = next(each for each in threading.enumerate() if each.name == "farref loop late")
    with caplog.at_level(logging.ERROR):
        alone.shutdown()
        release.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not caplog.records


async def answer() -> int:
    return 1


def late(number: int | None = None) -> Any:
    """Return a coroutine, maybe only when the test says so; it sees the coroutine's fate."""
    made.append(coroutine := answer())
    if number is not None:
        kept[number][1].wait(PATIENCE)
    return coroutine


class HoldsUp(RefActor):
    """Holds up its own loop, and all coroutines that await there."""

    def receiveMsg_tuple(self, message: tuple[threading.Event, ...], _sender: object) -> None:
        held_up, go_on = message
        held_up.set()
        go_on.wait(PATIENCE)


def test_what_was_to_be_awaited_when_the_loop_ended_is_closed(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python complains about a coroutine that was never started, wherever the collector runs."""
    monkeypatch.setattr(mailbox, "LAST_HANDLERS", 0.05)
    kept[0] = held_up, go_on = threading.Event(), threading.Event()
    kept[1] = threading.Event(), threading.Event()
    made.clear()
    actor = alone.create(HoldsUp)
    calls: list[Future[Any]] = [farref.rpc_async(actor, late, (1,))]
    assert until(alone, lambda: len(made) == 1)
    alone.tell(actor, Kept(0))
    assert until(alone, held_up.is_set)
    try:
        calls += [farref.rpc_async(actor, late), farref.remote(actor, late, frozen=True).future()]
        assert until(alone, lambda: len(made) == 3)
        alone.tell(actor, ActorExitRequest())
        for call in calls:
            with pytest.raises((WorkerDiedError, OwnerDiedError)):
                call.result(PATIENCE)
    finally:
        go_on.set()
    name = f"farref loop {actor}"
    eventually(lambda: name not in [each.name for each in threading.enumerate()])
    kept[1][1].set()  # after the end of the loop
    states = {inspect.CORO_CLOSED}
    eventually(lambda: set(map(inspect.getcoroutinestate, made)) == states)


# ---- forks


class Waits(RefActor):
    async def receiveMsg_str(self, _message: str, _sender: object) -> None:
        made.append("waits")
        await asyncio.Event().wait()


async def waits() -> None:
    made.append("waits")
    await asyncio.Event().wait()


@pytest.mark.parametrize("what", ["function", "handler"])
def test_a_forked_child_may_collect_what_its_parent_awaits(alone: System, what: str) -> None:
    """The collector in the child throws `GeneratorExit` into it. The parent lives on."""
    made.clear()
    call = farref.rpc_async("B", waits) if what == "function" else None
    if call is None:
        alone.tell(alone.create(Waits), "wait")
    assert until(alone, lambda: made)
    pid = os.fork()
    if pid == 0:
        for each in gc.get_objects():
            if inspect.iscoroutine(each):
                each.close()
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    if call is not None:
        call.cancel()  # or the system's end waits for it
    assert farref.rpc_sync("B", pow, (2, 3)) == 8


# ---- what no public way reaches


@pytest.mark.processes
def test_a_handler_waits_while_a_function_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that receives the answers tidies what is kept of functions now and then."""
    monkeypatch.setattr(packing, "TIDY_SECONDS", 0.0)  # at each of its turns

    def way() -> None:
        used = [1]
        assert farref.rpc_sync("B", lambda: len(used) + 1) == 2

    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        pickled = Interrupting("/library.py", "/spaces.py", handler=call).at_every_place(way, 11)
        assert sum(1 for _ in itertools.islice(pickled, 25)) > 20


def test_a_packet_that_leaves_when_its_system_has_ended_is_no_error(
    alone: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread has a packet to B. Before it sends it, its endpoint closes and hears of B's end."""
    endpoint = alone.endpoint
    (b,) = (each.id for each in alone.workers() if each.name == "B")
    post, held = endpoint.delivery.post, list[Any]()
    with monkeypatch.context() as patched:
        patched.setattr(type(endpoint.delivery), "post", lambda _, packets: held.extend(packets))
        endpoint.core.step(lambda: endpoint.core.context.tell(b, Cargo(payload=Payload(b""))))
    assert [worker for worker, _ in held] == [b]
    alone.shutdown(graceful=False)
    endpoint.deaths.died([b])
    assert b not in endpoint.core.peers.addresses
    caplog.clear()
    post(held)
    assert not caplog.records


@pytest.mark.processes
def test_a_finalizer_that_calls_while_its_thread_passes_the_lead_on_is_refused(gate: Path) -> None:
    """The thread that receives its answer would need the lock that this thread has."""
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        system.worker("C")
        port: Any = system._port
        lead = port._loop.leadership
        waiter = in_thread(lambda: farref.rpc_sync("B", hold, (gate,)))
        assert until(system, lambda: lead.leader == waiter.ident)
        try:
            with lead._lock, pytest.raises(WouldBlockError, match="a finalizer for example"):
                farref.rpc_sync("C", hold, (gate,), timeout=5)
        finally:
            gate.touch()
            waiter.join(PATIENCE)

"""Races of two threads: each order here once went wrong, and is now forced to happen."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
import os
import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorExitRequest

import farref
from farref import (
    Future,
    OwnerDiedError,
    ProtocolError,
    RefActor,
    System,
    SystemDownError,
    WorkerDiedError,
)
from farref.actors.core import current
from farref.actors.hosting import directory
from farref.actors.shells import mailbox
from farref.actors.values.cell import CoroutineCell
from farref.protocol.effects import Stop
from farref.protocol.ids import CallId
from farref.protocol.messages import Call, Cargo
from farref.serialization.payload import Payload

from ..helpers import until

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from thespian.actors import ActorAddress


@pytest.fixture
def alone() -> Iterator[System]:
    """A system in this process; these tests look at its program's endpoint."""
    with System("simpleSystemBase", timeout=20) as system:
        system.worker("B")
        yield system


def future_of(system: System) -> Future[Any]:
    """A future that only this program knows of."""
    endpoint = system.endpoint
    return Future.of(endpoint.core, endpoint.packer, endpoint.waits, "the test's", 20)


def test_a_call_that_is_made_while_the_system_ends_ends_too(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = alone.endpoint.calls
    step = calls._send

    def closes_first(*arguments: Any, **named: Any) -> None:
        alone.endpoint.close("the test ends it")
        step(*arguments, **named)

    monkeypatch.setattr(calls, "_send", closes_first)
    with pytest.raises(SystemDownError):
        farref.rpc_async("B", pow, (2, 3)).result(1)


def test_an_ask_of_one_who_dies_while_it_is_sent_names_the_death(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, info = alone.endpoint.calls, farref.get_worker_info("B")

    def dies_first(*_: object, **__: object) -> None:
        calls.died(info.id)
        raise WorkerDiedError("dead")

    monkeypatch.setattr(calls, "tell", dies_first)
    with pytest.raises(WorkerDiedError):
        alone.ask("B", "hello")


def test_a_chain_that_is_cancelled_before_its_turn_is_no_error(
    alone: System, caplog: pytest.LogCaptureFixture
) -> None:
    first: Future[int] = future_of(alone)
    chained = first.then(lambda done: done.result())
    assert chained.cancel()
    ran = first.then(lambda _: "after it")
    first.finish(cargo=Cargo())
    with caplog.at_level(logging.ERROR):
        assert until(alone, ran.done)
    assert chained.cancelled()
    assert not caplog.records


@pytest.mark.parametrize("steps", range(6))
def test_a_cancel_that_comes_with_the_answer_is_not_lost(
    alone: System, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a deadline around the await does nothing, and later code may wait for ever (G6)."""
    monkeypatch.setattr(alone._port, "call_in", lambda: False)  # the await only waits to be woken
    future: Future[Any] = future_of(alone)
    went_on: list[bool] = []

    async def waits() -> None:
        with contextlib.suppress(ProtocolError):  # the answer is empty
            await future
        went_on.append(True)

    async def main() -> None:
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        future.finish(cargo=Cargo())
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = task.cancel()
        await asyncio.wait([task])
        assert cancelled == task.cancelled() == (not went_on)

    asyncio.run(main())


def test_a_callback_of_a_cancel_may_cancel_when_the_system_has_ended(alone: System) -> None:
    future: Future[int] = future_of(alone)
    seen: list[bool] = []
    future.add_done_callback(lambda done: seen.extend((done.done(), done.cancel())))
    alone.endpoint.close("the test ends it")
    thread = threading.Thread(target=future.cancel, daemon=True)
    thread.start()
    thread.join(30)
    assert until(alone, lambda: seen == [True, True])  # in another thread


def test_a_reply_to_who_cancelled_is_given_back_and_never_taken(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise code that asks the future meanwhile would release the descriptors a second time."""
    future: Future[int] = future_of(alone)
    future.cancel()
    there: list[object] = []
    given_back: list[object] = []

    class Deciding(contextlib.AbstractContextManager[None]):
        def __exit__(self, *_: object) -> None:
            there.append(future._cargo)

    future._deciding = Deciding()  # type: ignore[assignment]  # it looks, and nobody else is here
    monkeypatch.setattr(alone.endpoint.core.discards, "message", given_back.append)
    cargo = Cargo(descriptors=("a reference",))  # type: ignore[arg-type]  # wrong on purpose
    future.finish(cargo=cargo)
    assert there == [None]
    assert given_back == [cargo.descriptors]
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()


def test_a_chain_ends_with_the_system_though_every_thread_is_busy(alone: System) -> None:
    size = alone.endpoint.core.pool.size
    started, release = threading.Semaphore(0), threading.Event()

    def occupy() -> None:
        started.release()
        release.wait(60)

    try:
        for _ in range(size):
            alone.endpoint.core.pool.submit(occupy)
        for _ in range(size):
            assert started.acquire(timeout=30)
        future: Future[int] = future_of(alone)
        chained = future.then(lambda _: "the end of the chain")
        future.finish(cargo=Cargo())
        assert not chained.done()
        alone.shutdown(timeout=0)
        assert chained.result() == "the end of the chain"
    finally:
        release.set()


def test_a_question_to_the_registrar_ends_with_the_system(alone: System) -> None:
    answer: list[BaseException] = []

    def ask() -> None:
        try:
            alone.endpoint.registrar_client.ask(Unanswerable, 60)
        except SystemDownError as error:
            answer.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert until(alone, lambda: alone.endpoint.registrar_client._asked)
    alone.shutdown()
    thread.join(30)
    assert len(answer) == 1
    ask()  # and one that comes too late
    assert len(answer) == 2


class Unanswerable:
    def __init__(self, token: int) -> None:
        self.token = token


class Late(RefActor):
    """Has handlers that take longer than its system lives."""

    async def _nothing(self) -> None:
        pass

    def receiveMsg_tuple(self, message: tuple[threading.Event, ...], sender: object) -> Any:
        started, release = message
        started.set()
        release.wait(30)
        return self._nothing()


def test_a_handler_that_outlives_its_system_ends_quietly(
    alone: System, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = alone.create(Late, "late")
    started, release = threading.Event(), threading.Event()
    kept[:] = [(started, release), (started, release)]
    for number in range(2):
        alone.tell(actor, Kept(number))
    assert until(alone, started.is_set)
    thread = next(each for each in threading.enumerate() if each.name == "farref loop late")
    with caplog.at_level(logging.ERROR):
        alone.shutdown()
        release.set()
        thread.join(30)
    assert not thread.is_alive()
    assert not caplog.records


kept: list[Any] = []


class Kept:
    """Arrives as the object kept in this process under its number: events cannot be pickled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return take, (self.number,)


def take(number: int) -> Any:
    return kept[number]


def test_an_actors_finalizers_are_quiet_when_its_system_has_ended(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = alone._asys._systemBase.actorRegistry
    endpoint = registry[str(alone.create(Late).addressDetails)].instance._mailbox.endpoint
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(alone._asys, "_systemBase", None)
        endpoint.core.wake()  # as the last handle of a reference does


def test_a_thread_that_waits_when_the_system_ends_just_waits_on(alone: System) -> None:
    seen: list[object] = []

    def wait() -> None:
        try:
            seen.append(alone._port.run_until(ended.is_set, 60))  # type: ignore[union-attr]  # this system has a port
        except BaseException as error:
            seen.append(error)

    ended = threading.Event()
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    alone.shutdown()
    time.sleep(0.1)  # it pumps, or tries to
    ended.set()
    thread.join(30)
    assert seen == [True]


def test_a_thread_that_listens_waits_though_another_takes_what_came(alone: System) -> None:
    got: list[int] = []
    threads = [threading.Thread(target=lambda: got.append(alone.listen(30))) for _ in range(2)]
    for each in threads:
        each.start()
    for number in range(2):  # the first message wakes both
        alone._port.inbox.put(number)
        assert until(alone, lambda: len(got) > number)  # noqa: B023 - in this round only
    for each in threads:
        each.join(30)
    assert got == [0, 1]


def test_a_call_that_starts_while_it_is_cancelled_is_not_remembered(alone: System) -> None:
    endpoint, server = alone.endpoint, alone.endpoint.server
    call = CallId(endpoint.core.me, 1000)
    payload = Payload(pickle.dumps((list, (), {})), tag="list")
    request = Call(call=call, cargo=Cargo(payload=payload), chain=())
    starts, begun = threading.Thread(target=server._run, args=(request, None)), threading.Event()

    class Meanwhile(set[CallId]):
        def __contains__(self, what: object) -> bool:
            found = super().__contains__(what)
            if starts.ident is None:
                starts.start()
                assert begun.wait(30)  # not its end: the reply needs the lock
            return found

        def remove(self, what: CallId) -> None:
            super().remove(what)
            begun.set()

    server.unstarted = Meanwhile([call])
    with endpoint.core.lock:
        server._stop(Stop(endpoint.core.me, call), [])
    starts.join(30)
    assert not server.unstarted


def test_a_program_is_in_its_system_while_it_enters_it_again(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    class Watched(list[Any]):
        def __setitem__(self, *what: Any) -> None:
            super().__setitem__(*what)
            lengths.append(len(self))

        def remove(self, what: Any) -> None:
            super().remove(what)
            lengths.append(len(self))

    monkeypatch.setattr(current, "_programs", Watched(current._programs))
    alone.__enter__()
    assert lengths == [1]
    assert current.frame().core is alone.endpoint.core


def mailbox_of(system: System, address: ActorAddress) -> Any:
    """The mailbox of an actor in this process."""
    return system._asys._systemBase.actorRegistry[str(address.addressDetails)].instance._mailbox


def loop_runs(of: Any) -> bool:
    name = f"farref loop {of.endpoint.core.me}"
    return any(thread.name == name for thread in threading.enumerate())


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
    alone.shutdown()
    endpoint.deaths.died([b])
    assert b not in endpoint.core.peers.addresses
    caplog.clear()
    post(held)
    assert not caplog.records


def test_an_async_function_that_comes_after_the_loop_has_ended_is_dropped(alone: System) -> None:
    b = mailbox_of(alone, farref.get_worker_info("B").address)
    assert farref.rpc_async("B", answer).result() == 1
    assert loop_runs(b)
    b.close()
    assert until(alone, lambda: not loop_runs(b))
    ended: list[str] = []

    async def late() -> None:
        ended.append("it ran")

    request = Call(call=CallId(alone.endpoint.core.me, 1), cargo=Cargo(), chain=())
    coroutine = late()
    b.endpoint.server._await(request, CoroutineCell(coroutine), ())
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    assert not ended


gone_on = threading.Event()
"""Until this is set, the loop of B, in this process, is held up."""
made: list[Any] = []


class HoldsUp(RefActor):
    """Holds up its own loop, and all coroutines that await there."""

    def receiveMsg_str(self, _message: str, _sender: Any) -> None:
        made.append("held up")
        gone_on.wait(30)


async def answer() -> int:
    return 1


def late() -> Any:
    """Keeps the coroutine, so that the test sees its fate."""
    made.append(coroutine := answer())
    return coroutine


def test_what_was_to_be_awaited_when_the_loop_ended_is_closed(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python complains about a coroutine that was never started, wherever the collector runs."""
    monkeypatch.setattr(mailbox, "LAST_HANDLERS", 0.05)
    gone_on.clear()
    made.clear()
    actor = alone.create(HoldsUp)
    try:
        alone.tell(actor, "hold")
        assert until(alone, lambda: made == ["held up"])
        calls = [farref.rpc_async(actor, late), farref.remote(actor, late, frozen=True).future()]
        assert until(alone, lambda: len(made) == 3)
        stopped = mailbox_of(alone, actor)._loop
        alone.tell(actor, ActorExitRequest())
        assert until(alone, lambda: stopped._loop is None)
    finally:
        gone_on.set()
    for call in calls:
        with pytest.raises((WorkerDiedError, OwnerDiedError)):
            call.result(10)
    states = {inspect.CORO_CLOSED}
    assert until(alone, lambda: set(map(inspect.getcoroutinestate, made[1:])) == states)


def test_a_system_that_ends_while_it_is_looked_up_is_said_to_have_ended(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "names", lambda: ["somebody-elses"])
    with pytest.raises(SystemDownError, match="just ended"):
        directory.find("somebody-elses")


def test_a_forked_child_may_collect_a_function_of_its_parents_that_waits(alone: System) -> None:
    """The collector in an actor's process throws `GeneratorExit` into it. The actor lives on."""

    def waiting() -> Generator[None, None, None]:
        with current.running_in(alone.endpoint.core):
            yield

    suspended = waiting()
    next(suspended)
    pid = os.fork()
    if pid == 0:
        suspended.close()
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    suspended.close()


def test_a_forked_child_may_collect_a_handler_of_its_parents_that_waits(alone: System) -> None:
    """The same for a handler of an actor, on the in-process base."""

    async def handler() -> None:
        await asyncio.Future()

    actor = alone.create(HoldsUp)
    assert farref.rpc_sync(actor, os.getpid) == os.getpid()
    handlers = mailbox_of(alone, actor)._handlers
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        suspended = handlers._finish(CoroutineCell(handler()), 1, alone.endpoint.core.address, ())
        suspended.send(None)
        pid = os.fork()
        if pid == 0:
            suspended.close()
            os._exit(17)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
        suspended.throw(asyncio.CancelledError)
    except StopIteration:
        pass
    finally:
        asyncio.set_event_loop(None)
        loop.close()

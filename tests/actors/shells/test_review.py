"""What a review with fresh eyes found, each with the test that failed before its mend."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from thespian.actors import Actor, ActorExitRequest

import farref
from farref import RefActor, RRef, System

from ...stopping import stop
from ..helpers import hold, until

if TYPE_CHECKING:
    from pathlib import Path

    from thespian.actors import ActorAddress

pytestmark = pytest.mark.processes

BASES = ["farrefBase", "multiprocTCPBase"]


def fail(ref: Any) -> None:
    raise ValueError("on purpose")


def swallow(ref: Any) -> None:
    with contextlib.suppress(ValueError):
        farref.rpc_sync("B", fail, (ref,))


@pytest.mark.parametrize("base", BASES)
def test_a_stopped_peer_holds_up_nobody_else(base: str) -> None:
    with System(base) as system:
        stopped = farref.rpc_sync(system.worker("B"), os.getpid)
        system.worker("C")
        stop(stopped)
        try:
            future = farref.rpc_async("B", len, (bytes(20_000_000),), timeout=1)
            time.sleep(1.5)  # past the first retransmission
            assert farref.rpc_sync("C", abs, (-1,)) == 1
            with pytest.raises(farref.FetchTimeoutError):
                future.result()
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert farref.rpc_sync("B", abs, (-2,)) == 2


class Counter(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.count += 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.count)


@pytest.mark.parametrize("base", BASES)
def test_what_a_program_sent_before_it_left_arrives(base: str) -> None:
    name = f"leaving-{base}"
    with System(base, name=name) as system:
        counter = system.create(Counter, "counter")
        for _ in range(3):
            visitor = System.attach(name)
            for number in range(20):
                visitor.tell("counter", number)
            visitor.shutdown()
        assert until(system, lambda: system.ask(counter, "count") == 60)


def test_many_threads_ask_at_once() -> None:
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(50):
                assert system.ask("counter", "count", timeout=20) == 0
        except BaseException as error:
            errors.append(error)

    with System() as system:
        system.create(Counter, "counter")
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not errors


def test_an_exception_pins_nothing_of_the_caller() -> None:
    with System() as system:
        system.worker("B")
        gc.collect()
        gc.disable()
        try:
            swallow(RRef([1]))
            assert until(system, lambda: not farref.references())
        finally:
            gc.enable()


def test_a_result_that_is_there_can_be_awaited_after_the_deadline() -> None:
    async def late(future: Any) -> Any:
        return await future

    with System() as system:
        system.worker("B")
        future = farref.rpc_async("B", abs, (-3,))
        assert future.result() == 3
        future._deadline = time.monotonic() - 1
        assert asyncio.run(late(future)) == 3


class LastWords(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.handled = 0
        self.heir: Any = None

    def receiveMsg_float(self, message: float, sender: ActorAddress) -> None:
        time.sleep(message)
        self.handled += 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.heir = message

    async def receiveMsg_ActorExitRequest(self, message: Any, sender: ActorAddress) -> None:
        await asyncio.sleep(0.01)
        with open(self.heir, "w", encoding="utf-8") as file:  # noqa: ASYNC230 - the last act
            file.write(str(self.handled))


def test_an_actor_finishes_its_queue_before_it_exits(tmp_path: Any) -> None:
    path = tmp_path / "will"
    with System() as system:
        actor = system.create(LastWords, "actor")
        system.tell(actor, str(path))
        for _ in range(5):
            system.tell(actor, 0.5)
        system.tell(actor, ActorExitRequest())
        assert until(system, lambda: path.exists() and path.read_text())
        assert path.read_text() == "5"
        assert until(system, lambda: "actor" not in [i.name for i in system.workers()])


def test_a_reference_in_a_forked_child_is_refused_at_once() -> None:
    with System() as system:
        system.worker("B")
        ref = farref.remote("B", list, ((1,),))
        assert ref.to_here() == [1]
        child = os.fork()
        if child == 0:
            try:
                ref.to_here(timeout=30)
            except farref.SystemDownError:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert ref.to_here() == [1]


def test_busy_functions_hold_up_no_copy_and_no_free(gate: Path) -> None:
    freed: list[int] = []
    with System() as system:
        system.worker("B", threads=1)
        ready = farref.remote("B", list, ((1,),))
        ready.to_here()
        busy = farref.rpc_async("B", hold, (gate,))
        assert farref.wait([ready])[0] == [ready]
        assert ready.to_here() == [1]
        assert not busy.done()
        mine = RRef([1], on_delete=lambda _: freed.append(1))
        del mine
        assert until(system, lambda: freed)


def test_callbacks_chain() -> None:
    with System() as system:
        system.worker("B")
        chained = farref.rpc_async("B", abs, (-1,)).then(lambda f: f.result() + 1)
        assert chained.then(lambda f: f.result() * 10).wait() == 20
    with System("simpleSystemBase") as system:
        system.worker("B")
        assert farref.rpc_async("B", abs, (-1,)).then(lambda f: f.result() + 1).result() == 2


def thread_owns() -> Any:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(RRef("from a thread")))
    thread.start()
    thread.join()
    return made[0].local_value()


def test_threads_of_a_function_belong_to_its_worker() -> None:
    with System() as system:
        system.worker("B")
        assert farref.rpc_sync("B", thread_owns) == "from a thread"


def leave(code: int) -> None:
    raise SystemExit(code)


def test_a_remote_exit_ends_not_the_caller() -> None:
    with System() as system:
        system.worker("B")
        with pytest.raises(farref.RemoteError, match="SystemExit"):
            farref.rpc_sync("B", leave, (3,))


def test_the_innermost_system_is_the_one_that_was_entered_last() -> None:
    first, second = System(), System()
    with second, first:
        first.worker("only in the first")
        assert farref.rpc_sync("only in the first", abs, (-1,)) == 1


def test_an_ask_of_one_who_dies_ends_at_once() -> None:
    with System() as system:
        actor = system.create(LastWords, "sleeper")
        pid = farref.rpc_sync(actor, os.getpid)
        system.tell(actor, 30.0)
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(farref.WorkerDiedError):
            system.ask(actor, object, timeout=30)


def test_the_timeout_of_a_creation_is_that_of_its_waits(gate: Path) -> None:
    with System() as system:
        system.worker("B")
        ref = farref.remote("B", hold, (gate, 1), timeout=0.2)
        with pytest.raises(farref.FetchTimeoutError, match=r"0\.2 s"):
            ref.to_here()
        gate.touch()
        assert ref.to_here(timeout=20) == 1
        with pytest.raises(ValueError, match="more than 0"):
            farref.remote("B", abs, (2,), timeout=0)


def test_a_system_on_a_base_object() -> None:
    from farref.actors.base import system_base

    with System(system_base()) as system:
        system.worker("B")
        assert farref.rpc_sync("B", abs, (-1,)) == 1
        with pytest.raises(farref.SystemDownError, match="base object"):
            System.attach(system.name)


def test_an_exit_request_on_the_heels_of_creation_comes_last(tmp_path: Any) -> None:
    paths = [tmp_path / str(number) for number in range(20)]
    with System() as system:
        for path in paths:
            actor = system.create(LastWords)
            system.tell(actor, str(path))
            system.tell(actor, 0.0)
            system.tell(actor, ActorExitRequest())
        assert until(system, lambda: all(p.exists() and p.read_text() == "1" for p in paths))


class Undertaker(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.letters: list[str] = []

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "register":
            self.handleDeadLetters()
        self.send(sender, list(self.letters))

    def receiveMsg_DeadEnvelope(self, message: Any, sender: ActorAddress) -> None:
        self.letters.append(message.deadMessage)


class Plain(Actor):
    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        self.send(sender, os.getpid())


@pytest.mark.parametrize("base", BASES)
def test_thespians_other_methods_work_in_handlers(base: str) -> None:
    with System(base) as system:
        undertaker = system.create(Undertaker)
        assert system.ask(undertaker, "register") == []
        plain = system._asys.createActor(Plain)
        pid = system.ask(plain, "who")
        system.tell(plain, ActorExitRequest())
        assert until(system, lambda: not psutil.pid_exists(pid))
        system.tell(plain, "too late")
        assert until(system, lambda: system.ask(undertaker, "letters") == ["too late"])

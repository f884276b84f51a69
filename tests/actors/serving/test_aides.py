"""Jobs between two messages, and the things that a job may do: fork, call on, take long."""

from __future__ import annotations

import contextvars
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, System, WouldBlockError, features
from farref.actors.base.leadership import Leadership
from farref.actors.core import brief
from farref.actors.core.brief import Brief
from farref.actors.core.current import frame
from farref.actors.core.pool import Pool
from farref.testing import until

from ...waiting import eventually
from ..helpers import hold

PATIENCE = 30.0
A_WHILE = 0.05


def same(value: object) -> object:
    return value


def fork() -> int:
    """Fork as badly written code does: the child goes on after the return. Returns its pid."""
    return os.fork()


def reap(pid: int) -> None:
    """Wait for the child's end. Python itself may crash in a child of a threaded parent."""
    os.waitpid(pid, 0)


@pytest.fixture
def brief_system() -> Iterator[System]:
    """A system with a worker that has a helper for brief jobs."""
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        for _ in range(20):
            farref.rpc_sync("B", same, args=(1,))
        yield system


@pytest.mark.processes
def test_a_forked_child_takes_nothing_from_its_parent(brief_system: System) -> None:
    for _ in range(2):
        child = farref.rpc_sync("B", fork)
        assert child > 0
        assert [farref.rpc_sync("B", same, args=(n,)) for n in range(50)] == list(range(50))
        farref.rpc_sync("B", reap, args=(child,))


def raise_in_a_child() -> int:
    """The exit code of a child that left this function by an exception."""
    child = os.fork()
    if child == 0:
        raise SystemExit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.processes
def test_a_forked_child_ends_where_it_comes_back(brief_system: System) -> None:
    """Its parent waits for it, and so cannot bring anything to the loop that both would run."""
    for _ in range(4):
        assert farref.rpc_sync("B", raise_in_a_child) == 7
        assert farref.remote("B", raise_in_a_child).to_here() == 7


COLOUR = contextvars.ContextVar("COLOUR", default="none")


def call_while_it_receives(receives: Callable[[], bool]) -> int | None:
    """Call B; a finalizer calls in the midst of the answer, too. None if another thread got it."""
    core: Any = frame().core
    delivery, me = core.outlet, threading.get_ident()
    same_line = farref.rpc_sync("B", same, args=(1,))
    if not receives():
        return None

    class Last:
        def __del__(self) -> None:
            try:
                farref.rpc_sync("B", same, args=(2,))
            except WouldBlockError as error:
                refused.append(str(error))

    lasts, refused = [Last()], list[str]()

    def take(*of: Any) -> None:
        if threading.get_ident() == me:
            lasts.clear()
        type(delivery).take_raw(delivery, *of)

    delivery.take_raw = take
    try:
        called = farref.rpc_sync("B", same, args=(same_line + 2,))
    finally:
        del delivery.take_raw
    return called if refused else None


def call_from_the_aide() -> int | None:
    return call_while_it_receives(lambda: threading.current_thread().name == "farref helper")


@pytest.mark.processes
def test_a_finalizer_that_calls_in_a_thread_that_receives_is_refused(brief_system: System) -> None:
    """It would never get an answer. It takes none from the call that it interrupts, either."""
    brief_system.worker("C")
    found = [farref.rpc_sync("C", call_from_the_aide) for _ in range(20)]
    assert set(found) - {None} == {3}
    found = [call_while_it_receives(lambda: True) for _ in range(20)]
    assert set(found) - {None} == {3}


@pytest.mark.processes
@pytest.mark.parametrize("step", ["of the lead", "of the protocol"])
def test_a_finalizer_that_calls_in_the_midst_of_a_step_is_refused(
    brief_system: System, gate: Path, step: str
) -> None:
    """The thread that receives its answer would need the lock that this thread has."""
    brief_system.worker("C")
    port: Any = brief_system._port
    lead: Leadership = port._loop.leadership
    lock: Any = lead._lock if step == "of the lead" else brief_system.endpoint.core.lock
    waiter = threading.Thread(target=farref.rpc_sync, args=("B", hold, (gate, 1)))
    waiter.start()
    assert until(brief_system, lambda: lead.leader == waiter.ident)
    try:
        with lock, pytest.raises(WouldBlockError, match="a finalizer for example"):
            farref.rpc_sync("C", hold, args=(gate,), timeout=5)
    finally:
        gate.touch()
        waiter.join()
    assert farref.rpc_sync("C", same, args=(1,)) == 1


def waits_for_calls(to: str, times: int) -> tuple[str, float]:
    """The calling thread's name, and how often a thread of its process waits for each call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    for _ in range(times):
        farref.rpc_sync(to, same, args=(1,))
    waits = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
    return threading.current_thread().name, waits / times


@pytest.mark.processes
def test_a_function_in_the_pool_receives_the_replies_to_its_calls(brief_system: System) -> None:
    """It waits once for each. Another thread would wait once more, and this one for that."""
    brief_system.worker("C")
    waits: list[float] = []

    def waits_once() -> bool:  # while others use the cores, threads wait for these, too
        found = [farref.rpc_sync("B", waits_for_calls, args=("C", 200)) for _ in range(15)]
        waits.extend(each for name, each in found if name == "farref B")
        return min(waits, default=2.0) < 1.8

    assert until(brief_system, waits_once), waits
    assert len(waits) > 5, "it is not brief"


def call_while_it_begins_to_wait() -> tuple[str, list[object]]:
    """Call B; a finalizer calls, too, in the moment before this thread receives.

    If this thread need not receive, since the answer is there already, the finalizer does not run.
    """
    me, enter, found = threading.get_ident(), Leadership.enter, list[object]()
    with pytest.MonkeyPatch.context() as patched:

        def entering(led: Leadership, **how: Any) -> bool:
            """Where Python's collector may run, too."""
            if threading.get_ident() == me:
                patched.undo()
                found.append(farref.rpc_sync("B", same, args=(1,)))
            return enter(led, **how)

        patched.setattr(Leadership, "enter", entering)
        found.append(farref.rpc_sync("B", same, args=(2,)))
    return threading.current_thread().name, found


def no_function_is_brief() -> None:
    """At the worker, from now on."""
    brief.BRIEF = -1.0


@pytest.mark.processes
def test_a_finalizer_that_calls_in_a_thread_that_begins_to_wait(brief_system: System) -> None:
    """Both have their answers, and the wait that is noted is the outer one."""
    brief_system.worker("C")
    found = [farref.rpc_sync("C", call_while_it_begins_to_wait) for _ in range(20)]
    farref.rpc_sync("C", no_function_is_brief)
    found += [farref.rpc_sync("C", call_while_it_begins_to_wait) for _ in range(20)]
    met = [(name, answers) for name, answers in found if answers != [2]]
    assert len(met) > 5
    assert all(answers == [1, 2] for _, answers in met)
    assert {"farref helper", "farref C"} <= {name for name, _ in met}


def call_in_turns(to: Sequence[str], numbers: range) -> list[object]:
    """Call each of *to* with some of *numbers*; a thread of the function's own does, too."""
    found: list[object] = []

    def call() -> None:
        found.extend(farref.rpc_sync(each, same, args=(n,)) for n in numbers for each in to)

    beside = threading.Thread(target=call)
    beside.start()
    call()
    beside.join(PATIENCE)
    return found


@pytest.mark.processes
def test_functions_that_call_each_others_processes_at_once(brief_system: System) -> None:
    """Each of them may receive, and gives way to the others and to the brief calls that come."""
    names = ["B", "C", "D"]
    for name in names[1:]:
        brief_system.worker(name)
    futures = [
        farref.rpc_async(name, call_in_turns, args=(names, range(n, n + 60)))
        for n in range(4)
        for name in names
    ]
    while not all(each.done() for each in futures):
        assert [farref.rpc_sync(name, same, args=(name,)) for name in names] == names
    for number, future in enumerate(futures):
        first = number // len(names)
        expected = [n for n in range(first, first + 60) for _ in range(2 * len(names))]
        assert sorted(future.result()) == expected


def paint() -> None:
    COLOUR.set("red")


class Painted(RefActor):
    """Answers with the colour that its handlers see, and its identity."""

    def receiveMsg_str(self, _: str, sender: ActorAddress) -> None:
        self.send(sender, (COLOUR.get(), farref.get_worker_info()))


@pytest.mark.processes
def test_handlers_do_not_see_the_context_of_functions() -> None:
    with System("farrefBase", timeout=PATIENCE) as system:
        actor = system.create(Painted)
        _, who = system.ask(actor, "who")
        for _ in range(20):
            farref.rpc_sync(who, paint)
            assert system.ask(actor, "look") == ("none", who)


PROGRAM = """
import signal, sys, time
import farref
from farref import System

def end(*_):
    assert farref.rpc_sync("B", len, args=("four",)) == 4
    system.shutdown(timeout=0)
    print("ended", flush=True)
    sys.exit(3)

if __name__ == "__main__":
    with System("farrefBase", timeout=60) as system:
        system.worker("B")
        signal.signal(signal.SIGTERM, end)
        future = farref.rpc_async("B", time.sleep, args=(60,))
        print("waits", flush=True)
        future.result()
"""


@pytest.mark.processes
@pytest.mark.parametrize("without", ["", "epoll"])
def test_a_signal_handler_calls_while_its_thread_waits(without: str) -> None:
    """That thread runs the loop, but not while the handler runs: another thread has to."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, features.SWITCH: without or os.environ.get(features.SWITCH, "")},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waits\n"
        time.sleep(10 * A_WHILE)  # until it waits
        program.send_signal(signal.SIGTERM)
        try:
            out, _ = program.communicate(timeout=PATIENCE)
        finally:
            program.kill()
    assert (out, program.returncode) == ("ended\n", 3)


INTERRUPTED = """
import random, signal, time
from threading import Thread
import farref
from farref import System

class Interrupt(BaseException):
    pass

def interrupt(*_):
    if armed:
        armed.clear()
        raise Interrupt

if __name__ == "__main__":
    armed, interrupts, usual = [], 0, 1e-3
    signal.signal(signal.SIGALRM, interrupt)
    with System("farrefBase", timeout=30) as system:
        system.worker("B")
        farref.rpc_sync("B", len, args=("",))
        for turn in range(1500):
            futures = [farref.rpc_async("B", pow, args=(turn, n)) for n in range(3)]
            try:
                armed.append(True)
                begin = time.perf_counter()
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + random.random() * 2 * usual)
                for future in futures:
                    future.result()
                armed.clear()
                usual = min(0.9 * usual + 0.1 * (time.perf_counter() - begin), 1e-2)
            except Interrupt:
                interrupts += 1
            armed.clear()
            for number, future in enumerate(futures):
                try:
                    assert future.result(timeout=30) == turn**number
                except Interrupt:
                    pass  # it hit the very reply that was being unpickled
        said = []  # and no lock is left taken that another thread needs
        other = Thread(target=lambda: said.append(farref.rpc_sync("B", len, args=("four",))))
        other.start()
        other.join(30)
        assert said == [4], said
    assert interrupts > 50, interrupts
    assert signal.getsignal(signal.SIGALRM) is interrupt
    print("all came")
"""


@pytest.mark.long
@pytest.mark.processes
def test_an_exception_of_a_signal_handler_loses_no_reply() -> None:
    """At any moment."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERRUPTED],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "all came\n", done.stderr[-2000:]


class Slow(Pool):
    """A pool that takes a job some time after it was told to."""

    def __init__(self) -> None:
        super().__init__(1, "slow")
        self.reached, self.go_on = threading.Event(), threading.Event()

    def submit(self, job: Callable[..., object], *args: Any) -> bool:
        self.reached.set()
        assert self.go_on.wait(PATIENCE)
        return super().submit(job, *args)


def test_what_comes_while_others_are_given_jobs_begins_after_them() -> None:
    brief, pool = Brief(), Slow()
    began: list[int] = []
    later: list[Callable[[], None]] = []
    brief.looks = lambda: True
    brief.submit(pool, "kind", began.append, 1, later=later)
    dispersing = threading.Thread(target=brief.disperse)
    dispersing.start()
    assert pool.reached.wait(PATIENCE)
    brief.looks = lambda: False
    second = threading.Thread(
        target=brief.submit, args=(pool, "kind", began.append, 2), kwargs={"later": later}
    )
    second.start()
    second.join(A_WHILE)
    pool.go_on.set()
    dispersing.join(PATIENCE)
    second.join(PATIENCE)
    for start in later:
        start()
    eventually(lambda: began == [1, 2])
    pool.close()


def test_a_job_of_a_helper_that_is_late_is_not_left_to_it() -> None:
    """Another thread began to run the loop while the job was offered; the helper may sleep."""
    brief, pool = Brief(), Pool(1, "others")
    done = threading.Event()
    looks = [True, False]
    brief.looks = lambda: looks.pop(0)
    brief.submit(pool, "kind", done.set, later=[])
    assert done.wait(PATIENCE)
    assert not brief.offered
    pool.close()

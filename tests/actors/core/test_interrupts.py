"""A signal handler may raise at any moment: each count that remains has a handle.

Python runs signal handlers in the main thread, between any two of its steps. A step that is ended
half way would leave a reference counted without a handle to drop, and its object would live for
ever. So a call in the main thread holds signal handlers up. That takes system calls, so these are
counted too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed lacks it
import concurrent.futures
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import farref
from farref import RefActor, RRef, System, rpc
from farref.testing import assert_nothing_held

from ..helpers import PATIENCE, until
from ..scripts import started
from .interrupting import Interrupt, Interrupting

DUTIES_UNCHECKED = "it counts functions"

FILES = (
    *("/api.py", "/calls.py", "/core.py", "/current.py", "/delivery.py", "/discards.py"),
    *("/endpoint.py", "/futures.py", "/interrupts.py", "/mail.py", "/objects.py", "/packing.py"),
    *("/pickling.py", "/proxies.py", "/rref.py", "/system.py"),
)


class Thing:
    """A value."""

    def ref(self) -> RRef[Thing]:
        return RRef(Thing())


def give() -> RRef[Thing]:
    return RRef(Thing())


def pair() -> list[RRef[Any]]:
    return [RRef(Thing()), RRef(Thing(), frozen=True)]


class Echo(RefActor):
    """Sends each reference back; it accepts lists and texts in silence."""

    def receiveMsg_RRef(self, message: RRef[Any], sender: object) -> None:
        self.send(sender, message)

    def receiveMsg_list(self, message: list[Any], sender: object) -> None: ...

    def receiveMsg_str(self, message: str, sender: object) -> None: ...


def make_one() -> None:
    RRef(Thing())


def create() -> None:
    farref.remote("B", Thing)


def create_by_a_method() -> None:
    farref.remote("B", Thing).remote().ref()


def lend() -> None:
    farref.rpc_sync("B", len, args=([RRef(Thing()), RRef(Thing())],))


def take_results() -> None:
    assert len(farref.rpc_sync("B", pair)) == 2


def drop_results() -> None:
    farref.rpc_async("B", pair)


def fetch() -> None:
    farref.remote("B", pair).to_here()


def call_a_method() -> None:
    farref.remote("B", Thing).rpc_sync().ref()


def stand_for() -> None:
    farref.remote("B", give).to_here()


def tell() -> None:
    system.tell("echo", [RRef(Thing())])


def ask() -> None:
    assert isinstance(system.ask("echo", RRef(Thing())), RRef)


WAYS: dict[Callable[[], None], int] = {
    make_one: 1,
    create: 1,
    create_by_a_method: 1,
    lend: 2,
    tell: 2,
    drop_results: 1,
    take_results: 5,
    fetch: 7,
    call_a_method: 7,
    ask: 7,
    stand_for: 17,
}
"""The operations. One of so many places is tried: where others answer, each try takes time."""
FEWER = pytest.mark.parametrize("fewer", [3, pytest.param(1, marks=pytest.mark.deep)])
"""Of the places one of so many is tried."""
system: System


@pytest.fixture(scope="module")
def alone() -> Iterator[System]:
    """All endpoints are in this process, and the main thread runs them all."""
    global system
    with System("simpleSystemBase", timeout=PATIENCE) as system:
        system.worker("B")
        system.create(Echo, "echo")
        yield system


@pytest.fixture
def finalizers_may_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest's own hook keeps exceptions of finalizers, and with their frames the handles."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


@FEWER
@pytest.mark.usefixtures("finalizers_may_raise")
@pytest.mark.parametrize("way", WAYS)
def test_no_interrupt_loses_a_count(alone: System, way: Callable[[], None], fewer: int) -> None:
    step = 1 if way is make_one else WAYS[way] * fewer
    places = sum(1 for _ in Interrupting(*FILES).at_every_place(way, step))
    assert places * step > 20
    assert_nothing_held(alone)


def test_a_question_that_nobody_waits_for_is_forgotten(alone: System) -> None:
    """An interrupt may come after it has left, and before anybody waits for its answer.

    Its own timeout ends it.
    """
    before = farref.counters().in_flight
    asked = alone.ask_async("echo", "question", 0.05)
    assert farref.counters().in_flight == before + 1
    assert until(alone, lambda: farref.counters().in_flight == before)
    assert isinstance(asked.exception(), farref.FetchTimeoutError)


@pytest.mark.processes
@pytest.mark.usefixtures("finalizers_may_raise")
def test_no_interrupt_keeps_the_lock_of_a_future_or_loses_its_reply() -> None:
    """The thread that receives the answers would wait for that lock, for ever."""
    made: list[farref.Future[int]] = []

    def called() -> farref.Future[int]:
        made.append(farref.rpc_async("B", make, (1,)))
        return made[-1]

    def ask_all() -> set[int]:
        found = set()
        while made:
            # Or the interrupt has hit the very reply that was being unpickled.
            with contextlib.suppress(concurrent.futures.CancelledError, Interrupt):
                found.add(made.pop().result(PATIENCE))
        return found

    ways: tuple[Callable[[], object], ...] = (
        lambda: called().cancel(),
        lambda: called().result(),
        lambda: farref.wait([farref.remote("B", make, (1,))]),
    )
    files = "/futures.py", "/_base.py", "/threading.py", "/interrupts.py", "/ports.py"
    with ThreadPoolExecutor(1) as other, System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        for way in ways:
            place = 0
            for place in Interrupting(*files).at_every_place(way):
                assert other.submit(ask_all).result(2 * PATIENCE) <= {1}, place
                assert farref.rpc_sync("B", make, (2,)) == 2, place
            assert place > 10


def call(*_: object) -> None:
    """A signal handler that waits."""
    time.sleep(0.02)  # the answer to the interrupted code comes first
    with contextlib.suppress(farref.WouldBlockError):
        assert farref.rpc_sync("B", make, (2,), timeout=PATIENCE) == 2


@FEWER
@pytest.mark.processes
def test_a_handler_waits_for_an_answer_at_any_place(fewer: int) -> None:
    """What its thread holds then, the thread that receives the answers does not need."""

    def called() -> farref.Future[int]:
        return farref.rpc_async("B", make, (1,))

    def cancel() -> None:
        future = called()
        future.add_done_callback(bool)
        future.remove_done_callback(bool)
        future.add_done_callback(bool)
        future.cancel()

    def set_one() -> None:
        future: farref.Future[int] = farref.Future()
        then = future.then(bool)
        future.set_result(1)
        then.result()

    files = "/futures.py", "/_base.py", "/pool.py", "/placing.py", "/outbox.py", "/rpc/calls.py"
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        ways: tuple[Callable[[], object], ...] = (
            *(cancel, set_one),
            lambda: farref.wait([farref.remote(None, make, (1,))]),
            lambda: rpc.wait_all([called(), called()]),
            lambda: concurrent.futures.wait([called(), called()]),
            system.workers,
        )
        for way in ways:
            interrupting = Interrupting(*files, handler=call)
            places = sum(1 for _ in interrupting.at_every_place(way, fewer))
            assert places * fewer > 10, way


PROGRAM = """
import os, random, signal, threading, time
import farref
from farref import RRef, System
from farref.testing import assert_nothing_held

class Thing:
    def ref(self):
        return RRef(Thing())

def pair():
    return [RRef(Thing()), RRef(Thing())]

def turn(futures):
    ref = RRef(Thing())
    farref.rpc_async("B", len, args=([ref, RRef(Thing())],))
    made = farref.remote("B", Thing)
    results = farref.rpc_async("B", pair)
    farref.rpc_sync("B", isinstance, args=(ref, RRef))
    made.rpc_sync().ref()
    made.to_here()
    results.result()
    for future in futures:
        future.result()

def interrupt(*_):
    if armed:
        armed.clear()
        raise KeyboardInterrupt

def send():
    while not over:
        time.sleep(random.random() * 2 * usual)
        if armed:
            os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    armed, over, interrupts, usual = [], [], 0, 1e-3
    signal.signal(signal.SIGINT, interrupt)
    with System("farrefBase", timeout=30) as system:
        system.worker("B")
        turn([])
        thread = threading.Thread(target=send)
        thread.start()
        end = time.monotonic() + 60
        while interrupts < 2000 and time.monotonic() < end:
            futures = [farref.rpc_async("B", pow, args=(interrupts, n)) for n in range(3)]
            try:
                begin = time.perf_counter()
                armed.append(True)
                turn(futures)
                armed.clear()
                usual = min(0.9 * usual + 0.1 * (time.perf_counter() - begin), 1e-2)
                expected = interrupts
            except KeyboardInterrupt:
                expected, interrupts = interrupts, interrupts + 1
            armed.clear()
            for number, future in enumerate(futures):
                try:
                    assert future.result(timeout=30) == expected**number
                except KeyboardInterrupt:
                    pass  # it hit the very reply that was being unpickled
        over.append(True)
        thread.join()
        said = []  # no lock is left taken that another thread needs
        other = threading.Thread(target=lambda: said.append(farref.rpc_sync("B", len, ("four",))))
        other.start()
        other.join(30)
        assert said == [4], said
        del futures, future
        assert_nothing_held(system)
    assert signal.getsignal(signal.SIGINT) is interrupt
    print("interrupts", interrupts)
"""


@pytest.mark.long
@pytest.mark.processes
def test_thousands_of_interrupts_leave_nothing_and_lose_no_reply(tmp_path: Path) -> None:
    with started(tmp_path, PROGRAM) as program:
        out, said = program.communicate(timeout=150)
    word, number = out.split() or ("", 0)
    assert (word, int(number) > 200) == ("interrupts", True), (out, said[-2000:])


def make(number: int) -> int:
    return number


def handlers_set(work: Callable[[], object]) -> float:
    """How often *work* sets signal handlers, for each handler that the program has."""
    count = 0

    def called(_frame: object, event: str, function: object) -> None:
        nonlocal count
        count += event == "c_call" and function is _signal.signal

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count / sum(callable(_signal.getsignal(number)) for number in signal.valid_signals())


@pytest.mark.processes
def test_a_call_takes_one_section_and_the_turn_of_its_wait() -> None:
    with System(timeout=30) as system:
        system.create(Echo, "B")
        made, kept = farref.remote("B", make, (1,)), RRef(1)
        works: tuple[tuple[Callable[[], object], int], ...] = (
            (lambda: farref.rpc_sync("B", make, (1,)), 4),
            (lambda: farref.rpc_sync("B", repr, (kept,)), 4),
            (made.to_here, 4),
            (lambda: system.tell("B", "x"), 2),
        )
        for work, most in works:
            assert 0 < min(handlers_set(work) for _ in range(5)) <= most

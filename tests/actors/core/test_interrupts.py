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
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RefActor, RRef, System, rpc
from farref.actors.base.interrupts import HELD
from farref.actors.values import packing
from farref.actors.wire.messages import ReplyAddress
from farref.testing import assert_nothing_held

from ..helpers import PATIENCE, until
from .interrupting import Interrupting, is_free

if TYPE_CHECKING:
    from collections.abc import Callable

DUTIES_UNCHECKED = "it counts functions"

FILES = (
    "/api.py",
    "/calls.py",
    "/core.py",
    "/current.py",
    "/delivery.py",
    "/discards.py",
    "/endpoint.py",
    "/futures.py",
    "/interrupts.py",
    "/mail.py",
    "/objects.py",
    "/packing.py",
    "/pickling.py",
    "/proxies.py",
    "/rref.py",
    "/system.py",
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
    """Sends each message back."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(sender, ReplyAddress):
            self.send(sender, message)


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
    system.tell("echo", RRef(Thing()))


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
system: System


@pytest.fixture(scope="module")
def alone() -> Iterator[System]:
    """All endpoints are in this process, and the main thread runs them all."""
    global system
    with System("simpleSystemBase", timeout=PATIENCE) as system:
        system.worker("B")
        system.create(Echo, "echo")
        yield system


def uncounted(system: System) -> str:
    """The references that the program's endpoint counts without handles; empty if there is none."""
    endpoint, context = system.endpoint, system.endpoint.core.context
    with endpoint.core.lock:
        entries: list[Any] = [*context.owners.values(), *context.users.values()]
        handles: dict[Any, int] = {}
        for hold in endpoint.core.discards.holds:
            if hold.rref is not None:
                rref = context.whereabouts(hold.rref)
                handles[rref] = handles.get(rref, 0) + 1
        return "; ".join(
            f"{entry.rref}: {entry.handles} counted, {handles.get(entry.rref, 0)} handles"
            for entry in entries
            if entry.handles != handles.get(entry.rref, 0)
        )


@pytest.mark.parametrize("way", WAYS)
def test_no_interrupt_loses_a_count(
    alone: System, way: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's own hook keeps exceptions of finalizers, and with their frames the handles.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    places = 0
    for place in Interrupting(*FILES).at_every_place(way, WAYS[way]):
        places = place
        assert not uncounted(alone), f"interrupted at place {place}"
    assert places > 20
    assert_nothing_held(alone)


def test_a_question_that_nobody_waits_for_is_forgotten(alone: System) -> None:
    """An interrupt may come after it has left, and before anybody waits for its answer.

    Its own timeout ends it.
    """
    calls, echo = alone.endpoint.calls, alone.endpoint.registrar_client.find("echo")
    before = calls.in_flight
    calls.ask(echo, "question", 0.05)
    assert calls.in_flight == before + 1
    assert until(alone, lambda: calls.in_flight == before)


@pytest.mark.processes
def test_no_interrupt_keeps_the_lock_of_a_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that receives the answers would wait for that lock, for ever."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # as above
    locks: list[Any] = []

    def cancel() -> None:
        called = farref.rpc_async("B", make, (1,))
        locks.append(called._deciding)
        called.cancel()

    def wait() -> None:
        called = farref.rpc_async("B", make, (1,))
        locks.append(called._deciding)
        called.result()

    def wait_for_some() -> None:
        farref.wait([farref.remote("B", make, (1,))])

    files = "/futures.py", "/_base.py", "/threading.py", "/interrupts.py", "/ports.py"
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        for way in (cancel, wait, wait_for_some):
            place = 0
            for place in Interrupting(*files).at_every_place(way):
                assert all(map(is_free, locks)), (way, place)
                locks.clear()
                assert farref.rpc_sync("B", make, (2,)) == 2, (way, place)
            assert place > 10, way


def call(*_: object) -> None:
    """A signal handler that waits."""
    time.sleep(0.02)  # the answer to the interrupted code comes first
    with contextlib.suppress(farref.WouldBlockError):
        assert farref.rpc_sync("B", make, (2,), timeout=PATIENCE) == 2


@pytest.mark.processes
def test_a_handler_waits_for_an_answer_at_any_place() -> None:
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
            places = sum(1 for _ in Interrupting(*files, handler=call).at_every_place(way))
            assert places > 10, way


@pytest.mark.processes
def test_a_handler_waits_while_a_function_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that receives the answers tidies what is kept of functions now and then."""
    monkeypatch.setattr(packing, "TIDY_SECONDS", 0.0)  # at each of its turns

    def way() -> None:
        used = [1]
        assert farref.rpc_sync("B", lambda: len(used) + PATIENCE) == 1 + PATIENCE

    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        pickled = Interrupting("/library.py", "/spaces.py", handler=call).at_every_place(way, 5)
        assert sum(1 for _ in itertools.islice(pickled, 60)) > 20


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

def turn():
    ref = RRef(Thing())
    farref.rpc_async("B", len, args=([ref, RRef(Thing())],))
    made = farref.remote("B", Thing)
    results = farref.rpc_async("B", pair)
    farref.rpc_sync("B", isinstance, args=(ref, RRef))
    made.rpc_sync().ref()
    made.to_here()
    results.result()

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
        turn()
        thread = threading.Thread(target=send)
        thread.start()
        end = time.monotonic() + 60
        while interrupts < 2000 and time.monotonic() < end:
            try:
                begin = time.perf_counter()
                armed.append(True)
                turn()
                armed.clear()
                usual = min(0.9 * usual + 0.1 * (time.perf_counter() - begin), 1e-2)
            except KeyboardInterrupt:
                interrupts += 1
            armed.clear()
        over.append(True)
        thread.join()
        assert_nothing_held(system)
    print("interrupts", interrupts)
"""


@pytest.mark.long
@pytest.mark.processes
def test_thousands_of_interrupts_leave_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=150,
    )
    word, number = done.stdout.split() or ("", 0)
    assert (word, int(number) > 200) == ("interrupts", True), (done.stdout, done.stderr[-2000:])


class Silent(RefActor):
    def receiveMsg_str(self, message: str, sender: object) -> None:
        """Accept it."""


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
    return count / sum(callable(_signal.getsignal(number)) for number in HELD)


@pytest.mark.processes
def test_a_call_takes_one_section_and_the_turn_of_its_wait() -> None:
    with System(timeout=30) as system:
        system.create(Silent, "B")
        made, kept = farref.remote("B", make, (1,)), RRef(1)
        works: tuple[tuple[Callable[[], object], int], ...] = (
            (lambda: farref.rpc_sync("B", make, (1,)), 4),
            (lambda: farref.rpc_sync("B", repr, (kept,)), 4),
            (made.to_here, 4),
            (lambda: system.tell("B", "x"), 2),
        )
        for work, most in works:
            assert 0 < min(handlers_set(work) for _ in range(5)) <= most

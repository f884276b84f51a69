"""Senders that flood a slower receiver wait, by bytes and by descriptors: measured on processes.

The limits are small here, set in the way of docs/limits.md: assigned before the actors are forked.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import farref
from farref import OverloadedError, RefActor, RRef, System

from ...bases import PROCESSES
from ...waiting import eventually
from ..helpers import PATIENCE, hold, idle, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thespian.actors import ActorAddress

pytestmark = pytest.mark.processes

MB = 1 << 20
LIMIT = 4 * MB
"""What waits at the sender at most, and at the receiver; beside that there is half of it on the way
and a message more at each end."""
FLOOD = 100 * MB
MEMORY = FLOOD // 2
"""What a process may take meanwhile: half of the bytes sent."""
DESCRIPTORS = 70
SMALL, LARGE = 100_000, 400_000
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE])


SMALL_LIMITS: dict[str, object] = {
    "protocol.credit.CREDIT_BYTES": LIMIT // 2,
    "actors.calls.calls.MAX_BACKLOG_BYTES": LIMIT,
    "actors.core.port.MAX_INBOX_BYTES": LIMIT,
    "actors.core.delivery.MAX_WAITING_BYTES": LIMIT,
    "serialization.shared.MOST_PASSING": 16,
    "serialization.shared.MOST_UNREAD": 8,
}
SetLimits = Callable[[dict[str, object]], None]


@pytest.fixture(params=["farrefBase"])
def system(limits: SetLimits, request: pytest.FixtureRequest) -> Iterator[System]:
    limits(SMALL_LIMITS)
    with System(request.param, timeout=PATIENCE) as system:
        yield system


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def memory(pid: int) -> int:
    """Bytes of a process: its own pages, and the segments that it has open or mapped.

    Not its share of the pages that others have, too: this grows when one of the others dies.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = sum(
        int(kb) << 10 for kb in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE)
    )
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "memfd:" in os.readlink(each):
                found += each.stat().st_size
    return found


class Gauge:
    """The most memory and descriptors that some processes have taken since it began."""

    def __init__(self, *pids: int) -> None:
        self._before = {pid: (memory(pid), descriptors(pid)) for pid in pids}
        self.memory = 0
        self.descriptors = 0

    def look(self) -> None:
        for pid, (size, count) in self._before.items():
            self.memory = max(self.memory, memory(pid) - size)
            self.descriptors = max(self.descriptors, descriptors(pid) - count)

    def check(self) -> None:
        self.look()
        assert self.memory < MEMORY
        assert self.descriptors < DESCRIPTORS


class Flood:
    """One action, repeated in a thread until it has to wait, and then to the end."""

    def __init__(self, act: Callable[[int], Any], count: int) -> None:
        self._act = act
        self._count = count
        self.done = 0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            for number in range(self._count):
                self._act(number)
                self.done += 1
        except BaseException as error:
            self.error = error

    def stops(self, watch: Gauge) -> None:
        """Check that it waits now."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < 0.5:
            watch.look()
            if self.done != last:
                last, since = self.done, time.monotonic()
            time.sleep(0.01)
        assert self.thread.is_alive(), "it never had to wait"
        assert self.error is None

    def ended(self) -> BaseException | None:
        """The error that ended it; None if it came to its end."""
        self.thread.join(PATIENCE)
        return self.error

    def ends(self, system: System) -> None:
        assert until(system, lambda: not self.thread.is_alive())
        assert self.error is None
        assert self.done == self._count


done: list[int] = []
"""The numbers of the calls and messages of this process that were handled, in order."""


def take(gate: Path, number: int, load: bytes) -> int:
    """Note *number* once the gate is open."""
    hold(gate)
    done.append(number)
    return number


def take_all() -> list[int]:
    return done


class Slow(RefActor):
    """Its handlers do the same."""

    def receiveMsg_tuple(self, message: tuple[Path, int, bytes], sender: ActorAddress) -> None:
        take(*message)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        made: dict[str, Callable[[], object]] = {
            "numbers": take_all,
            "pid": os.getpid,
            "sender": lambda: RRef(Sender(self)),
        }
        self.send(sender, made[message]())


class Sender:
    """Sends as an actor, from a thread that may wait."""

    def __init__(self, actor: RefActor) -> None:
        self.actor = actor

    def flood(self, to: ActorAddress, gate: Path, count: int, size: int) -> int:
        for number in range(count):
            self.actor.send(to, (gate, number, bytes(size)))
        return count


class Object:
    """Its methods do the same."""

    take = staticmethod(take)


def call_often(worker: str, count: int) -> int:
    return sum(farref.rpc_sync(worker, pow, (1, 1)) for _ in range(count))


@pytest.mark.parametrize("system", PROCESSES, indirect=True)
@SIZES
def test_messages_to_an_actor(system: System, gate: Path, size: int) -> None:
    info, count = system.create(Slow), FLOOD // size
    watch = Gauge(os.getpid(), system.ask(info, "pid"))
    flood = Flood(lambda number: system.tell(info, (gate, number, bytes(size))), count)
    flood.stops(watch)
    watch.check()
    gate.touch()
    flood.ends(system)
    assert until(system, lambda: system.ask(info, "numbers") == list(range(count)))
    watch.check()


ASKS: dict[str, Callable[[RRef[Object], Any], Any]] = {
    "call": lambda _, args: farref.rpc_async("B", take, args),
    "creation": lambda _, args: farref.remote("B", take, args),
    "method": lambda ref, args: ref.rpc_async().take(*args),
}
"""Requests that wait for the one thread of B, or for their turn on an object there."""


@pytest.mark.parametrize(
    ("system", "ask"),
    [
        *(pytest.param(*each.values, "call", marks=each.marks) for each in PROCESSES),
        *(("farrefBase", each) for each in ASKS if each != "call"),
    ],
    indirect=["system"],
)
@SIZES
def test_requests_that_wait(system: System, gate: Path, ask: str, size: int) -> None:
    by_turns = ask == "method"
    system.worker("B", threads=16 if by_turns else 1)
    count, asked = FLOOD // size, list[Any]()
    watch = Gauge(os.getpid(), farref.rpc_sync("B", os.getpid))
    ref = farref.remote("B", Object)
    farref.wait([ref])
    flood = Flood(lambda each: asked.append(ASKS[ask](ref, (gate, each, bytes(size)))), count)
    flood.stops(watch)
    if by_turns:  # others are served
        system.worker("C")
        assert farref.rpc_sync("C", call_often, ("B", 3000)) == 3000
    watch.check()
    gate.touch()
    flood.ends(system)
    found = [each.to_here() if isinstance(each, RRef) else each.result() for each in asked]
    assert found == list(range(count))
    assert farref.rpc_sync("B", take_all) == found
    watch.check()


@SIZES
def test_results_that_nobody_has_fetched(system: System, limits: SetLimits, size: int) -> None:
    """They are the program's. But they keep no descriptors, and the program's next call waits."""
    limits({"actors.calls.calls.MAX_UNFETCHED_BYTES": FLOOD // 2})
    system.worker("B")
    count, futures = FLOOD // size, []
    pid = farref.rpc_sync("B", os.getpid)
    at_callee, here = Gauge(pid), Gauge(os.getpid())

    def call(number: int) -> None:
        futures.append(farref.rpc_async("B", bytes, (size,)))
        if number % 20 == 19:
            futures[-1].exception()  # it no longer counts

    flood = Flood(call, count)
    flood.stops(here)
    at_callee.check()
    assert here.descriptors < DESCRIPTORS
    assert here.memory < FLOOD * 3 // 4
    assert all(len(future.result()) == size for future in futures)
    flood.ends(system)
    assert all(len(future.result()) == size for future in futures)


@pytest.mark.long
def test_a_caller_that_is_slower_than_the_callee(system: System) -> None:
    """The callee waits before it makes more results than the caller has taken."""
    system.worker("B")
    pid = farref.rpc_sync("B", os.getpid)
    watch = Gauge(pid)
    futures = [farref.rpc_async("B", bytes, (SMALL,)) for _ in range(FLOOD // SMALL)]
    for number, future in enumerate(futures):
        if number % 10 == 0:
            watch.look()
        assert len(future.result()) == SMALL
    watch.check()


def fetch_and_stop(value: RRef[bytes], count: int) -> int:
    """Stop this process when the fetches have left, before it takes their answers."""
    futures = [value.future() for _ in range(count)]
    os.kill(os.getpid(), signal.SIGSTOP)
    return sum(len(future.result()) for future in futures)


def test_a_process_that_fetches_and_takes_no_answers(system: System) -> None:
    """Small values are copied at once, but only while their receiver is not behind."""
    system.worker("B")
    system.worker("C")
    value = farref.remote("B", bytes, (30_000,))
    process = psutil.Process(farref.rpc_sync("C", os.getpid))
    watch = Gauge(farref.rpc_sync("B", os.getpid))
    fetched = farref.rpc_async("C", fetch_and_stop, (value, 1000))
    eventually(lambda: process.status() == psutil.STATUS_STOPPED)
    assert farref.rpc_sync("B", call_often, ("B", 1000)) == 1000
    watch.look()
    process.resume()
    assert fetched.result() == 1000 * 30_000
    assert watch.memory < 4 * LIMIT


class Flooder(RefActor):
    """Sends the asker as many messages as it is told to, from one handler, and then says so."""

    def receiveMsg_tuple(self, message: tuple[int, int], sender: ActorAddress) -> None:
        count, size = message
        self.sent, self.why = 0, ""
        try:
            for number in range(count):
                self.send(sender, (number, bytes(size)))
                self.sent += 1
        except OverloadedError as error:
            self.why = str(error)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, (self.sent, self.why))


@SIZES
def test_replies_pass_what_a_program_does_not_listen_for(system: System, size: int) -> None:
    info, count = system.create(Flooder), FLOOD // size
    watch = Gauge(os.getpid())
    system.tell(info, (count, size))
    for _ in range(20):
        assert farref.rpc_sync(info, len, (bytes(size),)) == size
        assert len(farref.rpc_sync(info, bytes, (size,))) == size
        assert system.ask(info, "how many?") == (count, "")
        watch.check()
    assert [system.listen()[0] for _ in range(count)] == list(range(count))


def test_a_handler_that_sends_too_much(limits: SetLimits) -> None:
    """It may not wait, so it gets an error."""
    limits(SMALL_LIMITS | {"actors.calls.calls.MAX_UNSENT_BYTES": 2 * LIMIT})
    with System("farrefBase", timeout=PATIENCE) as system:
        actor = system.create(Flooder)
        system.tell(actor, (FLOOD // SMALL, SMALL))
        idle(system, 0.5)
        sent, why = system.ask(actor, "how many?")
        assert [system.listen()[0] for _ in range(sent)] == list(range(sent))
    assert 2 * LIMIT < sent * SMALL < 4 * LIMIT  # the program has taken some of it
    assert "from handlers of Flooder" in why
    assert "bytes of mail" in why


def test_a_thread_that_waits_for_too_long_is_told(limits: SetLimits, gate: Path) -> None:
    """It gets an error after the system's timeout, and its message does not go ahead."""
    limits(SMALL_LIMITS)
    with System("farrefBase", timeout=5) as system:
        system.worker("B", threads=1)
        futures = []

        def call_on() -> None:
            for number in range(FLOOD // SMALL):
                args = gate, number, bytes(SMALL)
                futures.append(farref.rpc_async("B", take, args, timeout=PATIENCE))

        with pytest.raises(OverloadedError, match="bytes of requests have waited for B for 5 s"):
            call_on()
        gate.touch()
        assert [future.result() for future in futures] == list(range(len(futures)))


@SIZES
def test_two_that_flood_each_other_both_finish(system: System, gate: Path, size: int) -> None:
    """Methods at each of them send to the other's handlers. Calls and answers get through."""
    count, actors = FLOOD // size // 2, [system.create(Slow), system.create(Slow)]
    watch = Gauge(*(system.ask(each, "pid") for each in actors))
    senders = [system.ask(each, "sender") for each in actors]
    ends = [
        sender.rpc_async().flood(to, gate, count, size)
        for sender, to in zip(senders, reversed(actors), strict=True)
    ]
    assert not until(system, lambda: any(end.done() for end in ends), 1.0)
    watch.check()
    assert [farref.rpc_sync(each, pow, (2, 3)) for each in actors] == [8, 8]
    gate.touch()
    assert [end.result() for end in ends] == [count, count]
    for each in actors:
        assert until(system, lambda: system.ask(each, "numbers") == list(range(count)))  # noqa: B023 - asked in this turn only
    watch.check()


class Caller:
    """A method that waits for a remote function, which calls back to the worker of the object."""

    def call_back(self, gate: Path) -> int:
        hold(gate)
        size: int = farref.rpc_sync("A", call_back, (SMALL,))
        return size

    def take(self, load: bytes) -> int:
        return len(load)


def call_back(size: int) -> int:
    called: int = farref.rpc_sync("B", len, (bytes(size),))
    return called


def flood_object(ref: RRef[Any], count: int) -> list[int]:
    futures = [ref.rpc_async().take(bytes(SMALL)) for _ in range(count)]
    return [future.result() for future in futures]


def test_what_has_taken_the_room_may_wait_for_who_needs_it(system: System, gate: Path) -> None:
    """A's calls fill B. They wait for a method of the object, which waits for a call of A's."""
    system.worker("A")
    system.worker("B")
    ref = farref.remote("B", Caller)
    running = ref.rpc_async().call_back(gate)
    flood = farref.rpc_async("A", flood_object, (ref, 150))
    assert not until(system, flood.done, 1.0)
    gate.touch()
    assert running.result() == SMALL
    assert flood.result() == [SMALL] * 150

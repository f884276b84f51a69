"""Cancelling calls: what reaches the function, what `cancel()` says, and what is left after it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

import farref
from farref import FetchTimeoutError, Future, RRef, System
from farref.actors.serving.cancels import Cancels
from farref.testing import until

from ...bases import PROCESSES
from ...stopping import stopped
from ...waiting import PATIENCE, eventually
from ..helpers import assert_nothing_held, hold

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The file in which the functions note what they do."""
    notes = tmp_path / "notes"
    notes.touch()
    return notes


def note(notes: Path, what: str) -> None:
    with notes.open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


def noted(notes: Path) -> list[str]:
    return notes.read_text("utf-8").splitlines()


def noted_soon(system: System, notes: Path, *what: str) -> bool:
    return until(system, lambda: sorted(noted(notes)) == sorted(what))


async def relay(notes: Path, *to: str) -> None:
    """Await the same function at the first of *to*; the last one sleeps."""
    me = farref.get_worker_info().name
    if not to:
        note(notes, f"{me} sleeps")
    try:
        await (farref.rpc_async(to[0], relay, (notes, *to[1:])) if to else asyncio.sleep(1000))
    except asyncio.CancelledError:
        note(notes, f"{me} is cancelled")
        raise
    finally:
        note(notes, f"{me} cleans up")


def plain(notes: Path, gate: Path, name: str = "plain", *_: object) -> str:
    note(notes, f"{name} begins")
    hold(gate)
    note(notes, f"{name} ends")
    return name


def turns(notes: Path) -> str:
    note(notes, "begins")
    while True:
        time.sleep(0.001)


# ---- each way to cancel


async def by_task(future: Future[Any], begun: Callable[[], bool]) -> None:
    """As a web framework does if its client is gone."""
    task = asyncio.ensure_future(future)
    await asyncio.sleep(0)  # a task that is cancelled before it starts awaits nothing
    while not begun():  # noqa: ASYNC110 - another process makes it true
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_gather(future: Future[Any], begun: Callable[[], bool]) -> None:
    await by_task(asyncio.gather(future, asyncio.sleep(1000)), begun)  # type: ignore[arg-type]  # it can be awaited, too


async def by_wrapping(future: Future[Any], begun: Callable[[], bool]) -> None:
    await by_task(asyncio.wrap_future(future), begun)  # type: ignore[arg-type]  # as above


def by_cancel(system: System, notes: Path, future: Future[Any]) -> None:
    assert until(system, lambda: bool(noted(notes)))
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(CancelledError):
        future.result()


AWAITED = (by_task, by_gather, by_wrapping)


@pytest.mark.parametrize("way", ["cancel()", *AWAITED])
def test_a_cancel_reaches_all_coroutines(system: System, notes: Path, way: Any) -> None:
    future = farref.rpc_async("B", relay, (notes, "C", "B", "C"))
    if way == "cancel()":
        by_cancel(system, notes, future)
    else:
        asyncio.run(way(future, lambda: bool(noted(notes))))
    each = [f"{name} {what}" for name in "BCBC" for what in ("is cancelled", "cleans up")]
    assert noted_soon(system, notes, "C sleeps", *each)


def test_a_timeout_of_the_call_cancels_nothing(system: System, notes: Path, gate: Path) -> None:
    """It takes effect all the same (G3)."""
    future = farref.rpc_async("B", waits_in_turns, (notes, gate), timeout=0.1)
    with pytest.raises(FetchTimeoutError):
        future.result()
    gate.touch()
    assert noted_soon(system, notes, "begins", "ends")


INTERRUPTED = """
    import asyncio, signal, sys, threading, time
    from pathlib import Path
    import farref
    from farref import System
    from tests.actors.serving.test_cancels import noted, relay
    from tests.waiting import eventually

    def main(notes, way, base):
        with System(base) as system:
            system.worker("B")
            system.worker("C")

            async def awaits():
                await farref.rpc_async("B", relay, (notes, "C"))

            print("ready", flush=True)
            try:
                if way == "rpc_sync":
                    farref.rpc_sync("B", relay, (notes, "C"))
                else:
                    asyncio.run(awaits())
            except KeyboardInterrupt:
                eventually(lambda: len(noted(notes)) == 5)
                print("went on", farref.rpc_sync("B", abs, (-3,)))

    if __name__ == "__main__":
        main(Path(sys.argv[1]), *sys.argv[2:])
"""


@pytest.mark.processes
@pytest.mark.parametrize("way", ["rpc_sync", "await"])
@pytest.mark.parametrize("base", PROCESSES)
def test_ctrl_c_reaches_all_coroutines(tmp_path: Path, notes: Path, way: str, base: str) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(textwrap.dedent(INTERRUPTED), "utf-8")
    program = subprocess.Popen(
        [sys.executable, script, notes, way, base],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        eventually(lambda: noted(notes) == ["C sleeps"], "it has not begun")
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=2 * PATIENCE)
    finally:
        program.kill()
    assert out == "ready\nwent on 3\n"
    each = [f"{name} {what}" for name in "BC" for what in ("is cancelled", "cleans up")]
    assert sorted(noted(notes)) == sorted(["C sleeps", *each])


# ---- what cancel() says


class Thing:
    """An object with a method of each kind."""

    def plain(self, notes: Path, gate: Path, name: str = "plain") -> str:
        return plain(notes, gate, name)

    async def awaits(self, notes: Path) -> None:
        await relay(notes)

    def turns(self, notes: Path) -> None:
        turns(notes)

    def number(self) -> int:
        return 3


def make_at(to: str) -> RRef[Thing]:
    return farref.remote(to, Thing)


@pytest.mark.parametrize("alias", [False, True])
def test_the_turn_is_free_at_once(system: System, notes: Path, gate: Path, alias: bool) -> None:
    """Also if the call was passed on by the owner of an alias."""
    thing = farref.remote("B", make_at, ("C",)) if alias else farref.remote("B", Thing)
    awaits = thing.rpc_async().awaits(notes)
    assert until(system, lambda: len(noted(notes)) == 1)
    assert awaits.cancel()
    assert [each.partition(" ")[2] for each in noted(notes)] == [
        *("sleeps", "is cancelled", "cleans up")
    ]
    assert thing.rpc_sync().number() == 3
    turning = thing.rpc_async().turns(notes)
    assert until(system, lambda: len(noted(notes)) == 4)
    queued = thing.rpc_async().plain(notes, gate)
    assert queued.cancel(), "it waits for its turn"
    assert not turning.cancel()
    assert turning.cancel(interrupt=True)
    assert thing.rpc_sync().number() == 3
    busy = thing.rpc_async().plain(notes, gate, "busy")
    assert until(system, lambda: len(noted(notes)) == 5)
    assert not busy.cancel()
    gate.touch()
    assert busy.result() == "busy"
    assert noted(notes)[3:] == ["begins", "busy begins", "busy ends"]


async def handles(notes: Path) -> str:
    note(notes, "begins")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(1000)
    return "handled"


def handles_it_too(notes: Path) -> str:
    with contextlib.suppress(asyncio.CancelledError):
        turns(notes)
    return "handled"


@pytest.mark.parametrize("function", [handles, handles_it_too])
def test_a_function_that_handles_it_is_not_cancelled(
    system: System, notes: Path, function: Callable[[Path], Any]
) -> None:
    future = farref.rpc_async("B", function, (notes,))
    assert until(system, lambda: bool(noted(notes)))
    assert not future.cancel(interrupt=True)
    assert future.result() == "handled"


def test_cancel_in_a_coroutine_does_not_wait(system: System, notes: Path, gate: Path) -> None:
    """It says nothing that it does not know; a thread may ask the callee."""
    first, second = (farref.rpc_async("B", plain, (notes, gate, name)) for name in "ab")
    awaits = farref.rpc_async("C", relay, (notes,))
    assert until(system, lambda: len(noted(notes)) == 3)

    async def main() -> None:
        assert not first.cancel()
        awaits.cancel()  # True if its answer is faster
        with pytest.raises(CancelledError):
            await awaits
        assert awaits.cancelled()
        assert not first.done()
        if "simpleSystemBase" not in repr(system):  # whose actors have only the main thread
            assert not await asyncio.to_thread(second.cancel)

    asyncio.run(main())
    assert len(noted(notes)) == 5
    gate.touch()
    assert (first.result(), second.result()) == ("a", "b")


@pytest.mark.processes
def test_nor_for_a_process_that_does_not_answer(notes: Path) -> None:
    with System(timeout=10 * PATIENCE, silence=None) as system:
        system.worker("B")
        call, returned = farref.rpc_async("B", turns, (notes,)), threading.Event()

        async def cancels() -> None:
            assert not call.cancel()
            returned.set()

        with stopped(farref.rpc_sync("B", os.getpid)):
            thread = threading.Thread(target=asyncio.run, args=(cancels(),))
            thread.start()
            assert returned.wait(PATIENCE)
        thread.join()
        assert call.cancel(interrupt=True)


def cancels_at(to: str, notes: Path, gate: Path) -> tuple[bool, bool]:
    """At a worker, in a function."""
    busy, awaits = farref.rpc_async(to, plain, (notes, gate)), farref.rpc_async(to, relay, (notes,))
    while len(noted(notes)) < 2:
        time.sleep(0.01)
    return busy.cancel(), awaits.cancel()


@pytest.mark.processes
def test_a_function_cancels(process_system: System, notes: Path, gate: Path) -> None:
    for name in "BC":
        process_system.worker(name)
    assert farref.rpc_sync("B", cancels_at, ("C", notes, gate)) == (False, True)
    gate.touch()


@pytest.mark.processes
def test_a_cancel_of_what_does_not_answer(process_system: System, notes: Path, gate: Path) -> None:
    """The word does not come: `cancel` ends with the call's time, and an await at once."""
    process_system.worker("B")
    pid = farref.rpc_sync("B", os.getpid)
    call = partial(farref.rpc_async, "B", plain, (notes, gate))
    first = call()
    eventually(lambda: bool(noted(notes)), "it has not begun")
    with stopped(pid):
        second = call(timeout=0.5)
        assert not second.cancel()
        with pytest.raises(FetchTimeoutError):
            second.result()
        asyncio.run(by_task(first, lambda: True))
        assert first.cancelled()
    third = call()
    os.kill(pid, signal.SIGKILL)
    assert not third.cancel(), "it ends by the death"
    with pytest.raises(farref.WorkerDiedError):
        third.result()


# ---- interrupts


def runs_a_loop(notes: Path) -> None:
    async def ticks() -> None:
        note(notes, "begins")
        while True:  # noqa: ASYNC110 - it waits for nothing
            await asyncio.sleep(0.001)

    asyncio.run(ticks())


def waits_for_a_thread(notes: Path) -> None:
    note(notes, "begins")
    while True:
        threading.Event().wait(0.01)


def nested(notes: Path, to: str) -> None:
    try:
        farref.rpc_sync(to, turns, (notes,))
    finally:
        note(notes, "cleans up")


@pytest.mark.parametrize(
    ("function", "args"),
    [
        *((turns, ()), (runs_a_loop, ()), (waits_for_a_thread, ())),
        *((nested, ("C",)), (nested, ("B",))),
    ],
)
def test_an_interrupt_reaches_a_plain_function(
    system: System, notes: Path, function: Any, args: tuple[str, ...]
) -> None:
    """And one that it waits for."""
    future = farref.rpc_async("B", function, (notes, *args))
    assert until(system, lambda: bool(noted(notes)))
    assert not future.cancel()
    assert future.cancel(interrupt=True)
    assert noted_soon(system, notes, "begins", *(["cleans up"] if args else []))


WAITS: dict[str, Callable[[Any], object]] = {
    "to_here": lambda late: late.to_here(),
    "future of a reference": lambda late: late.future().result(),
    "local_value": lambda gate: farref.remote(here(), hold, (gate,)).local_value(),
    "get": lambda late: farref.get([late, late]),
    "wait for all": lambda late: farref.wait([late, RRef(1)], 2),
    "wait for any": lambda late: farref.wait([late, late]),
    "own future": lambda _: Future[int]().result(),
    "what follows a call": lambda _: (
        farref.rpc_async("C", turns, (Path(os.devnull),)).then(bool).result()
    ),
    "what follows an own future": lambda _: Future[int]().then(bool).result(),
    "rendezvous": lambda _: farref.rendezvous("run", min_nodes=2, max_nodes=2).next_rendezvous(),
}
"""What a function may wait for, beside a call. The argument is a late reference, or the gate."""


def here() -> str:
    return farref.get_worker_info().name


def waits(notes: Path, gate: Path, way: str, late: RRef[str]) -> None:
    try:
        note(notes, "begins")  # from here on the interrupt may come
        WAITS[way](gate if way == "local_value" else late)
    finally:
        note(notes, "cleans up")


@pytest.mark.parametrize("way", WAITS)
def test_an_interrupt_ends_each_wait_in_the_library(
    system: System, notes: Path, gate: Path, way: str
) -> None:
    """The others that wait for the same go on."""
    late = farref.remote("C", hold, (gate, "late"))
    others = [farref.rpc_async("B", RRef.to_here, (late,)) for _ in range(2)]
    future = farref.rpc_async("B", waits, (notes, gate, way, late))
    assert until(system, lambda: bool(noted(notes)))
    assert not future.cancel()
    assert future.cancel(interrupt=True)
    assert noted(notes) == ["begins", "cleans up"]
    gate.touch()
    assert [each.result() for each in others] == ["late", "late"]
    assert late.to_here() == "late"


def test_an_interrupt_ends_the_wait_for_an_actors_answer(system: System, notes: Path) -> None:
    """Only the program's own functions ask actors."""
    asking[:] = [system]
    future = farref.rpc_async(here(), asks, (notes, system.create(Silent)))
    assert until(system, lambda: bool(noted(notes)))
    assert future.cancel(interrupt=True)
    asking.clear()


def asks(notes: Path, silent: object) -> None:
    note(notes, "begins")
    asking[0].ask(silent, "well?")


asking: list[System] = []


class Silent(farref.RefActor):
    def receiveMsg_str(self, _: str, __: Any) -> None:
        pass


def brief(number: int, ref: RRef[int]) -> int:
    """Works in the library, in a callback of C code, and in its own frame."""
    for _ in range(number // 50):
        RRef(number)
    copies = sorted([RRef(number), ref], key=lambda each: each.id)
    return sum(range(number)) + len(copies)


@pytest.mark.processes
def test_an_interrupt_strikes_nothing_else(process_system: System) -> None:
    """Calls are interrupted at any point of theirs. The others in the same thread get no error."""
    process_system.worker("B", threads=1)
    mine = RRef(1)
    cancelled = 0
    for number in range(300):
        future = farref.rpc_async("B", brief, (50 * number, mine))
        time.sleep(number % 10 * 1e-4)
        if future.cancel(interrupt=True):
            cancelled += 1
        else:
            assert future.result() == sum(range(50 * number)) + 2
        assert farref.rpc_sync("B", brief, (10, mine)) == 47
    del mine
    assert_nothing_held(process_system)


class Finalized:
    def __del__(self) -> None:
        sum(map(abs, range(300)))
        [each for each in range(300)]  # noqa: C416 - bytecode, in which an interrupt comes up


def drops(notes: Path) -> None:
    note(notes, "begins")
    while True:
        Finalized()


@pytest.mark.processes
def test_an_interrupt_that_strikes_a_finalizer_comes_again(
    process_system: System, notes: Path
) -> None:
    """Python reports such an exception, and ignores it."""
    process_system.worker("B", threads=1)
    for number in range(1, 6):
        future = farref.rpc_async("B", drops, (notes,))
        assert noted_soon(process_system, notes, *["begins"] * number)
        assert future.cancel(interrupt=True)


def takes_a_line(fifo: Path) -> bytes:
    """After its last step, in C code, Python looks for no exception before it returns."""
    opened.append(fifo.open("rb"))
    (line,) = opened[0]
    return line


opened: list[BinaryIO] = []


def is_at(function: Callable[..., Any], line: int) -> bool:
    """Whether a thread runs this line of *function*, counted from its `def`."""
    at = function.__code__, function.__code__.co_firstlineno + line
    return any((each.f_code, each.f_lineno) == at for each in sys._current_frames().values())


def runs(function: Any) -> bool:
    """Whether a thread is in *function*, and in nothing that it calls."""
    return any(each.f_code is function.__code__ for each in sys._current_frames().values())


@pytest.mark.processes
def test_an_interrupt_that_comes_too_late_strikes_nothing_else(
    system: System, tmp_path: Path
) -> None:
    """The function returns before Python raises it."""
    fifo, cancels = tmp_path / "fifo", system.endpoint.server.cancels
    os.mkfifo(fifo)
    for _ in range(10):
        future = farref.rpc_async(here(), takes_a_line, (fifo,))
        with fifo.open("wb") as file:
            eventually(lambda: is_at(takes_a_line, 3), "not there")
            asyncio.run(cancel_soon(future))
            eventually(lambda: bool(cancels.struck) and not runs(Cancels._strike), "not struck")
            file.write(b"a line")
        if sys.version_info < (3, 12):  # Python raises it at the call
            with pytest.raises(CancelledError):
                future.result()
        else:
            assert future.result() == b"a line"
        opened.pop().close()
        assert not cancels.struck
        assert [farref.rpc_sync(here(), abs, (-3,)) for _ in range(3)] == [3, 3, 3]


async def cancel_soon(future: Future[Any]) -> None:
    """Without waiting for what becomes of it."""
    future.cancel(interrupt=True)


class Turning:
    async def spins(self, notes: Path, _: RRef[int]) -> None:
        note(notes, "spins")
        while True:  # noqa: ASYNC110 - it is cancelled
            await asyncio.sleep(0)

    def busy(self, notes: Path, gate: Path) -> None:
        note(notes, "busy")
        hold(gate)


@pytest.mark.processes
def test_a_cancel_that_comes_while_a_method_waits_for_its_turn_leaves_no_garbage(
    process_system: System, notes: Path, gate: Path
) -> None:
    """An error whose frame keeps it would hold the arguments until Python's collector runs."""
    process_system.worker("B")
    farref.rpc_sync("B", gc.disable)
    turning, mine = farref.remote("B", Turning), RRef(1)
    spins = turning.rpc_async().spins(notes, mine)
    assert noted_soon(process_system, notes, "spins")
    busy = turning.rpc_async().busy(notes, gate)
    assert noted_soon(process_system, notes, "spins", "busy")
    asyncio.run(cancel_soon(spins))
    time.sleep(0.2)  # the cancel is there, and the method has no turn to take it
    gate.touch()
    busy.result()
    with pytest.raises(CancelledError):
        spins.result()

    def held_at_b() -> bool:
        rows = process_system.references()
        return any((row.worker, row.rref) == ("B", str(mine.id)) for row in rows)

    assert until(process_system, lambda: not held_at_b(), 5)


# ---- calls that are between two states


async def sleeps() -> None:
    await asyncio.sleep(1000)


def returns_call() -> Future[None]:
    return farref.rpc_async("C", sleeps)


def returns_future() -> Future[int]:
    kept.append(Future())
    return kept[-1]


def takes(_: object) -> str:
    raise AssertionError("it runs")


kept: list[Future[int]] = []


@pytest.mark.parametrize(
    ("function", "args", "resolve"),
    [
        *((sleeps, (), False), (returns_call, (), False), (returns_future, (), False)),
        (takes, (1,), True),
    ],
)
def test_a_cancel_between_two_states_is_not_lost(
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    resolve: bool,
) -> None:
    """It comes when the function has returned, and nobody awaits the coroutine or future yet."""
    has_end, futures = Cancels.has_end, list[Future[Any]]()

    def cancelled_before(self: Cancels, *of: Any) -> bool:
        eventually(lambda: bool(futures))
        if not futures[0].cancelled():
            futures[0].give_up()
        return has_end(self, *of)

    me = farref.get_worker_info().name
    with monkeypatch.context() as patched:
        patched.setattr(Cancels, "has_end", cancelled_before)
        futures.append(farref.rpc_async(me, function, args, resolve=resolve))
        with pytest.raises(CancelledError):
            futures[0].result()
        server = system.endpoint.server
        assert until(system, lambda: not server.cancels.running)
    assert not server.cancels.revoked
    assert not server.cancels._ends
    assert until(system, lambda: not server.turns.begun)
    kept.clear()


class Slow:
    """It takes its time to be unpickled."""

    def __init__(self, notes: Path, gate: Path) -> None:
        self.made_by = opens, (notes, gate)

    def __reduce__(self) -> Any:
        return self.made_by


def opens(notes: Path, gate: Path) -> None:
    note(notes, "opens")
    hold(gate)


def test_a_call_that_is_unpickled_does_not_start(system: System, notes: Path, gate: Path) -> None:
    future = farref.rpc_async("B", plain, (notes, gate, "plain", Slow(notes, gate)))
    assert until(system, lambda: noted(notes) == ["opens"])
    future.give_up()
    farref.rpc_sync("B", abs, (-3,))  # the cancel is there when its answer comes
    gate.touch()
    assert until(system, lambda: farref.counters().in_flight == 0)
    assert noted(notes) == ["opens"]


# ---- futures that are returned, or shared


@pytest.mark.processes
def test_a_call_that_is_returned_is_cancelled_with_its_caller(system: System, notes: Path) -> None:
    future = farref.rpc_async("B", returns_relay, (notes,))
    assert until(system, lambda: noted(notes) == ["C sleeps"])
    assert future.cancel()
    assert noted_soon(system, notes, "C sleeps", "C is cancelled", "C cleans up")


def returns_relay(notes: Path) -> Future[None]:
    return farref.rpc_async("C", relay, (notes,))


class Cache:
    """Answers several callers by one call."""

    def __init__(self, notes: Path, gate: Path) -> None:
        self.call = farref.rpc_async("C", waits_in_turns, (notes, gate))

    def get(self) -> Future[str]:
        return self.call


async def waits_in_turns(notes: Path, gate: Path) -> str:
    note(notes, "begins")
    while not gate.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.01)
    note(notes, "ends")
    return "done"


def test_a_call_that_several_wait_for_is_not(system: System, notes: Path, gate: Path) -> None:
    cache = farref.remote("B", Cache, (notes, gate))
    first, second = cache.rpc_async().get(), cache.rpc_async().get()
    assert until(system, lambda: noted(notes) == ["begins"])
    assert first.cancel()
    gate.touch()
    assert second.result() == "done"


@pytest.mark.usefixtures("system")
def test_a_future_that_the_program_sets_is_not_cancelled_by_an_await() -> None:
    mine: Future[int] = Future()
    asyncio.run(by_task(mine, lambda: True))
    assert not mine.cancelled()
    mine.set_result(3)
    assert mine.result() == 3


# ---- references


def keeps(notes: Path, gate: Path, ref: RRef[Any], *, wait: bool) -> RRef[Any]:
    made = RRef(ref)  # in the answer there is a reference, and one inside of it
    note(notes, "begins")
    if wait:
        hold(gate)
    return made


async def keeps_async(notes: Path, gate: Path, ref: RRef[Any], *, wait: bool) -> RRef[Any]:
    made = keeps(notes, gate, ref, wait=False)
    if wait:
        await asyncio.sleep(1000)
    return made


@pytest.mark.parametrize("function", [keeps, keeps_async])
@pytest.mark.parametrize("wait", [True, False])
def test_no_reference_is_left(
    system: System, notes: Path, gate: Path, function: Callable[..., Any], wait: bool
) -> None:
    """In the arguments, and in an answer that nobody wants or that crosses the cancel."""
    for _ in range(5):
        future = farref.rpc_async("B", function, (notes, gate, RRef([1])), {"wait": wait})
        future.give_up()
    gate.touch()  # the fixture checks every table
    assert until(system, lambda: farref.counters().in_flight == 0)

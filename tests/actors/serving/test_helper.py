"""A helper thread runs brief functions between two messages; other functions hold nothing up."""

from __future__ import annotations

import concurrent.futures
import contextvars
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef, System, WouldBlockError, features

from ...marks import SHARED_MEMORY
from ...waiting import PATIENCE, eventually
from ..core.interrupting import Finalizing
from ..helpers import hold, until
from ..scripts import started

pytestmark = pytest.mark.processes
HELPER, POOL = "farref helper", "farref B"


@pytest.fixture
def ours() -> Iterator[System]:
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        system.worker("C")
        yield system


def same(value: object) -> object:
    return value


def thread_name() -> str:
    return threading.current_thread().name


def same_later(value: object) -> object:
    time.sleep(0.02)
    return value


def slow_thread_name() -> str:
    time.sleep(0.01)
    return thread_name()


def test_who_runs_a_function(ours: System) -> None:
    # On a busy machine other threads are sometimes faster than the helper.
    assert until(ours, lambda: farref.rpc_sync("B", thread_name) == HELPER)
    # The first run may be anywhere: its kind is not known to be slow before it replies.
    assert until(ours, lambda: farref.rpc_sync("B", slow_thread_name) == POOL)
    assert until(ours, lambda: farref.rpc_sync("B", thread_name) == HELPER)


def who_receives(to: str) -> tuple[str, str]:
    """The thread that calls *to*, and the one that receives the reply; none if it came before."""
    waits, found = threading.Event(), list[str]()
    future = farref.rpc_async(to, time.sleep, (0.002,))
    # Not the method of our own futures, which runs callbacks in the pool.
    concurrent.futures.Future.add_done_callback(
        future, lambda _: found.append(thread_name() if waits.is_set() else "")
    )
    waits.set()
    future.result()
    return thread_name(), found[0]


def test_the_thread_that_waits_receives_the_reply(ours: System) -> None:
    """So no other thread has to be woken. On a busy machine the reply may be faster."""
    me = thread_name()
    assert until(ours, lambda: who_receives("C") == (me, me))
    assert until(ours, lambda: farref.rpc_sync("B", who_receives, ("C",)) == (POOL, POOL))


def spin() -> None:
    while True:
        pass


@pytest.mark.parametrize(("hangs", "args"), [(spin, ()), (time.sleep, (99,))])
def test_the_end_does_not_wait_for_a_function(hangs: Callable[..., None], args: Any) -> None:
    """Thespian's own thread never runs user code: it ends the process, which need not be killed."""
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        farref.rpc_sync("B", thread_name)
        farref.rpc_async("B", hangs, args)
        farref.rpc_sync("B", thread_name)
        assert system.shutdown(timeout=0) == []


def call_in_turns(to: Sequence[str], numbers: range) -> list[Any]:
    """Call each of *to* with some of *numbers*; a thread of the function's own does, too."""
    found: list[Any] = []

    def call() -> None:
        found.extend(farref.rpc_sync(each, same, (n,)) for n in numbers for each in to)

    beside = threading.Thread(target=call)
    beside.start()
    call()
    beside.join(PATIENCE)
    return found


def test_functions_that_call_each_others_processes_at_once(ours: System) -> None:
    """Each of them may receive, and gives way to the others and to the brief calls that come."""
    ours.worker("D")
    names = ["B", "C", "D"]
    ranges = [range(n, n + 60) for n in range(4) for _ in names]
    futures = [
        farref.rpc_async(names[n % 3], call_in_turns, (names, numbers))
        for n, numbers in enumerate(ranges)
    ]
    while not all(each.done() for each in futures):
        assert [farref.rpc_sync(name, same, (name,)) for name in names] == names
    for numbers, future in zip(ranges, futures, strict=True):
        assert sorted(future.result()) == [n for n in numbers for _ in range(2 * len(names))]


class Noted:
    """A value whose finalizer makes the file *path*, and then waits for *gate*, if there is one."""

    def __init__(self, path: Path, gate: Path | None = None) -> None:
        self.path, self.gate = path, gate

    def __del__(self) -> None:
        self.path.touch()
        if self.gate is not None:
            hold(self.gate)


def test_values_are_let_go(ours: System, tmp_path: Path, gate: Path) -> None:
    """A finalizer that hangs holds up neither calls nor other values."""
    stuck = farref.remote("B", Noted, (tmp_path / "stuck", gate))
    farref.wait([stuck])
    del stuck
    assert until(ours, (tmp_path / "stuck").exists)
    paths = [tmp_path / str(n) for n in range(5)]
    others = [farref.remote("B", Noted, (path,)) for path in paths]
    farref.wait(others, num_returns=5)
    del others
    assert until(ours, lambda: all(path.exists() for path in paths))
    assert farref.rpc_sync("B", thread_name)


# ---- pauses, and copies


@pytest.fixture
def every_run_pauses(limits: Callable[[dict[str, object]], None]) -> None:
    limits({"actors.core.brief.BRIEF": 0.0, "actors.core.brief.NEARLY": 10.0})


@pytest.mark.usefixtures("every_run_pauses")
def test_a_function_that_paused_comes_back() -> None:
    """After eight runs in the pool."""
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")

        def next_ones(count: int) -> list[str]:
            return [farref.rpc_sync("B", thread_name) for _ in range(count)]

        # Three in a row: one alone may go to the pool because nobody looked for it.
        assert until(system, lambda: next_ones(3) == 3 * [POOL])
        # Of its eight runs these were three, and the two before them may have been.
        assert next_ones(3) == 3 * [POOL]
        assert until(system, lambda: HELPER in next_ones(8))


def cpu_times() -> Counter[str]:
    """Seconds for which the threads of this process have computed, by their names."""
    times: Counter[str] = Counter()
    for each in threading.enumerate():
        clock = time.pthread_getcpuclockid(each.ident or 0)
        times[each.name] += time.clock_gettime(clock)  # type: ignore[assignment]  # no int
    return times


@SHARED_MEMORY
@pytest.mark.usefixtures("every_run_pauses")
def test_the_thread_that_receives_also_copies_into_shared_memory() -> None:
    """Other threads run meanwhile. The rest of a copy holds them up, so it counts as a function."""
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        array = farref.remote("B", np.zeros, (1 << 21,))
        numbers = farref.remote("B", list, (range(200_000),))

        def copier(ref: RRef[Any]) -> str:
            """The thread at B that has computed most."""
            before: Counter[str] = farref.rpc_sync("B", cpu_times)
            for _ in range(10):
                ref.to_here()
            after: Counter[str] = farref.rpc_sync("B", cpu_times)
            return max(after - before, default="", key=(after - before).__getitem__)

        # The first copies of a kind are the helper's in any case.
        assert until(system, lambda: [copier(array) for _ in range(2)] == 2 * [HELPER])
        assert until(system, lambda: copier(numbers) != HELPER)


class Copied:
    """Its copies are made once a gate is open."""

    def __init__(self, begun: Path, gate: Path) -> None:
        self.begun, self.gate = begun, gate

    def __reduce__(self) -> Any:
        self.begun.touch()
        hold(self.gate)
        return str, ("copied",)


LONG = "\N{LATIN SMALL LETTER E WITH ACUTE}" * (127 << 10)
"""Its pickle is longer than it is."""


def test_a_small_value_needs_no_thread(ours: System, tmp_path: Path, gate: Path) -> None:
    """The thread that receives a fetch answers it, unless earlier copies wait for a thread."""
    number, array = farref.remote("B", abs, (-1,)), farref.remote("B", np.zeros, (1024,))
    text = farref.remote("B", LONG.__add__, ("",))
    farref.wait([number, array, text], 3)
    held = [farref.remote("B", Copied, (tmp_path / str(n), gate)) for n in range(4)]
    copies = [each.future() for each in held]  # they take all threads that copy
    assert until(ours, lambda: len(list(tmp_path.iterdir())) == 4)
    assert number.to_here() == 1
    assert len(array.to_here()) == 1024
    late, later = text.future(), number.future()
    farref.rpc_sync("B", same, (1,))  # B has read the two before
    assert not late.done(), "a long text is copied by a thread"
    assert not later.done(), "an earlier copy has not begun"
    gate.touch()
    assert (late.result(), later.result()) == (LONG, 1)
    answers: list[Any] = [each.result() for each in copies]
    assert answers == 4 * ["copied"]


# ---- forks


def fork() -> int:
    """Fork as badly written code does: the child goes on after the return. Returns its pid."""
    return os.fork()


def reap(pid: int) -> None:
    """Wait for the child's end. Python itself may crash in a child of a threaded parent."""
    os.waitpid(pid, 0)


def raise_in_a_child() -> int:
    """The exit code of a child that left this function by an exception.

    Its parent waits for it, and so cannot bring anything to the loop that both would run.
    """
    child = os.fork()
    if child == 0:
        raise SystemExit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_takes_nothing_from_its_parent(ours: System) -> None:
    for _ in range(2):
        child = farref.rpc_sync("B", fork)
        assert child > 0
        assert [farref.rpc_sync("B", same, (n,)) for n in range(50)] == list(range(50))
        farref.rpc_sync("B", reap, (child,))


def test_a_forked_child_ends_where_it_comes_back(ours: System) -> None:
    for _ in range(4):
        assert farref.rpc_sync("B", raise_in_a_child) == 7
        assert farref.remote("B", raise_in_a_child).to_here() == 7


# ---- finalizers


FINALIZING = Finalizing(
    *("/calls/calls.py", "/calls/waiter.py", "/core/core.py", "/base/leadership.py"),
    *("/base/loop.py", "/shells/ports.py", "/shells/own_port.py", "/shells/actor_port.py"),
)


def call_with_a_finalizer(
    to: str, place: int | None, finalizers: Callable[[str], object] | None = None
) -> tuple[bool, list[object], str]:
    """Call *to*, while a finalizer calls at a place of that call. Whether it has such a place."""
    answers: list[object] = []

    def finalize() -> None:
        try:
            answers.append(finalizers(to) if finalizers else farref.rpc_sync(to, same, (1,)))
        except WouldBlockError as error:
            answers.append("refused" if "a finalizer for example" in str(error) else error)

    def call() -> None:
        answers.append(farref.rpc_sync(to, same, (2,)))

    met = place is not None and FINALIZING.at_place(call, place, finalize)
    return met, answers, thread_name()


def check(answers: list[list[object]]) -> None:
    """Both calls have their answers, or the finalizer's is refused: it would never get one."""
    assert all(each in ([1, 2], ["refused", 2]) for each in answers), answers
    assert min(answers.count([1, 2]), answers.count(["refused", 2])) > 3, answers


@pytest.mark.parametrize("thread", [HELPER, POOL])
def test_a_finalizer_calls_at_any_place_of_a_functions_call(ours: System, thread: str) -> None:
    found: list[list[object]] = []
    met, answers = True, list[object]()

    def in_that_thread() -> bool:  # on a busy machine another one may be faster
        nonlocal met, answers
        if thread == HELPER:  # a slow run between brief ones is a pause
            farref.rpc_sync("B", call_with_a_finalizer, ("C", None))
        met, answers, by = farref.rpc_sync("B", call_with_a_finalizer, ("C", len(found)))
        return bool(by == thread)

    while met:
        assert until(ours, in_that_thread)
        found.append(answers)
    check(found[:-1])  # the last one was not interrupted


def test_a_finalizer_calls_at_any_place_of_the_programs_call(ours: System) -> None:
    found: list[list[object]] = []
    for place in itertools.count():
        met, answers, _ = call_with_a_finalizer("C", place)
        if not met:
            break
        found.append(answers)
    check(found)


def begin_and_hold(begun: Path, gate: Path) -> None:
    begun.touch()
    hold(gate)


def test_a_finalizer_calls_while_the_thread_that_receives_leaves(
    ours: System, tmp_path: Path
) -> None:
    """The next one that receives would need a lock that the interrupted thread may have."""
    found: list[list[object]] = []
    for place in itertools.count():
        begun, gate = tmp_path / f"begun {place}", tmp_path / f"gate {place}"
        waits = threading.Thread(target=farref.rpc_sync, args=("B", begin_and_hold, (begun, gate)))
        waits.start()
        assert until(ours, begun.exists)

        def end_it_and_call(to: str) -> object:
            gate.touch()  # noqa: B023 - in this round only
            return farref.rpc_sync(to, same_later, (1,))

        met, answers, _ = call_with_a_finalizer("C", place, end_it_and_call)
        gate.touch()
        waits.join(PATIENCE)
        if not met:
            break
        found.append(answers)
    check(found)


# ---- handlers, and signal handlers


COLOUR = contextvars.ContextVar("COLOUR", default="none")


class Painted(RefActor):
    """Answers with the colour that its handlers see, and its identity."""

    def receiveMsg_str(self, _: str, sender: ActorAddress) -> None:
        self.send(sender, (COLOUR.get(), farref.get_worker_info()))


def paint() -> None:
    COLOUR.set("red")


def test_handlers_do_not_see_the_context_of_functions(ours: System) -> None:
    actor = ours.create(Painted)
    _, who = ours.ask(actor, "who")
    for _ in range(20):
        farref.rpc_sync(who, paint)
        assert ours.ask(actor, "look") == ("none", who)


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


@pytest.mark.parametrize("without", ["", "epoll"])
def test_a_signal_handler_calls_while_its_thread_waits(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That thread runs the loop, but not while the handler runs: another thread has to."""
    if without:
        monkeypatch.setenv(features.SWITCH, without)
    with started(tmp_path, PROGRAM) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waits\n"
        thread = psutil.Process(program.pid)
        eventually(lambda: thread.status() == psutil.STATUS_SLEEPING)
        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=PATIENCE)
    assert (out, program.returncode) == ("ended\n", 3)

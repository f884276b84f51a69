"""Brief functions run between two messages; other functions hold nothing up."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farref
from farref import RRef, System
from farref.actors.calls.calls import Calls
from farref.actors.core import brief as brief_module
from farref.actors.core.brief import BRIEF, NEARLY, PROOFS, Brief
from farref.actors.core.current import frame
from farref.actors.core.intake import NOTED
from farref.actors.core.pool import Pool
from farref.actors.serving.server import Server
from farref.actors.wire.codec import LONGEST
from farref.protocol.ids import CallId
from farref.protocol.messages import Fetch
from farref.serialization.shared import THRESHOLD

from ...marks import SHARED_MEMORY
from ...waiting import eventually
from ..helpers import hold, until

Later = list[Callable[[], None]]


@pytest.fixture
def ours() -> Iterator[System]:
    """A system of the test's own on our own base, the only one with helpers."""
    with System("farrefBase", timeout=20) as system:
        yield system


def thread_name() -> str:
    return threading.current_thread().name


def slow_thread_name() -> str:
    time.sleep(20 * BRIEF)
    return thread_name()


def test_who_runs_a_function(ours: System) -> None:
    ours.worker("B")
    # On a busy machine other threads are sometimes faster than the helper.
    assert until(ours, lambda: farref.rpc_sync("B", thread_name) == "farref helper")
    # The first run may be anywhere: its kind is not known to be slow before it replies.
    assert until(ours, lambda: farref.rpc_sync("B", slow_thread_name) == "farref B")
    assert until(ours, lambda: farref.rpc_sync("B", thread_name) == "farref helper")


def test_a_wait_in_which_the_thread_receives_does_not_count() -> None:
    brief, pool = Brief(), Pool(1, "pool")
    brief.looks = lambda: True

    def offered() -> bool:
        brief.offered.clear()
        brief.submit(pool, "kind", print, later=[])
        return bool(brief.offered)

    for _ in range(3):
        brief.took("kind", 3 * BRIEF, 2.5 * BRIEF)
    assert offered()
    for seconds, waited in ((3 * BRIEF, BRIEF), (2 * NEARLY, 2 * NEARLY - BRIEF / 2)):
        for _ in range(2):
            brief.took("kind", seconds, waited)
        assert not offered()
        brief.took("kind", BRIEF / 2)


def test_the_thread_that_waits_takes_the_reply(ours: System) -> None:
    """The program's waiting thread runs the loop itself: no other thread is woken for the reply."""
    ours.worker("B")
    farref.rpc_sync("B", thread_name)
    loop = ours._port._loop  # type: ignore[union-attr]  # this base has a loop

    def led() -> bool:
        found: list[bool] = []
        future = farref.rpc_async("B", slow_thread_name)
        super(farref.Future, future).add_done_callback(lambda _: found.append(loop.is_leader()))
        future.result()
        return found == [True]

    assert until(ours, led)  # on a busy machine the reply may be faster than this thread


def test_a_function_that_hangs_holds_nothing_up(ours: System, gate: Path) -> None:
    ours.worker("B")
    ours.worker("C")
    hangs = farref.rpc_async("B", hold, (gate, "held"))
    with_it = [farref.rpc_async("B", thread_name) for _ in range(5)]
    assert all(future.result() for future in with_it)
    ref = farref.remote("B", list, ((1,),))
    assert farref.rpc_sync("C", _fetch, (ref,)) == [1]
    assert not hangs.done()
    gate.touch()
    assert hangs.result() == "held"


def _fetch(ref: farref.RRef[list[int]]) -> list[int]:
    return ref.to_here()


def test_one_thread_keeps_the_order(ours: System) -> None:
    ours.worker("B", threads=1)
    order = farref.remote("B", list)
    farref.wait([order])
    futures = [
        farref.rpc_async("B", _note if n % 3 else _note_slowly, (order, n)) for n in range(30)
    ]
    for future in futures:
        future.result()
    assert order.to_here() == list(range(30))


def _note(order: farref.RRef[list[int]], number: int) -> None:
    order.local_value().append(number)


def _note_slowly(order: farref.RRef[list[int]], number: int) -> None:
    time.sleep(0.005)
    _note(order, number)


def _spin() -> None:
    while True:
        pass


def _sleep() -> None:
    time.sleep(99)


@pytest.mark.parametrize("hangs", [_spin, _sleep])
def test_the_end_does_not_wait_for_a_function(hangs: Callable[[], None]) -> None:
    """Thespian's own thread never runs user code: it ends the process."""
    with System("farrefBase", timeout=20) as system:
        system.worker("B")
        farref.rpc_sync("B", thread_name)
        farref.rpc_async("B", hangs)
        farref.rpc_sync("B", thread_name)
        started = time.monotonic()
        system.shutdown(timeout=0)
    assert time.monotonic() - started < 9  # Thespian kills slow processes after 10


def test_a_function_that_calls_back_and_forth(ours: System) -> None:
    """It waits, and does the mailbox's work meanwhile."""
    ours.worker("B")
    ours.worker("C")
    assert farref.rpc_sync("B", _ping, (30,)) == 30


def _ping(depth: int) -> int:
    other = "C" if farref.get_worker_info().name == "B" else "B"
    return 1 + farref.rpc_sync(other, _ping, (depth - 1,)) if depth else 0


def test_values_are_let_go(ours: System, tmp_path: Path) -> None:
    """A finalizer that hangs holds up neither calls nor other values."""
    ours.worker("B")
    stuck = farref.remote("B", _Reluctant, (tmp_path / "stuck", tmp_path / "gate"))
    farref.wait([stuck])
    del stuck
    assert until(ours, (tmp_path / "stuck").exists)
    others = [farref.remote("B", _Noted, (tmp_path / str(n),)) for n in range(5)]
    farref.wait(others, num_returns=5)
    del others
    assert until(ours, lambda: all((tmp_path / str(n)).exists() for n in range(5)))
    assert farref.rpc_sync("B", thread_name)
    (tmp_path / "gate").touch()


class _Noted:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __del__(self) -> None:
        self.path.touch()


class _Reluctant(_Noted):
    def __init__(self, path: Path, gate: Path) -> None:
        super().__init__(path)
        self.gate = gate

    def __del__(self) -> None:
        super().__del__()
        hold(self.gate)


# ---- the parts on their own


@pytest.fixture
def brief() -> Brief:
    made = Brief()
    made.looks = lambda: True
    return made


def test_what_is_offered_is_done_in_order(brief: Brief) -> None:
    pool, done, later = Pool(1, "test"), list[int](), Later()
    for number in range(40):
        brief.submit(pool, "kind", done.append, number, later=later)
    assert bool(brief.offered)
    assert not later
    while brief.offered:
        brief.do()
    assert done == list(range(40))
    assert not pool.close()


def test_one_slow_run_between_brief_ones_is_a_pause(brief: Brief) -> None:
    pool = Pool(1, "test")
    for _ in range(3):
        brief.took("kind", 100 * BRIEF)
        brief.submit(pool, "kind", print, later=[])
        assert len(brief.offered) == 1
        brief.offered.clear()
        brief.took("kind", BRIEF / 2)


def test_a_kind_that_was_long_twice_goes_to_the_pool(brief: Brief) -> None:
    pool, done, later = Pool(1, "test"), threading.Event(), Later()
    brief.took("kind", 2 * BRIEF)
    brief.took("kind", 2 * BRIEF)
    brief.submit(pool, "kind", done.set, later=later)
    assert not brief.offered
    (start,) = later
    start()
    assert done.wait(60)
    brief.took("kind", BRIEF / 2)
    brief.submit(pool, "kind", done.set, later=later)
    assert brief.offered


def test_a_kind_comes_back_once_it_has_been_nearly_brief_in_the_pool(brief: Brief) -> None:
    pool = Pool(1, "test")

    def offered() -> bool:
        brief.submit(pool, "kind", bool, later=[])
        was = bool(brief.offered)
        brief.disperse()
        pool.close()  # no job of it waits for a thread
        return was

    brief.took("kind", 100 * BRIEF)  # a pause
    brief.took("kind", 100 * BRIEF)  # and another one
    for proofs in (PROOFS, 2 * PROOFS, 4 * PROOFS):
        for _ in range(proofs):
            assert not offered()
            brief.took("kind", 2 * BRIEF)  # usual in the pool
        assert offered()
        brief.took("kind", 2 * BRIEF)  # it fails its trial
    for _ in range(8 * PROOFS - 1):
        brief.took("kind", 2 * BRIEF)
    brief.took("kind", 2 * NEARLY)  # and starts again
    for _ in range(8 * PROOFS):
        assert not offered()
        brief.took("kind", 2 * BRIEF)
    assert offered()
    brief.took("kind", BRIEF / 2)
    brief.took("kind", 2 * BRIEF)
    brief.took("kind", 2 * BRIEF)
    assert not offered()  # it was brief again, so the first number of proofs counts


def test_a_function_that_paused_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_module, "BRIEF", 0.0)  # as if every run met a pause
    monkeypatch.setattr(brief_module, "NEARLY", 10.0)
    with System("farrefBase", timeout=20) as system:
        system.worker("B")

        def next_ones(count: int = PROOFS) -> list[str]:
            return [farref.rpc_sync("B", thread_name) for _ in range(count)]

        # Three in a row: one alone may go to the pool because nobody looked for it.
        assert until(system, lambda: next_ones(3) == 3 * ["farref B"])
        # Of its proofs these were three, and the two before them may have been.
        assert next_ones(PROOFS - 5) == (PROOFS - 5) * ["farref B"]
        assert until(system, lambda: "farref helper" in next_ones())


@SHARED_MEMORY
def test_the_thread_that_receives_also_copies_into_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other threads run meanwhile. The rest of a copy holds them up, so it counts as a function."""
    monkeypatch.setattr(brief_module, "BRIEF", 0.0)  # as if every run met a pause
    monkeypatch.setattr(brief_module, "NEARLY", 10.0)
    note_copiers(monkeypatch)
    with System("farrefBase", timeout=20) as system:
        system.worker("B")
        large, small = farref.remote("B", np.zeros, (THRESHOLD,)), farref.remote("B", list, ("a",))

        def last_copiers(ref: RRef[Any]) -> list[str]:
            for _ in range(3):
                ref.to_here()
            found: list[str] = farref.rpc_sync("B", last_of_copiers, (3,))
            return found

        assert until(system, lambda: last_copiers(large) == 3 * ["farref helper"])
        assert until(system, lambda: "farref helper" not in last_copiers(small))


copiers: list[str] = []
"""The threads of this process that have answered a fetch by a copy."""


def note_copiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note the threads that copy values, also in workers, which are forked."""
    finish = Server.finish

    def noted(self: Server, request: Any, box: Any) -> bool:
        if type(request) is Fetch:
            copiers.append(thread_name())
        return finish(self, request, box)

    monkeypatch.setattr(Server, "finish", noted)


def last_of_copiers(number: int) -> list[str]:
    return copiers[-number:]


released = threading.Event()


def crowd() -> None:
    """More jobs for the threads that copy than there are threads, until `release`."""
    chores = frame().core.chores
    for _ in range(chores.size + 1):
        chores.submit(released.wait)


def release() -> None:
    released.set()


def text() -> str:
    return "\N{LATIN SMALL LETTER E WITH ACUTE}" * (LONGEST - 1024)


def fill() -> None:
    """From now on no large result may leave at once, but it need not wait either."""
    Server.has_room = lambda *_: False  # type: ignore[method-assign]  # the process ends with the test
    Calls.wait_for_room = lambda *_: True  # type: ignore[method-assign]  # the same


def test_a_small_value_needs_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that receives a fetch answers it, unless jobs wait or the results have no room."""
    note_copiers(monkeypatch)
    with System("farrefBase", timeout=20) as system:
        system.worker("B")
        number, array = farref.remote("B", abs, (-1,)), farref.remote("B", np.zeros, (NOTED,))

        def jobs() -> int:
            return len(farref.rpc_sync("B", last_of_copiers, (10**6,)))

        farref.wait([number, array], 2)
        before = jobs()
        assert number.to_here() == 1
        assert len(array.to_here()) == NOTED
        assert jobs() == before

        farref.rpc_sync("B", crowd)
        futures = [each.future() for each in (number, array)]
        until(system, lambda: False, 0.1)
        assert not any(each.done() for each in futures), "an earlier job has not begun"
        farref.rpc_sync("B", release)
        assert futures[0].result() == 1
        assert len(futures[1].result()) == NOTED
        assert jobs() == before + 2

        long: RRef[str] = farref.remote("B", text)
        assert long.to_here() == text()
        assert jobs() == before + 3, "its pickle is longer than it is"

        farref.rpc_sync("B", fill)
        assert len(array.to_here()) == NOTED
        assert jobs() == before + 4
        assert number.to_here() == 1
        assert jobs() == before + 4


def test_a_fetch_does_not_overtake_an_offered_job(
    ours: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, ref = ours.worker("B"), RRef(1)
    farref.rpc_sync("B", bool)
    core = ours.endpoint.core
    submitted: list[object] = []
    monkeypatch.setattr(core.brief, "submit", lambda *args, **_: submitted.append(args[2]))
    for offered in (True, False):
        later: list[Callable[[], None]] = []
        with core.lock:
            if offered:
                core.brief.offered.append((core.pool, bool, ()))
            fetch = Fetch(call=CallId(there.id, 10**6 + offered), rref=ref.id)
            core.receive(there.id, fetch, later)
            core.brief.offered.clear()
            core.context.owners[ref.id].running = None  # as if it were answered
        assert len(submitted) == 1


def test_what_was_offered_goes_before_what_is_not(brief: Brief) -> None:
    pool, done, later = Pool(1, "test"), list[int](), Later()
    for _ in range(2):
        brief.took("long", 2 * BRIEF)
    brief.submit(pool, "brief", done.append, 1, later=later)
    brief.submit(pool, "long", done.append, 2, later=later)
    assert not brief.offered
    over = threading.Event()
    pool.submit(over.set)
    assert over.wait(60)
    assert done == [1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_one_thread_begins_jobs_in_order_on_every_way(
    brief: Brief, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A helper does the offered ones, a thread of the pool the rest; some lend their place."""
    monkeypatch.setattr(brief_module, "AT_ONCE", 3)
    draw, pool, began = random.Random(seed), Pool(1, "test"), list[int]()
    brief.looks = lambda: draw.random() < 0.95
    for _ in range(2):
        brief.took("long", 2 * BRIEF)
    over = threading.Event()

    def job(number: int, way: str) -> None:
        if way == "opens slowly":
            time.sleep(0.0003)
        began.append(number)
        if way == "waits":
            with pool.waiting():
                time.sleep(0.0003)
        elif way == "slow":
            time.sleep(0.0003)

    def helper() -> None:
        while not over.is_set():
            brief.do()
            time.sleep(0.0001)

    threading.Thread(target=helper).start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    later = Later()
    try:
        for number in range(2000):
            way = draw.choices(["brief", "opens slowly", "slow", "waits"], (17, 1, 1, 1))[0]
            kind = draw.choices(["brief", "long"], (19, 1))[0]
            brief.submit(pool, kind, job, number, way, later=later)
            while later and draw.random() < 0.9:  # or a thread is woken late
                later.pop()()
            if draw.random() < 0.05:
                brief.disperse()
            if draw.random() < 0.2:
                time.sleep(0.0005)
        while later:
            later.pop()()
        brief.disperse()
        pool.submit(over.set)
        assert over.wait(30)
    finally:
        sys.setswitchinterval(interval)
        over.set()
    assert began == list(range(2000))


def test_a_job_that_comes_while_an_earlier_one_goes_to_the_pool_begins_after_it(
    brief: Brief,
) -> None:
    began: list[int] = []
    threads: list[threading.Thread] = []

    class LatePool(Pool):
        def submit(self, job: Callable[..., object], *args: object) -> bool:
            """Let another thread bring the next job first, if it can."""
            if not threads:
                comes = partial(brief.submit, self, "long", began.append, 2, later=[])
                threads.append(threading.Thread(target=comes))
                threads[0].start()
                threads[0].join(0.1)
            return super().submit(job, *args)

    pool = LatePool(1, "test")
    for _ in range(2):
        brief.took("long", 2 * BRIEF)
    assert pool.enter()  # the only place
    brief.submit(pool, "brief", began.append, 1, later=[])
    brief.do()
    threads[0].join()
    pool.run_here(began.append, (0,))
    over = threading.Event()
    pool.submit(over.set)
    assert over.wait(60)
    assert began == [0, 1, 2]


def test_a_job_that_is_offered_does_not_pass_those_that_wait() -> None:
    pool = Pool(1, "test")
    pool.add(print)
    assert not pool.enter()


def test_nothing_is_offered_where_nobody_looks(brief: Brief) -> None:
    brief.looks = lambda: False
    pool, later = Pool(1, "test"), Later()
    brief.submit(pool, "kind", print, later=later)
    assert not brief.offered
    assert len(later) == 1


def test_the_thread_that_runs_the_loop_keeps_what_it_offers(brief: Brief) -> None:
    """It is sure to look at it, so it is not asked whether it will."""
    brief.looks, brief.leads = lambda: False, lambda: True
    pool, later = Pool(1, "test"), Later()
    brief.submit(pool, "kind", print, later=later)
    assert len(brief.offered) == 1
    assert not later


def test_a_pool_without_a_place_takes_what_is_offered(brief: Brief) -> None:
    pool, gate, done = Pool(1, "test"), threading.Event(), threading.Event()
    pool.submit(gate.wait, 60)
    eventually(lambda: pool.waits == 0)
    brief.submit(pool, "kind", done.set, later=[])
    brief.do()
    assert not done.is_set()
    gate.set()
    assert done.wait(60)


def test_a_job_done_here_counts_as_one_of_the_pools() -> None:
    pool, done = Pool(1, "test"), threading.Event()

    def job() -> None:
        pool.submit(done.set)
        assert not done.wait(0.05)  # the only place is taken by this job
        with pool.waiting():
            assert done.wait(60)

    assert pool.enter()
    pool.run_here(job, ())
    again = threading.Event()
    pool.submit(again.set)
    assert again.wait(60)
    pool.close()
    assert not pool.enter()


def test_a_job_done_here_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool(1, "test")
    assert pool.enter()
    pool.run_here(_raise, ())
    assert "a job of test failed" in caplog.text
    assert pool.enter()  # it is free again


def _raise() -> None:
    raise SystemExit("of the user's")

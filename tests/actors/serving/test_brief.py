"""The queue of brief jobs, and the pool behind it: who runs a job, and in what order."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import farref
from farref import RRef, System
from farref.actors.core.brief import BRIEF, NEARLY, PROOFS, Brief
from farref.actors.core.pool import Pool
from farref.protocol.ids import CallId
from farref.protocol.messages import Fetch

from ...waiting import PATIENCE, eventually

Later = list[Callable[[], None]]


@pytest.fixture
def brief() -> Brief:
    """A queue at which the calling thread looks."""
    made = Brief()
    made.looks = lambda: True
    return made


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(1, "test")
    yield pool
    pool.close()


def have_run(pool: Pool) -> None:
    """Wait until all jobs of *pool*, which has one thread, have run."""
    over = threading.Event()
    pool.submit(over.set)
    assert over.wait(PATIENCE)


# ---- which kinds are brief


def is_offered(brief: Brief) -> bool:
    """Whether a job is left to the thread that receives, and not to the pool."""
    brief.submit(Pool(1, "unused"), "kind", bool, later=[])
    was = bool(brief.offered)
    brief.offered.clear()
    return was


def take_long(brief: Brief) -> None:
    """Two slow jobs in a row: from now on the kind is not brief."""
    brief.took("kind", 2 * BRIEF)
    brief.took("kind", 2 * BRIEF)


def test_one_slow_run_between_brief_ones_is_a_pause(brief: Brief) -> None:
    for _ in range(3):
        brief.took("kind", 100 * BRIEF)
        assert is_offered(brief)
        brief.took("kind", BRIEF / 2)


def test_a_kind_that_was_long_twice_goes_to_the_pool(brief: Brief, pool: Pool) -> None:
    done, later = threading.Event(), Later()
    take_long(brief)
    brief.submit(pool, "kind", done.set, later=later)
    assert not brief.offered
    (start,) = later
    start()
    assert done.wait(PATIENCE)
    brief.took("kind", BRIEF / 2)
    assert is_offered(brief)


def test_a_wait_in_which_the_thread_receives_does_not_count(brief: Brief) -> None:
    for _ in range(3):
        brief.took("kind", 3 * BRIEF, 2.5 * BRIEF)
    assert is_offered(brief)
    for seconds, waited in ((3 * BRIEF, BRIEF), (2 * NEARLY, 2 * NEARLY - BRIEF / 2)):
        for _ in range(2):
            brief.took("kind", seconds, waited)
        assert not is_offered(brief)
        brief.took("kind", BRIEF / 2)


def test_a_kind_comes_back_once_it_has_been_nearly_brief_in_the_pool(brief: Brief) -> None:
    take_long(brief)
    for proofs in (PROOFS, 2 * PROOFS, 4 * PROOFS):
        for _ in range(proofs):
            assert not is_offered(brief)
            brief.took("kind", 2 * BRIEF)  # usual in the pool
        assert is_offered(brief)
        brief.took("kind", 2 * BRIEF)  # it fails its trial
    for _ in range(8 * PROOFS - 1):
        brief.took("kind", 2 * BRIEF)
    brief.took("kind", 2 * NEARLY)  # and starts again
    for _ in range(8 * PROOFS):
        assert not is_offered(brief)
        brief.took("kind", 2 * BRIEF)
    assert is_offered(brief)
    brief.took("kind", BRIEF / 2)
    take_long(brief)
    assert not is_offered(brief)  # it was brief again, so the first number of proofs counts


# ---- who runs a job


@pytest.mark.parametrize(
    ("looks", "leads"),
    [
        ([True, True], False),
        ([False], True),  # it is sure to look, so it is not asked whether it will
    ],
)
def test_a_job_is_offered_where_somebody_looks(
    brief: Brief, pool: Pool, looks: list[bool], leads: bool
) -> None:
    brief.looks, brief.leads, later = looks.pop, lambda: leads, Later()
    brief.submit(pool, "kind", print, later=later)
    assert (len(brief.offered), later) == (1, [])


def test_nothing_is_offered_where_nobody_looks(brief: Brief, pool: Pool) -> None:
    brief.looks, later = lambda: False, Later()
    brief.submit(pool, "kind", print, later=later)
    assert (len(brief.offered), len(later)) == (0, 1)


def test_a_job_of_a_helper_that_is_late_is_not_left_to_it(brief: Brief, pool: Pool) -> None:
    """Another thread began to run the loop while the job was offered; the helper may sleep."""
    done, looks = threading.Event(), [False, True]
    brief.looks = looks.pop
    brief.submit(pool, "kind", done.set, later=[])
    assert done.wait(PATIENCE)
    assert not brief.offered


def test_a_pool_without_a_place_takes_what_is_offered(brief: Brief, pool: Pool) -> None:
    gate, done = threading.Event(), threading.Event()
    pool.submit(gate.wait, PATIENCE)
    eventually(lambda: pool.waits == 0)
    brief.submit(pool, "kind", done.set, later=[])
    brief.do()
    assert not done.is_set()
    gate.set()
    assert done.wait(PATIENCE)


def test_a_job_done_here_counts_as_one_of_the_pools(pool: Pool) -> None:
    done = threading.Event()

    def job() -> None:
        pool.submit(done.set)
        assert not done.wait(0.05)  # the only place is taken by this job
        with pool.waiting():
            assert done.wait(PATIENCE)

    assert pool.enter()
    pool.run_here(job, ())
    have_run(pool)
    pool.close()
    assert not pool.enter()


def test_a_job_that_raises_frees_its_place(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    assert pool.enter()
    pool.run_here(sys.exit, ("of the user's",))
    assert "a job of test failed" in caplog.text
    pool.submit(sys.exit, "of the user's")
    have_run(pool)
    eventually(pool.enter)


# ---- in what order


def test_a_job_that_is_offered_does_not_pass_those_that_wait(pool: Pool) -> None:
    pool.add(print)
    assert not pool.enter()


@pytest.mark.parametrize("move", [Brief.do, Brief.disperse])
def test_a_job_that_comes_while_an_earlier_one_goes_to_the_pool_begins_after_it(
    brief: Brief, move: Callable[[Brief], None]
) -> None:
    began, threads = list[int](), list[threading.Thread]()

    class LatePool(Pool):
        def submit(self, job: Callable[..., object], *args: object) -> bool:
            """Let another thread bring the next job first, if it can."""
            if not threads:
                comes = partial(brief.submit, self, "kind", began.append, 2, later=[])
                threads.append(threading.Thread(target=comes))
                threads[0].start()
                threads[0].join(0.1)
            return super().submit(job, *args)

    pool = LatePool(1, "test")
    take_long(brief)
    assert pool.enter()  # the only place
    brief.submit(pool, "brief", began.append, 1, later=[])
    move(brief)
    threads[0].join()
    pool.run_here(began.append, (0,))
    have_run(pool)
    pool.close()
    assert began == [0, 1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_one_thread_begins_jobs_in_order_on_every_way(brief: Brief, pool: Pool, seed: int) -> None:
    """A helper does the offered ones, a thread of the pool the rest; some lend their place."""
    draw, began, over, later = random.Random(seed), list[int](), threading.Event(), Later()
    brief.looks = lambda: draw.random() < 0.95
    take_long(brief)
    linger = partial(time.sleep, 0.0003)

    def job(number: int, way: str) -> None:
        if way == "opens slowly":
            linger()
        began.append(number)
        if way == "waits":
            with pool.waiting():
                linger()
        elif way == "slow":
            linger()

    def helper() -> None:
        while not over.wait(0.0001):
            brief.do()

    threading.Thread(target=helper).start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(2000):
            way = draw.choices(["brief", "opens slowly", "slow", "waits"], (17, 1, 1, 1))[0]
            kind = draw.choices(["brief", "kind"], (19, 1))[0]
            brief.submit(pool, kind, job, number, way, later=later)
            while later and draw.random() < 0.9:  # or a thread is woken late
                later.pop()()
            if draw.random() < 0.05:
                brief.disperse()
            if draw.random() < 0.2:
                linger()
        while later:
            later.pop()()
        brief.disperse()
        have_run(pool)
    finally:
        sys.setswitchinterval(interval)
        over.set()
    assert began == list(range(2000))


@pytest.mark.processes
def test_a_fetch_does_not_overtake_an_offered_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no job otherwise."""
    with System("farrefBase", timeout=PATIENCE) as system:
        there, ref = system.worker("B"), RRef(1)
        farref.rpc_sync("B", bool)
        core, submitted = system.endpoint.core, list[object]()
        monkeypatch.setattr(core.brief, "submit", lambda *args, **_: submitted.append(args[2]))
        for offered in (True, False):
            with core.lock:
                if offered:
                    core.brief.offered.append((core.pool, bool, ()))
                fetch = Fetch(call=CallId(there.id, 10**6 + offered), rref=ref.id)
                core.receive(there.id, fetch, [])
                core.brief.offered.clear()
                core.context.owners[ref.id].running = None  # as if it were answered
            assert len(submitted) == 1
        monkeypatch.undo()
        del ref

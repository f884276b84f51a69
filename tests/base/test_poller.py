"""The selector of a process: wakes, threads, and when it looks for messages before it sleeps."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from farref.actors.base.poller import CONVERSATION, LONGEST_PAUSE, READABLE, Poller, _Poll
from farref.features import cores, has

from .kit import PATIENCE

LOOK = 7.5e-6
"""Seconds that a look takes in these tests, mostly."""
TIMEOUT = 2000 * LOOK
NOBODY = 1 << 30
"""A descriptor that nobody owns."""


def test_no_wake_is_lost(poller: Poller) -> None:
    turns = 5_000
    asked = answered = 0
    answer = threading.Condition()

    def ask() -> None:
        nonlocal asked
        for _ in range(turns):
            with answer:
                asked += 1
                poller.wake()
                assert answer.wait_for(lambda: answered == asked, PATIENCE)  # noqa: B023 (asked in this turn only)

    asker = threading.Thread(target=ask)
    asker.start()
    while answered < turns:
        poller.wait(PATIENCE)
        with answer:
            assert asked - answered in {0, 1}
            answered = asked
            answer.notify()
    asker.join(PATIENCE)


def test_wakes_from_everywhere_always_wake(poller: Poller) -> None:
    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            poller.wake()

    hammers = [threading.Thread(target=hammer) for _ in range(2)]
    for each in hammers:
        each.start()
    for _ in range(200):
        poller.wait(PATIENCE)
    stop.set()
    for each in hammers:
        each.join(PATIENCE)
    poller.wait(0)
    for _ in range(3):  # and it still wakes, which a flag left behind would prevent
        poller.wake()
        started = time.monotonic()
        poller.wait(PATIENCE)
        assert time.monotonic() - started < PATIENCE


def test_two_threads_in_one_poll() -> None:
    """A signal handler waits for another thread, while its own thread polls: see `_Poll`."""
    poll = _Poll(lambda: None)
    reader, writer = os.pipe()
    os.write(writer, b"x")
    found: list[list[tuple[int, int]]] = []

    def other() -> None:
        poll.register(reader, READABLE)
        found.append(poll.poll(None))

    def handler(*_: object) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(PATIENCE)

    before = signal.signal(signal.SIGUSR1, handler)
    sender = threading.Timer(
        0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)
    )
    try:
        sender.start()
        began = time.monotonic()
        while not (last := poll.poll(None)) and time.monotonic() < began + PATIENCE:
            pass  # the poll that the handler interrupted does not know the descriptor
    finally:
        sender.cancel()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        os.close(reader)
        os.close(writer)
    assert [*found, last] == [[(reader, READABLE)]] * 2


# ---- spinning


class Looks:
    """An ``epoll`` without any events, but for the looks with the numbers in `found`; and a clock.

    Each look at the clock takes as long as `poller` is told.
    """

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []
        self.found: set[int] = set()
        self._seconds = 0.0
        self._ticks = 0

    def poller(self, look: float, *, spin: float = TIMEOUT, talking: bool = True) -> Poller:
        """A poller, in a conversation or new; each of its looks takes *look* seconds."""
        self._seconds = look
        made = Poller(spin)
        made.close()  # its own descriptors
        made._epoll = self  # type: ignore[assignment]  # a fake
        if talking:
            made._began = 0.0
        return made

    def clock(self) -> float:
        self._ticks += 1
        return self._ticks * self._seconds

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        self.timeouts.append(timeout)
        return [(NOBODY, READABLE)] if len(self.timeouts) - 1 in self.found else []

    @property
    def spins(self) -> int:
        """The number of looks without sleeping."""
        return self.timeouts.count(0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    if cores() < 2:
        pytest.skip("on one core nothing spins")
    made = Looks()
    monkeypatch.setattr("farref.actors.base.poller.perf_counter", made.clock)
    return made


def test_it_spins_until_its_time_is_over(looks: Looks) -> None:
    looks.poller(LOOK).wait(TIMEOUT)
    assert looks.spins > 1000
    assert looks.timeouts[-1] == TIMEOUT, "then it sleeps"


def test_it_goes_on_if_others_take_the_core_for_a_moment(looks: Looks) -> None:
    """They are mostly the other end: the kernel moves one of both only while both want to run."""
    shared = looks.poller(CONVERSATION / 4, spin=CONVERSATION)
    looks.found = {2}
    shared.wait(TIMEOUT)
    assert looks.timeouts == [0, 0, 0]
    assert shared._pause == 0, "the next one is short"


def test_a_look_that_took_too_long_is_the_last(looks: Looks) -> None:
    looks.poller(CONVERSATION / 2, spin=CONVERSATION / 3).wait(TIMEOUT)
    assert looks.timeouts == [0, TIMEOUT]


def test_it_does_not_spin_at_rest(looks: Looks) -> None:
    """Its waits begin long after each other."""
    resting = looks.poller(2 * CONVERSATION)
    for _ in range(20):
        resting.wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT] * 20


def test_the_first_wait_of_all_does_not_spin(looks: Looks) -> None:
    looks.poller(LOOK, talking=False).wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT]


def test_spins_in_vain_become_rare(looks: Looks) -> None:
    tired = looks.poller(LOOK, spin=20 * LOOK)
    for _ in range(round(20 * LONGEST_PAUSE / LOOK)):
        tired.wait(TIMEOUT)
    assert 10 < looks.spins / 20 < 40, "one for each longest pause, and a few at first"


@pytest.mark.parametrize(("spins_before", "pays"), [(0, False), (1, True)])
def test_an_event_pays_for_spinning_only_if_it_came_meanwhile(
    looks: Looks, spins_before: int, pays: bool
) -> None:
    """In a crowded process an event is always there: its spins are in vain all the same."""
    crowded = looks.poller(LOOK)
    crowded._pause = LONGEST_PAUSE
    looks.found = {spins_before}
    crowded.wait(TIMEOUT)
    assert looks.timeouts == [0] * (spins_before + 1)
    assert crowded._pause == (0 if pays else LONGEST_PAUSE), "the next one is short again"


@pytest.mark.parametrize(
    ("seconds", "short"), [(2 * LONGEST_PAUSE, True), (2 * CONVERSATION, False)]
)
def test_a_rest_makes_the_next_pause_short(looks: Looks, seconds: float, short: bool) -> None:
    """After a rest the first spins are in vain, and the next ones may not be."""
    rested = looks.poller(seconds)
    rested._pause = LONGEST_PAUSE
    rested.wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT]
    assert rested._pause == (0 if short else LONGEST_PAUSE)


@pytest.mark.skipif(not has("affinity"), reason="only Linux limits a process to one core")
def test_one_core_never_spins(looks: Looks) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        looks.poller(LOOK).wait(TIMEOUT)
    finally:
        os.sched_setaffinity(0, before)
    assert looks.timeouts == [TIMEOUT]

"""An idle process looks for messages before it sleeps; these tests show when, and when not."""

from __future__ import annotations

from itertools import count

import pytest

from farref.actors.base import poller
from farref.actors.base.poller import CONVERSATION, LONGEST_PAUSE, READABLE, Poller

LOOK = 7.5e-6
"""Seconds that a look takes in these tests, mostly."""
TIMEOUT = 2000 * LOOK
NOBODY = 1 << 30
"""A descriptor that nobody owns."""


class Looks:
    """An ``epoll`` without any events, but for the looks with the numbers in `found`."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []
        self.found: set[int] = set()

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        self.timeouts.append(timeout)
        return [(NOBODY, READABLE)] if len(self.timeouts) - 1 in self.found else []

    @property
    def spins(self) -> int:
        """The number of looks without sleeping."""
        return self.timeouts.count(0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    return Looks()


def spinning(
    looks: Looks,
    monkeypatch: pytest.MonkeyPatch,
    look: float,
    *,
    spin: float = TIMEOUT,
    talking: bool = True,
) -> Poller:
    """A poller, in a conversation or new; each of its looks takes *look* seconds."""
    made = Poller(spin)
    made.close()  # its own descriptors
    made._epoll = looks  # type: ignore[assignment]  # a fake
    ticks = count(1)
    monkeypatch.setattr(poller, "perf_counter", lambda: next(ticks) * look)
    if talking:
        made._began = 0.0
    return made


def test_it_spins_until_its_time_is_over(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    spinning(looks, monkeypatch, LOOK).wait(TIMEOUT)
    assert looks.spins > 1000
    assert looks.timeouts[-1] == TIMEOUT, "then it sleeps"


def test_it_goes_on_if_others_take_the_core_for_a_moment(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are mostly the other end: the kernel moves one of both only while both want to run."""
    shared = spinning(looks, monkeypatch, CONVERSATION / 4, spin=CONVERSATION)
    looks.found = {2}
    shared.wait(TIMEOUT)
    assert looks.timeouts == [0, 0, 0]
    assert shared._pause == 0, "the next one is short"


def test_a_look_that_took_too_long_is_the_last(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    spinning(looks, monkeypatch, CONVERSATION / 2, spin=CONVERSATION / 3).wait(TIMEOUT)
    assert looks.timeouts == [0, TIMEOUT]


def test_it_does_not_spin_at_rest(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its waits begin long after each other."""
    resting = spinning(looks, monkeypatch, 2 * CONVERSATION)
    for _ in range(20):
        resting.wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT] * 20


def test_the_first_wait_of_all_does_not_spin(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    spinning(looks, monkeypatch, LOOK, talking=False).wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT]


def test_spins_in_vain_become_rare(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    tired = spinning(looks, monkeypatch, LOOK, spin=20 * LOOK)
    for _ in range(round(20 * LONGEST_PAUSE / LOOK)):
        tired.wait(TIMEOUT)
    assert 10 < looks.spins / 20 < 40, "one for each longest pause, and a few at first"


@pytest.mark.parametrize(("spins_before", "pays"), [(0, False), (1, True)])
def test_an_event_pays_for_spinning_only_if_it_came_meanwhile(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, spins_before: int, pays: bool
) -> None:
    """In a crowded process an event is always there: its spins are in vain all the same."""
    crowded = spinning(looks, monkeypatch, LOOK)
    crowded._pause = LONGEST_PAUSE
    looks.found = {spins_before}
    crowded.wait(TIMEOUT)
    assert looks.timeouts == [0] * (spins_before + 1)
    assert crowded._pause == (0 if pays else LONGEST_PAUSE), "the next one is short again"


@pytest.mark.parametrize(
    ("seconds", "short"), [(2 * LONGEST_PAUSE, True), (2 * CONVERSATION, False)]
)
def test_a_rest_makes_the_next_pause_short(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, seconds: float, short: bool
) -> None:
    """After a rest the first spins are in vain, and the next ones may not be."""
    rested = spinning(looks, monkeypatch, seconds)
    rested._pause = LONGEST_PAUSE
    rested.wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT]
    assert rested._pause == (0 if short else LONGEST_PAUSE)


def test_one_core_never_spins(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farref.actors.base.poller.cores", lambda: 1)
    alone = spinning(looks, monkeypatch, LOOK)
    alone.wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT]

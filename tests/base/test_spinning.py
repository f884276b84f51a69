"""An idle process looks for messages before it sleeps; these tests show when, and when not."""

from __future__ import annotations

from itertools import count

import pytest

from farref.actors.base import poller
from farref.actors.base.poller import CONTENDED, MAX_SKIPS, READABLE, Poller

TIMEOUT = 1000 * CONTENDED
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


def spinning(looks: Looks, monkeypatch: pytest.MonkeyPatch, look: float) -> Poller:
    """A poller that would spin for long; each of its looks takes *look* seconds."""
    made = Poller(TIMEOUT)
    made.close()  # its own descriptors
    made._epoll = looks  # type: ignore[assignment]  # a fake
    ticks = count()
    monkeypatch.setattr(poller, "perf_counter", lambda: next(ticks) * look)
    return made


def test_it_spins_while_nobody_else_wants_the_core(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    spinning(looks, monkeypatch, CONTENDED / 2).wait(TIMEOUT)
    assert looks.spins > 1000
    assert looks.timeouts[-1] == TIMEOUT, "then it sleeps"


def test_it_stops_when_a_look_takes_long(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    spinning(looks, monkeypatch, 2 * CONTENDED).wait(TIMEOUT)
    assert looks.timeouts == [0, TIMEOUT]


def test_spins_in_vain_become_rare(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    tired = spinning(looks, monkeypatch, 2 * CONTENDED)
    for _ in range(20 * MAX_SKIPS):
        tired.wait(TIMEOUT)
    assert looks.spins < 30


@pytest.mark.parametrize(("spins_before", "pays"), [(0, False), (1, True)])
def test_an_event_pays_for_spinning_only_if_it_came_meanwhile(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, spins_before: int, pays: bool
) -> None:
    """In a crowded process an event is always there: its spins are in vain all the same."""
    crowded = spinning(looks, monkeypatch, CONTENDED / 2)
    crowded._skips = [0, MAX_SKIPS]
    looks.found = {spins_before}
    crowded.wait(TIMEOUT)
    assert looks.timeouts == [0] * (spins_before + 1)
    assert (crowded._skips[1] == 1) == pays


def test_one_core_never_spins(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farref.actors.base.poller.cores", lambda: 1)
    alone = spinning(looks, monkeypatch, CONTENDED / 2)
    alone.wait(TIMEOUT)
    assert looks.timeouts == [TIMEOUT]

"""The wakeups of an endpoint: soon enough for all that it has to do, and few."""

from __future__ import annotations

import time

import pytest

from farref.actors.shells.ports import JUST_NOW, Alarm
from farref.protocol.delivery import ACK_DELAY

FAR = 1.0


class Due:
    """An endpoint that has something to do at *due*."""

    def __init__(self) -> None:
        self.due: float | None = None
        self.asked = 0

    def pause(self) -> float | None:
        self.asked += 1
        return None if self.due is None else max(0.0, self.due - time.monotonic())


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


@pytest.mark.parametrize("gap", [JUST_NOW / 100, 2 * JUST_NOW])
def test_it_wakes_for_what_has_begun_since(now: list[float], gap: float) -> None:
    """Whatever begins after a message is due after `ACK_DELAY`, as an acknowledgement is."""
    pauses: list[float] = []
    alarm, endpoint = Alarm(pauses.append), Due()
    endpoint.due = now[0] + FAR
    alarm.set(endpoint.pause)
    endpoint.due = now[0] + ACK_DELAY
    now[0] += gap
    alarm.set(endpoint.pause)
    assert min(alarm.due) == pytest.approx(endpoint.due)


def test_an_endpoint_at_rest_has_no_wakeup(now: list[float]) -> None:
    pauses: list[float] = []
    alarm, endpoint = Alarm(pauses.append), Due()
    for _ in range(3):
        alarm.set(endpoint.pause)
        now[0] += 2 * JUST_NOW
    assert endpoint.asked == 3
    assert pauses == []

"""Wake-ups: messages that an actor gets at a later time.

A heap ordered by time, then by the order of the calls, so that two wake-ups for the same
instant arrive in the order of their requests.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from time import perf_counter
from typing import Any

from ._thespian import Duration, WakeupMessage, timePeriodSeconds


class Timers:
    """Pending wake-ups of one process.  Thread-safe."""

    __slots__ = ("_lock", "_order", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Any, Any]] = []
        """The time of each wake-up first, on the clock of ``perf_counter``; only ever replaced item
        by item, so reading the first one needs no lock."""
        self._order = itertools.count()
        self._lock = threading.Lock()

    def add(self, period: Duration, payload: object) -> None:
        """Wake up *period* from now (seconds or a timedelta) with *payload*."""
        due = perf_counter() + timePeriodSeconds(period)
        with self._lock:
            heapq.heappush(self.heap, (due, next(self._order), period, payload))

    def due(self, now: float) -> list[WakeupMessage]:
        """Remove and return the wake-ups that are due at *now*, in order."""
        messages: list[WakeupMessage] = []
        with self._lock:
            while self.heap and self.heap[0][0] <= now:
                _, _, period, payload = heapq.heappop(self.heap)
                messages.append(WakeupMessage(period, payload))
        return messages

    def __len__(self) -> int:
        return len(self.heap)

    def pending(self) -> list[float]:
        """Seconds until each pending wake-up."""
        now = perf_counter()
        with self._lock:
            return [max(0.0, due - now) for due, *_ in sorted(self.heap, key=lambda w: w[:2])]

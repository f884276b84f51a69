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

    __slots__ = ("_heap", "_lock", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any, Any]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()

    def add(self, period: Duration, payload: object) -> None:
        """Wake up *period* from now (seconds or a timedelta) with *payload*."""
        due = perf_counter() + timePeriodSeconds(period)
        with self._lock:
            heapq.heappush(self._heap, (due, next(self._order), period, payload))

    @property
    def next_due(self) -> float | None:
        """When the next wake-up is due, on the clock of ``perf_counter``."""
        heap = self._heap  # only ever replaced item by item: reading needs no lock
        return heap[0][0] if heap else None

    def due(self, now: float) -> list[WakeupMessage]:
        """Remove and return the wake-ups that are due at *now*, in order."""
        messages: list[WakeupMessage] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                _, _, period, payload = heapq.heappop(self._heap)
                messages.append(WakeupMessage(period, payload))
        return messages

    def __len__(self) -> int:
        """Pending wake-ups."""
        return len(self._heap)

    def pending(self) -> list[float]:
        """Seconds until each pending wake-up."""
        now = perf_counter()
        with self._lock:
            return [max(0.0, due - now) for due, *_ in sorted(self._heap, key=lambda w: w[:2])]

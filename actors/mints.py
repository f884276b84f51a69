"""How old the forks and calls are that an endpoint has named.

Both are numbered as they are made, so it is enough to note now and then how far the numbers have
come: the age of each is known, to about `STEP`, and making one costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left

STEP = 0.1
"""Seconds between two notes, at least."""
MOST = 4096
"""Notes that are kept; of more, every other one is forgotten, and the steps get longer."""


class Mints:
    """When the ids of one kind that an endpoint has minted came to be. Under its lock."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._times: list[float] = []
        self._step = STEP

    def note(self, number: int, now: float) -> None:
        """*number* of them have been minted by *now*."""
        if self._times and number == self._numbers[-1]:
            return
        if self._times and now - self._times[-1] < self._step:
            self._numbers[-1] = number
            return
        self._numbers.append(number)
        self._times.append(now)
        if len(self._times) > MOST:
            del self._numbers[::2], self._times[::2]
            self._step *= 2

    def age(self, number: int, now: float) -> float:
        """Seconds since *number* was minted, or a `STEP` more."""
        place = bisect_left(self._numbers, number)
        return now - self._times[place] if place < len(self._times) else 0.0

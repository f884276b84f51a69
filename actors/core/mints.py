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
    """When the forks and calls that an endpoint has named came to be. Under its lock."""

    def __init__(self) -> None:
        self._minted: list[tuple[int, int]] = []
        self._times: list[float] = []
        self._step = STEP

    def note(self, minted: tuple[int, int], now: float) -> None:
        """So many forks and calls have been named by *now*."""
        if self._times:
            if minted == self._minted[-1]:
                return
            if now - self._times[-1] < self._step:
                self._minted[-1] = minted
                return
        self._minted.append(minted)
        self._times.append(now)
        if len(self._times) > MOST:
            del self._minted[::2], self._times[::2]
            self._step *= 2

    def age_of_fork(self, number: int, now: float) -> float:
        """Seconds since the fork *number* was named, or a `STEP` more."""
        return self._age(number, 0, now)

    def age_of_call(self, number: int, now: float) -> float:
        """The same of a call."""
        return self._age(number, 1, now)

    def _age(self, number: int, which: int, now: float) -> float:
        place = bisect_left(self._minted, number, key=lambda minted: minted[which])
        return now - self._times[place] if place < len(self._times) else 0.0

"""The ages of the forks and calls that an endpoint has named.

Both are numbered as they are made. So this module only notes the latest numbers now and then: that
gives each age to about `STEP`, and making a fork or call costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left

STEP = 0.1
"""The least number of seconds between two notes."""
MOST = 4096
"""The most notes that are kept; beyond that every other one is forgotten, and the step doubles."""


class Mints:
    """The times at which an endpoint named its forks and calls. Under its lock."""

    def __init__(self) -> None:
        self._minted: list[tuple[int, int]] = []
        self._times: list[float] = []
        self._step = STEP
        self.due = 0.0
        """Before this time all that is named belongs to the last note: it is only `latest`."""
        self.latest = (0, 0)
        """The numbers of forks and of calls that belong to it."""

    def mark(self, minted: tuple[int, int], now: float) -> None:
        """*minted* is the number of forks and of calls named by *now*."""
        if now < self.due:
            self.latest = minted
            return
        if self._times:
            self._minted[-1] = self.latest
        self._minted.append(minted)
        self._times.append(now)
        self.latest, self.due = minted, now + self._step
        if len(self._times) > MOST:
            del self._minted[::2], self._times[::2]
            self._step *= 2
            self.due = self._times[-1] + self._step

    def age_of_fork(self, number: int, now: float) -> float:
        """Seconds since the fork *number* was named, or a `STEP` more."""
        return self._age(number, 0, now)

    def age_of_call(self, number: int, now: float) -> float:
        """Seconds since the call *number* was named, or a `STEP` more."""
        return self._age(number, 1, now)

    def _age(self, number: int, which: int, now: float) -> float:
        if self._minted:
            self._minted[-1] = self.latest
        place = bisect_left(self._minted, number, key=lambda minted: minted[which])
        return now - self._times[place] if place < len(self._times) else 0.0

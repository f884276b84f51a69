"""The ages of the forks and calls that an endpoint has named, to about `STEP`.

Both are numbered as they are made, so this module only notes the latest numbers now and then.
"""

from __future__ import annotations

from bisect import bisect_left

from ...protocol.state import Tables

STEP = 0.1
"""The least number of seconds between two notes."""
MOST = 4096
"""The most notes that are kept; beyond that the step doubles, and closer ones are forgotten."""


class Ages:
    """The times at which an endpoint named its forks and calls. Under its lock."""

    def __init__(self) -> None:
        self._notes: list[tuple[tuple[int, int], float]] = []
        self._step = STEP
        self.due = 0.0
        """The time of the next note. Until then, all that is named belongs to the last one."""

    def mark(self, state: Tables, now: float) -> None:
        """Note that what *state* numbers from now on is named at *now*, or up to a step later."""
        if now < self.due:
            return
        named = state.forks, state.calls
        self.due = now + self._step
        if self._notes and named == self._notes[-1][0]:  # nothing belongs to it
            self._notes.pop()
        self._notes.append((named, now))
        while len(self._notes) > MOST:
            self._step *= 2
            notes, self._notes = self._notes, []
            for each in notes:
                if not self._notes or each[1] >= self._notes[-1][1] + self._step:
                    self._notes.append(each)

    def of_fork(self, number: int, now: float) -> float:
        """The seconds since the fork *number* was named, or up to a `STEP` more."""
        return self._age(number, 0, now)

    def of_call(self, number: int, now: float) -> float:
        """The same for the call *number*."""
        return self._age(number, 1, now)

    def _age(self, number: int, which: int, now: float) -> float:
        place = bisect_left(self._notes, number, key=lambda note: note[0][which])
        return now - self._notes[place - 1][1] if place else 0.0

"""Whoever looks at a state has a clock: who was silent for too long, and is the last call over?

Times are measured by the observer's own clock, from the moment that *it* saw something: that a
node's count of beats grew, that a last call opened. Nothing that another clock said is compared
with it, so clocks may differ by any amount, and go at other speeds. What two observers see at
different times they judge at different times; whoever is first changes the state, and the other
sees that.

A look credits at most one interval of keep-alives, however long the last one is ago. An observer
that was stopped, starved or suspended (maybe with all others) has missed their beats: it does not
find everybody dead when it wakes up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .commands import Finish, Leave

if TYPE_CHECKING:
    from ..ids import WorkerId
    from .limits import Timeouts
    from .state import State


class Observer:
    """One who looks at one run, with the times that it measured."""

    __slots__ = ("_beats", "_call", "_called", "_last", "_quiet", "_timeouts", "lively")

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._last = now
        self._quiet: dict[WorkerId, float] = {}
        """Seconds since something was heard of each."""
        self._beats: dict[WorkerId, int] = {}
        self.lively = False
        """Whether anybody's beats ever grew: they are not all dead since before it looked."""
        self._call: tuple[int, int] | None = None
        """The last call that is open: its round and number."""
        self._called = 0.0
        """Seconds for which it has been open."""

    def look(self, state: State, now: float) -> list[Leave | Finish]:
        """What is to be done about *state* at *now*, in this order."""
        passed = self._passed(now)
        self._last = now
        self._see(state, passed)
        due: list[Leave | Finish] = []
        silent = tuple(n for n, quiet in self._quiet.items() if quiet >= self._timeouts.silence)
        if silent:
            due.append(Leave(silent))
        if self._call is not None and self._called >= self._timeouts.last_call:
            due.append(Finish())
        return due

    def _see(self, state: State, passed: float) -> None:
        seats = state.seats()
        for gone in self._quiet.keys() - seats.keys():
            del self._quiet[gone], self._beats[gone]
        for node, seat in seats.items():
            if self._beats.get(node) == seat.beat:
                self._quiet[node] = min(self._quiet[node] + passed, self._timeouts.silence)
            else:
                self.lively = self.lively or node in self._beats
                self._beats[node], self._quiet[node] = seat.beat, 0.0
        call = (state.round, state.call) if state.calling else None
        self._called = min(self._called + passed, self._timeouts.last_call)
        if call != self._call:
            self._call, self._called = call, 0.0

    def heard(self, node: WorkerId, now: float) -> None:
        """Something else than the state told of *node*."""
        if node in self._quiet:  # the next look credits what passed before, too
            self._quiet[node] = -self._passed(now)

    def _passed(self, now: float) -> float:
        return min(max(0.0, now - self._last), self._timeouts.keep_alive)

    def pause(self) -> float | None:
        """Seconds from the last look to the next that is needed; None while nobody is there."""
        if not self._quiet:
            return None
        dues = [self._timeouts.silence - max(self._quiet.values()), self._timeouts.keep_alive]
        if self._call is not None:
            dues.append(self._timeouts.last_call - self._called)
        return max(0.0, min(dues))

"""An observer of a state has a clock: it finds silent nodes, and the end of the last call.

`RendezvousRun` is a run in a service, which keeps the state and observes it alone. Otherwise each
node has an observer (`Attendant`).

An observer measures times by its own clock, from the moment that *it* saw an event: a node's count
of beats grew, or a last call opened. It compares these times with no other clock, so clocks may
differ by any amount, and run at different speeds. Two observers may see an event at different times
and then judge at different times. The first to judge changes the state, and the other sees that.

A look adds at most one interval of keep-alives to a node's silence, however long ago the last look
was. The reason: an observer that was stopped, starved or suspended (maybe with all others) has seen
no beats in that time. Without the bound it would find everybody dead when it wakes up.
"""

from __future__ import annotations

import msgspec

from ..ids import WorkerId
from .limits import Timeouts
from .state import Command, Finish, Leave, State


class Observer(msgspec.Struct, eq=False):
    """One observer of one run, with the times that it measured."""

    _timeouts: Timeouts
    _last: float
    """The time of the last look; at first, of its making."""
    _quiet: dict[WorkerId, float] = {}
    """For each node, the seconds since its last sign of life."""
    _beats: dict[WorkerId, int] = {}
    lively: bool = False
    """Whether the beats of any node ever grew: so not all had died before this one looked."""
    _call: tuple[int, int] | None = None
    """The last call that is open: its round and number."""
    _called: float = 0.0
    """Seconds for which it has been open."""

    def look(self, state: State, now: float) -> list[Leave | Finish]:
        """The commands that *state* needs at *now*, in this order."""
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
        """*node* gave a sign of life outside the state."""
        if node in self._quiet:  # the next look also counts the time before this
            self._quiet[node] = -self._passed(now)

    def _passed(self, now: float) -> float:
        return min(max(0.0, now - self._last), self._timeouts.keep_alive)

    def pause(self) -> float | None:
        """Seconds from the last look to the next necessary one; None while nobody is there."""
        if not self._quiet:
            return None
        dues = [self._timeouts.silence - max(self._quiet.values()), self._timeouts.keep_alive]
        if self._call is not None:
            dues.append(self._timeouts.last_call - self._called)
        return max(0.0, min(dues))


class RendezvousRun:
    """A run in a service that keeps its state, by the service's clock.

    Nodes give signs of life by messages, not through the state, so a keep-alive costs no
    transition.
    """

    __slots__ = ("_observer", "log", "state")

    def __init__(self, state: State, timeouts: Timeouts, now: float) -> None:
        self.state = state
        self.log: list[Command] = []
        """The commands that changed the state, for a standby to repeat. The caller empties it."""
        self._observer = Observer(timeouts, now)
        self._observer.look(state, now)

    def do(self, command: Command, now: float) -> None:
        """Carry out *command*. Raises `RendezvousError`, with nothing changed."""
        before = self.state
        self.state = before.apply(command)
        if self.state is not before:
            self.log.append(command)
            if self.state.call != before.call:
                self.tick(now)  # the last call is measured from its opening

    def heard(self, node: WorkerId, now: float) -> None:
        """*node* is alive. This has no effect if it is not there any more."""
        self._observer.heard(node, now)

    def tick(self, now: float) -> None:
        """Do everything that is due."""
        for command in self._observer.look(self.state, now):
            self.do(command, now)

    def pause(self) -> float | None:
        """Seconds until `tick` has a duty; None while nobody is there."""
        return None if self.state.empty else self._observer.pause() or 0.0

"""One run in a service that keeps its state: its `Observer` is told of every event at once.

Nodes give signs of life by messages, not through the state, so a keep-alive costs no transition.
`log` notes every command that changed the state, for a standby to repeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .observer import Observer

if TYPE_CHECKING:
    from ..ids import WorkerId
    from .commands import Command
    from .limits import Timeouts
    from .state import State


class RendezvousRun:
    """The state of one run and its observer. Time is the service's own clock."""

    __slots__ = ("_observer", "log", "state")

    def __init__(self, state: State, timeouts: Timeouts, now: float) -> None:
        self.state = state
        self.log: list[Command] = []
        """The commands that changed the state; the code that sends them on takes them out."""
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

    def heard(self, node: WorkerId, now: float) -> bool:
        """*node* is alive. False if it is not there (any more): perhaps it was given up."""
        self._observer.heard(node, now)
        return self.state.seat(node) is not None

    def tick(self, now: float) -> None:
        """Do everything that is due."""
        for command in self._observer.look(self.state, now):
            self.do(command, now)

    def pause(self) -> float | None:
        """Seconds until `tick` has a duty; None while nobody is there."""
        return None if self.state.empty else self._observer.pause() or 0.0

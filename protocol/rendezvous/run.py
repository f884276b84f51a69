"""One run, where a service keeps its state: an `Observer` that is told of everything at once.

Nodes are heard of by messages, not through the state, so a keep-alive costs no transition. Every
command that changed the state is noted in `log`, for a standby to repeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .observer import Observer

if TYPE_CHECKING:
    from ..ids import WorkerId
    from .commands import Command
    from .limits import Timeouts
    from .state import State


class Run:
    """The state of one run, and who watches it. Time is the service's own clock."""

    __slots__ = ("_observer", "log", "state")

    def __init__(self, state: State, timeouts: Timeouts, now: float) -> None:
        self.state = state
        self.log: list[Command] = []
        """Commands that changed the state; whoever repeats them takes them out."""
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
        """*node* is alive. False if it is not there (any more): it was given up, say."""
        self._observer.heard(node, now)
        return self.state.seat(node) is not None

    def tick(self, now: float) -> None:
        """Do what is due."""
        for command in self._observer.look(self.state, now):
            self.do(command, now)

    def pause(self) -> float | None:
        """Seconds after which `tick` has something to do; None while nobody is there."""
        return None if self.state.empty else self._observer.pause() or 0.0

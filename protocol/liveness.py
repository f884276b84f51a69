"""Who is silent for too long: deaths that nobody witnesses.

A process that is stopped, or cut off, is not seen to exit; it only says nothing any more.
Whoever watches others (the registrar) counts *turns* of its own clock in which nothing was
heard of each. It does not compare times: if the watcher itself was stopped, starved or
suspended, it has missed turns like everybody else, and does not find all others dead when it
wakes up.

A silent one is *given up*: it counts as dead from then on, whatever it does later. If it
comes back it is told so (fencing), and never believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ids import WorkerId


class Liveness:
    """Counts the silent turns of those who promised to be heard of at least every few turns."""

    def __init__(self, patience: int) -> None:
        """Give up who is silent for *patience* turns in a row (1 or more)."""
        if patience < 1:
            raise ValueError(f"nobody can be heard of within {patience} turns")
        self._patience = patience
        self._silent: dict[WorkerId, int] = {}

    def watch(self, worker: WorkerId) -> None:
        """Expect to hear of *worker* from now on."""
        self._silent.setdefault(worker, 0)

    def forget(self, worker: WorkerId) -> None:
        """*worker* is not expected any more: it left, or is known to be dead."""
        self._silent.pop(worker, None)

    def heard(self, worker: WorkerId) -> bool:
        """*worker* said something. False if it is not expected: it was given up, say."""
        if worker not in self._silent:
            return False
        self._silent[worker] = 0
        return True

    def turn(self) -> list[WorkerId]:
        """A turn has passed: who is given up now, in the order in which they were watched."""
        for worker in self._silent:
            self._silent[worker] += 1
        given_up = [w for w, turns in self._silent.items() if turns >= self._patience]
        for worker in given_up:
            del self._silent[worker]
        return given_up

"""Endpoints that are silent for too long.

Nobody sees a stopped or cut-off process exit; it only falls silent. A watcher (the registrar)
counts the *ticks* of its own clock in which it heard nothing of an endpoint. It does not compare
times: a watcher that was itself stopped, starved or suspended has missed ticks like everybody else,
and does not find all others dead when it wakes up.

A silent endpoint is *given up*: it counts as dead from then on, whatever it does later. If it comes
back it is told so (fencing), and nobody believes its messages.
"""

from __future__ import annotations

from .ids import WorkerId


class Liveness:
    """Counts the silent ticks of endpoints that promised a sign of life every few ticks."""

    def __init__(self, patience: int) -> None:
        """Give an endpoint up after *patience* silent ticks in a row (1 or more)."""
        if patience < 1:
            raise ValueError(f"patience must be at least 1 tick, not {patience}")
        self._patience = patience
        self._silent: dict[WorkerId, int] = {}

    def watch(self, worker: WorkerId) -> None:
        """Expect to hear of *worker* from now on."""
        self._silent.setdefault(worker, 0)

    def forget(self, worker: WorkerId) -> None:
        """*worker* is not expected any more: it left, or is known to be dead."""
        self._silent.pop(worker, None)

    def heard(self, worker: WorkerId) -> bool:
        """*worker* is alive. Returns False if it is not expected: perhaps it was given up."""
        if worker not in self._silent:
            return False
        self._silent[worker] = 0
        return True

    def tick(self) -> list[WorkerId]:
        """A tick has passed: returns the endpoints given up now, in the order of `watch`."""
        for worker in self._silent:
            self._silent[worker] += 1
        given_up = [w for w, ticks in self._silent.items() if ticks >= self._patience]
        for worker in given_up:
            del self._silent[worker]
        return given_up

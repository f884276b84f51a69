"""The network of a simulation: packets take their time, and some are lost, or come twice."""

from __future__ import annotations

import random

USUAL = 0.02
"""Seconds that a packet takes on the average."""
LATE = 0.05
"""The share of packets that take up to a second."""


class Network:
    """Decides about packets; it carries none."""

    def __init__(self, seed: int, loss: float) -> None:
        self._dice = random.Random(f"network {seed}")
        self._loss = loss
        self._cut: dict[frozenset[str], float] = {}
        """Pairs that do not reach each other, and until when."""
        self.lost = 0
        self.repeated = 0

    def cut(self, one: str, other: str, until: float) -> None:
        """No packet passes between the two, before *until*."""
        self._cut[frozenset((one, other))] = until

    def delays(self, one: str, other: str, now: float) -> list[float]:
        """After how many seconds a packet that leaves now arrives: never, once, or twice."""
        if self._cut.get(frozenset((one, other)), 0.0) > now or self._dice.random() < self._loss:
            self.lost += 1
            return []
        if self._dice.random() < self._loss / 2:
            self.repeated += 1
            return [self._delay(), self._delay()]
        return [self._delay()]

    def _delay(self) -> float:
        if self._dice.random() < LATE:
            return self._dice.uniform(0.0, 1.0)
        return self._dice.expovariate(1 / USUAL)

"""The network of a simulation: packets are delayed, and some are lost or come twice."""

from __future__ import annotations

import random

USUAL = 0.02
"""The average delay of a packet, in seconds."""
LATE = 0.05
"""The share of packets with a delay of up to a second."""


class Network:
    """Decides on the delay of packets. It carries none."""

    def __init__(self, seed: int, loss: float) -> None:
        self._dice = random.Random(f"network {seed}")
        self._loss = loss
        self._cut: dict[frozenset[str], float] = {}
        """Pairs that do not reach each other, and the end of that."""
        self.lost = 0
        self.repeated = 0

    def cut(self, one: str, other: str, until: float) -> None:
        """Let no packet pass between the two before *until*."""
        self._cut[frozenset((one, other))] = until

    def delays(self, one: str, other: str, now: float) -> list[float]:
        """The delays of a packet that leaves now: none if it is lost, or one, or two."""
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

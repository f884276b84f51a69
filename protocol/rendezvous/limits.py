"""What the nodes of a run agree on, and for how long each of them waits."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Limits:
    """How many nodes a round may have.

    Raises:
        ValueError: there must be at least 1, and the largest number is not below the smallest.
    """

    min_nodes: int
    max_nodes: int

    def __post_init__(self) -> None:
        for name, number in (("min_nodes", self.min_nodes), ("max_nodes", self.max_nodes)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{name} is a whole number, not {number!r}")
        if self.min_nodes < 1:
            raise ValueError(f"a round needs at least 1 node: min_nodes is {self.min_nodes}")
        if self.max_nodes < self.min_nodes:
            raise ValueError(
                f"max_nodes is {self.max_nodes}, which is less than min_nodes, {self.min_nodes}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long things may take, in seconds by the clock of whoever waits.

    Raises:
        ValueError: one of them is not positive.
    """

    join: float = 600.0
    """For a round to be formed, from the moment that a node joins."""
    last_call: float = 30.0
    """For further nodes to come, from the moment that the smallest number is there."""
    close: float = 30.0
    """For a run to be closed."""
    heartbeat: float = 5.0
    """For one keep-alive to arrive."""
    keep_alive: float = 5.0
    """Between two keep-alives of a node."""
    attempts: int = 3
    """Keep-alives that a node may miss; with the last it is given up for dead."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{field.name} is a number, not {value!r}")
            if not 0 < value < float("inf"):
                raise ValueError(f"{field.name} must be more than 0 and finite, not {value}")
        if self.attempts != int(self.attempts):
            raise ValueError(f"attempts is a whole number, not {self.attempts}")

    @property
    def silence(self) -> float:
        """Seconds without a word after which a node is given up for dead."""
        return self.keep_alive * self.attempts

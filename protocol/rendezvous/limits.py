"""The numbers and timeouts that the nodes of a run agree on."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """How many nodes a round may have.

    Raises:
        ValueError: *min_nodes* is less than 1, or *max_nodes* is less than *min_nodes*.
        TypeError: one of them is not a whole number.
    """

    min_nodes: int
    max_nodes: int

    def __post_init__(self) -> None:
        for name, number in (("min_nodes", self.min_nodes), ("max_nodes", self.max_nodes)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{name} must be a whole number, not {number!r}")
        if self.min_nodes < 1:
            raise ValueError(f"a round needs at least 1 node: min_nodes is {self.min_nodes}")
        if self.max_nodes < self.min_nodes:
            raise ValueError(
                f"max_nodes is {self.max_nodes}, which is less than min_nodes, {self.min_nodes}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long things may take, in seconds by the waiter's clock.

    A `datetime.timedelta` is converted.

    Raises:
        ValueError: one of them is not positive.
        TypeError: one of them is not a number.
    """

    join: float = 600.0
    """From the time when a node joins until its round has formed."""
    last_call: float = 30.0
    """From the arrival of the smallest number of nodes until the round closes to further ones."""
    close: float = 30.0
    """For closing a run, and for leaving it."""
    heartbeat: float = 5.0
    """For one keep-alive, or another short request, to be answered."""
    keep_alive: float = 5.0
    """From one keep-alive of a node to the next."""
    attempts: int = 3
    """A node may miss this many keep-alives; with the last it is given up for dead."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if hasattr(value, "total_seconds") and field.name != "attempts":
                value = value.total_seconds()
                object.__setattr__(self, field.name, value)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{field.name} must be a number, not {value!r}")
            if not 0 < value < float("inf"):
                raise ValueError(f"{field.name} must be more than 0 and finite, not {value}")
        if self.attempts != int(self.attempts):
            raise ValueError(f"attempts must be a whole number, not {self.attempts}")

    @classmethod
    def of(cls, given: object) -> Timeouts:
        """*given*, or the defaults for None. Torch's `RendezvousTimeout` is converted.

        Raises `TypeError` for anything else.
        """
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        names = ("join", "last_call", "close", "heartbeat")
        if not all(hasattr(getattr(given, name, None), "total_seconds") for name in names):
            raise TypeError(
                "the timeouts must be farref.elastic.Timeouts or torch's RendezvousTimeout, not "
                f"{given!r}"
            )
        return cls(**{name: getattr(given, name) for name in names})

    @property
    def silence(self) -> float:
        """A node that is silent for this many seconds is given up for dead."""
        return self.keep_alive * self.attempts

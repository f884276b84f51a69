"""What a rendezvous handler is made from: what a user of `torchrun` gives on the command line."""

from __future__ import annotations

from typing import Any

from ..protocol.rendezvous import Limits, Timeouts

_TRUE = ("1", "true", "t", "yes", "y")
_FALSE = ("0", "false", "f", "no", "n")


class RendezvousParameters:
    """Which rendezvous, where, and of whom.

    Args:
        backend: the name of the handler, as registered.
        endpoint: where the state of the run is kept; its form is the handler's.
        run_id: which run.
        min_nodes: how many nodes a round needs.
        max_nodes: how many it may have.
        local_addr: the address by which others reach this node.
        config: whatever else the handler understands (``--rdzv-conf``).

    Raises:
        ValueError: a name is empty, or the numbers of nodes are not as `Limits` wants them.
    """

    def __init__(  # noqa: PLR0917 - the order is torch's
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **config: Any,
    ) -> None:
        if not backend:
            raise ValueError("the name of the rendezvous backend is empty")
        checked_run_id(run_id)
        Limits(min_nodes, max_nodes)
        self.backend = backend
        self.endpoint = endpoint
        self.run_id = run_id
        self.min_nodes = min_nodes
        self.max_nodes = max_nodes
        self.local_addr = local_addr
        self.config = config

    def get(self, key: str, default: Any = None) -> Any:
        """What was given for *key*."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """What was given for *key*, as true or false. Raises `ValueError`."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        said = str(value).strip().lower() if isinstance(value, str | int) else ""
        if said in _TRUE or said in _FALSE:
            return said in _TRUE
        raise ValueError(f"{key} is true or false, not {value!r}")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """What was given for *key*, as a whole number. Raises `ValueError`."""
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key} is a whole number, not {value!r}") from error

    def get_as_float(self, key: str, default: float | None = None) -> float | None:
        """What was given for *key*, as a number. Raises `ValueError`."""
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key} is a number, not {value!r}") from error

    def timeouts(self) -> Timeouts:
        """What was given of the timeouts, in seconds.

        ``join_timeout``, ``last_call_timeout``, ``close_timeout``, ``heartbeat_timeout``,
        ``keep_alive_interval``, and the number ``keep_alive_max_attempt``.

        Raises:
            ValueError: one of them is not positive, or no number.
        """
        given = {
            "join": self.get_as_float("join_timeout"),
            "last_call": self.get_as_float("last_call_timeout"),
            "close": self.get_as_float("close_timeout"),
            "heartbeat": self.get_as_float("heartbeat_timeout"),
            "keep_alive": self.get_as_float("keep_alive_interval"),
            "attempts": self.get_as_int("keep_alive_max_attempt"),
        }
        return Timeouts(**{name: each for name, each in given.items() if each is not None})  # type: ignore[arg-type]


def checked_run_id(run_id: str) -> str:
    """*run_id*; raises `ValueError` if it is none."""
    if not run_id:
        raise ValueError("the run id is empty")
    return run_id

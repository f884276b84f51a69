"""The note's interface: handlers, their parameters, and a registry of backends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from ...protocol.rendezvous.limits import RoundLimits, Timeouts

T = TypeVar("T")
_TIMES = {
    "join": "join_timeout",
    "last_call": "last_call_timeout",
    "close": "close_timeout",
    "heartbeat": "heartbeat_timeout",
    "keep_alive": "keep_alive_interval",
}
_TRUE = ("1", "true", "t", "yes", "y")
_FALSE = ("0", "false", "f", "no", "n")


def checked_run_id(run_id: str) -> str:
    """*run_id*; raises `ValueError` if it is empty."""
    if not run_id:
        raise ValueError("run_id must be a non-empty text")
    return run_id


def checked_backend(backend: str) -> str:
    """*backend*; raises `ValueError` if it is empty."""
    if not backend:
        raise ValueError("backend must be a non-empty text, the name of the rendezvous backend")
    return backend


class RendezvousHandler(ABC):
    """One node's side of the rendezvous of one run, over any backend."""

    @property
    def use_agent_store(self) -> bool:
        """Whether the trainers of torch's agents share the store of the agent of rank 0."""
        return False

    @abstractmethod
    def get_backend(self) -> str:
        """The name of the backend."""

    @abstractmethod
    def get_run_id(self) -> str:
        """The run's name."""

    @abstractmethod
    def next_rendezvous(self) -> Any:
        """Take part in the next round; blocks until it is formed.

        Raises:
            RendezvousClosedError: the run was closed (`RendezvousGracefulExitError` for a spare).
            RendezvousTimeoutError: too few nodes came in time. This node has left the run.
            RendezvousConnectionError: the service or backend cannot be reached.
            RendezvousStateError: the backend's state is corrupt, or the run is for other numbers of
                nodes.
        """

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the run was closed, so that no further round will be formed."""

    @abstractmethod
    def set_closed(self) -> None:
        """Close the run for all."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """The number of late nodes that wait for the next round. If above 0, meet them.

        At least 1 if this node's round is not whole any more: a member left, died or has gone to
        meet others, or this node itself was given up for dead. 0 once the run is closed.
        """

    @abstractmethod
    def shutdown(self) -> bool:
        """Close the run and leave it; returns whether it succeeded. Safe to call again."""


class RendezvousParameters:
    """The parameters of a handler.

    Args:
        backend: the name of a registered backend.
        endpoint: the backend's address, usually ``host[:port]``.
        run_id: the run's name.
        min_nodes: the least number of nodes in a round.
        max_nodes: the largest number of nodes in a round.
        local_addr: this node's address for the others.
        config: further options of the backend.

    Raises:
        ValueError: the backend or the run has no name, or the numbers are out of range.
    """

    def __init__(  # noqa: PLR0917 - as in the note, by position too
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **config: Any,
    ) -> None:
        self.backend = checked_backend(backend)
        self.endpoint = endpoint
        self.run_id = checked_run_id(run_id)
        RoundLimits(min_nodes, max_nodes)  # checks them
        self.min_nodes = min_nodes
        self.max_nodes = max_nodes
        self.local_addr = local_addr
        self.config = config

    @classmethod
    def of(cls, params: Any) -> RendezvousParameters:
        """*params*, or torch's parameters converted."""
        if isinstance(params, cls):
            return params
        return cls(
            params.backend,
            params.endpoint,
            params.run_id,
            params.min_nodes,
            params.max_nodes,
            params.local_addr,
            **params.config,
        )

    def get(self, key: str, default: Any = None) -> Any:
        """The option *key* of *config*."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """The option *key*, as yes or no. Raises `ValueError` if it is neither."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            value = str(value)
        if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise ValueError(f"rendezvous option {key!r} must be yes or no, not {value!r}")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """The option *key*, converted by `int`. Raises `ValueError` if that fails."""
        return self._as(int, "a whole number", key, default)

    def get_as_float(self, key: str, default: float | None = None) -> float | None:
        """The option *key*, converted by `float`. Raises `ValueError` if that fails."""
        return self._as(float, "a number", key, default)

    def _as(self, kind: Callable[[Any], T], what: str, key: str, default: T | None) -> T | None:
        value = self.get(key, default)
        try:
            return None if value is None else kind(value)
        except (ValueError, TypeError):
            raise ValueError(f"rendezvous option {key!r} must be {what}, not {value!r}") from None

    def timeouts(self) -> Timeouts:
        """The timeouts in *config*.

        ``join_timeout``, ``last_call_timeout``, ``close_timeout``, ``heartbeat_timeout`` and
        ``keep_alive_interval``, in seconds; and ``keep_alive_max_attempt``, a whole number.

        Raises:
            ValueError: one of them is not a positive number.
        """
        given = {name: self.get_as_float(option) for name, option in _TIMES.items()}
        given["attempts"] = self.get_as_int("keep_alive_max_attempt")
        known = {name: value for name, value in given.items() if value is not None}
        return Timeouts(**known)  # type: ignore[arg-type] # mypy cannot tell them apart


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]
"""Makes the handlers of one backend."""

_BY_HAND = (
    "make the handler by farref.elastic.DynamicRendezvousHandler.from_backend(run_id, store, "
    "farref.elastic.{backend}, min_nodes, max_nodes)"
)
_NAMES_OF_TORCH = {
    "c10d": _BY_HAND.format(backend="c10d.C10dRendezvousBackend(store, run_id)"),
    "etcd": _BY_HAND.format(backend="etcd.EtcdRendezvousBackend(client, run_id)"),
    "etcd-v2": _BY_HAND.format(backend="etcd.EtcdRendezvousBackend(client, run_id)"),
    "static": "for fixed ranks call farref.rendezvous(run_id, min_nodes=n, order=rank)",
}
"""The replacement for each name that torch's registry has and this one lacks."""


class RendezvousHandlerRegistry:
    """Makes handlers by the name of their backend."""

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Have *creator* make the handlers of *backend*.

        Raises:
            ValueError: *backend* is empty, or has another creator already.
        """
        known = self._creators.setdefault(checked_backend(backend), creator)
        if known is not creator:
            raise ValueError(f"backend {backend!r} is registered already, with {known!r}")

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """A handler for *params*.

        Raises:
            ValueError: that backend is not registered.
            NotImplementedError: the same, for a name of torch's: the text has the replacement.
            RuntimeError: its creator made a handler of another backend.
        """
        creator = self._creators.get(params.backend)
        if creator is None:
            known = ", ".join(sorted(self._creators)) or "none"
            if params.backend in _NAMES_OF_TORCH:
                raise NotImplementedError(
                    f"this registry makes no handlers of {params.backend!r} (it has: {known}); "
                    f"{_NAMES_OF_TORCH[params.backend]}, or register a creator of your own"
                )
            raise ValueError(
                f"no rendezvous backend {params.backend!r} is registered; there are: {known}"
            )
        handler = creator(params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"the creator for backend {params.backend!r} made a handler of backend "
                f"{handler.get_backend()!r}"
            )
        return handler

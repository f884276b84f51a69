"""The interfaces between the parts of a rendezvous: backend, store, and a handler's result.

The names are those of torch's elastic rendezvous. Nothing here imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ..protocol.rendezvous import Member

Token = Any
"""A backend returns it with a state, to recognise later whether that state is still stored."""


class RendezvousBackend(ABC):
    """Keeps the state of one run, shared by compare-and-set.

    It does not understand the state. One thread at a time calls its methods. They raise
    `RendezvousConnectionError` when the state cannot be reached.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the backend, also for messages."""

    @abstractmethod
    def get_state(self) -> tuple[bytes, Token] | None:
        """The stored state and its token; None if nothing is stored."""

    @abstractmethod
    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Store *state* if the state of *token* is still stored (None: if no state is stored).

        Returns the state that is then stored, its token, and whether this call stored *state*; None
        if no state is stored. A stale or malformed token raises no error: it matches no state.
        """


@dataclass(frozen=True, slots=True)
class RendezvousStoreInfo:
    """The bootstrap address: at first, the members of a round find rank 0 there."""

    master_addr: str
    master_port: int

    @classmethod
    def of(cls, member: Member) -> RendezvousStoreInfo:
        """The address that *member* gave when it joined, a new one for each round."""
        host, _, port = member.address.rpartition(":")
        return cls(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class RendezvousInfo:
    """A node's view of a round that it is a member of."""

    store: Any
    """The store of this round's members alone: it has a prefix of the run and round."""
    rank: int
    world_size: int
    bootstrap_store_info: RendezvousStoreInfo
    round: int
    members: tuple[Member, ...]
    """All members, by rank, with their addresses."""


def _for_key(name: str) -> Any:
    """The store's method *name*, for a key of the view."""

    def method(self: PrefixStore, key: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._store, name)(self._key(key), *args, **kwargs)

    method.__doc__ = f"`{name}` of the store, for *key* of this view."
    return method


def _for_keys(name: str) -> Any:
    """The store's method *name*, for several keys of the view."""

    def method(self: PrefixStore, keys: Sequence[str], *args: Any, **kwargs: Any) -> Any:
        return getattr(self._store, name)([self._key(key) for key in keys], *args, **kwargs)

    method.__doc__ = f"`{name}` of the store, for *keys* of this view."
    return method


class PrefixStore:
    """A view of another store, in which each key has a prefix.

    It has the methods of `torch.distributed.Store`: those of the store behind it, which get the
    whole keys. `num_keys` counts the keys of the whole store, as torch's does.
    """

    def __init__(self, prefix: str, store: Any) -> None:
        self._prefix = prefix
        self._store = store

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    set = _for_key("set")
    get = _for_key("get")
    add = _for_key("add")
    append = _for_key("append")
    compare_set = _for_key("compare_set")
    delete_key = _for_key("delete_key")
    queue_push = _for_key("queue_push")
    queue_pop = _for_key("queue_pop")
    queue_len = _for_key("queue_len")
    multi_get = _for_keys("multi_get")
    multi_set = _for_keys("multi_set")
    check = _for_keys("check")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all *keys* exist, for *timeout*, or the store's own timeout."""
        more = () if timeout is None else (timeout,)
        self._store.wait([self._key(key) for key in keys], *more)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until *world_size* callers have come to *key*, for *timeout* at most."""
        more = () if timeout is None else (timeout,)
        self._store.barrier(self._key(key), world_size, *more)

    def num_keys(self) -> int:
        """How many keys the whole store has."""
        return int(self._store.num_keys())

    def list_keys(self) -> list[str]:
        """The keys of this view, without the prefix."""
        here = self._key("")
        return [key[len(here) :] for key in self._store.list_keys() if key.startswith(here)]

    def clone(self) -> PrefixStore:
        """The same view of a clone of the store, which has a connection of its own."""
        return PrefixStore(self._prefix, self._store.clone())

    @property
    def timeout(self) -> timedelta:
        """How long to wait for a key."""
        found: timedelta = self._store.timeout
        return found

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait as long as *timeout* for a key."""
        self._store.set_timeout(timeout)

"""The interfaces between the parts of a rendezvous: backend, store, and a handler's result.

The names are those of torch's elastic rendezvous. Nothing here imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..protocol.rendezvous.state import Member

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


class PrefixStore:
    """A view of another store, in which each key has a prefix."""

    def __init__(self, prefix: str, store: Any) -> None:
        self._prefix = prefix
        self._store = store

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set(self, key: str, value: bytes | str) -> None:
        """Store *value*."""
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        """Wait for the value of *key*, until the timeout, and return it."""
        return bytes(self._store.get(self._key(key)))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for the values of all *keys*, until the timeout, and return them."""
        return list(self._store.multi_get([self._key(key) for key in keys]))

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        """Store the values of *keys*."""
        self._store.multi_set([self._key(key) for key in keys], list(values))

    def add(self, key: str, amount: int) -> int:
        """Add *amount* to the number at *key* (0 if there is none). Return the sum."""
        return int(self._store.add(self._key(key), amount))

    def append(self, key: str, value: bytes | str) -> None:
        """Append *value* to the value at *key*."""
        self._store.append(self._key(key), value)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all *keys* exist, for *timeout*, or the store's own timeout."""
        more = () if timeout is None else (timeout,)
        self._store.wait([self._key(key) for key in keys], *more)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all *keys* exist."""
        return bool(self._store.check([self._key(key) for key in keys]))

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        """Store *value* if *expected* is stored. Return the value that is then stored."""
        return bytes(self._store.compare_set(self._key(key), expected, value))

    def delete_key(self, key: str) -> bool:
        """Remove *key*. Return whether it existed."""
        return bool(self._store.delete_key(self._key(key)))

    def num_keys(self) -> int:
        """How many keys the whole store has."""
        return int(self._store.num_keys())

    def list_keys(self) -> list[str]:
        """The keys of this view, without the prefix."""
        here = self._key("")
        return [key[len(here) :] for key in self._store.list_keys() if key.startswith(here)]

    def queue_push(self, key: str, value: bytes | str) -> None:
        """Append *value* to the queue at *key*."""
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of the queue at *key*."""
        return bytes(self._store.queue_pop(self._key(key), block))

    def queue_len(self, key: str) -> int:
        """How many values the queue at *key* has."""
        return int(self._store.queue_len(self._key(key)))

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until *world_size* callers have come to *key*, for *timeout* at most."""
        more = () if timeout is None else (timeout,)
        self._store.barrier(self._key(key), world_size, *more)

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

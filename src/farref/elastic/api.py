"""What the parts of a rendezvous are to each other: backend, store, and what a handler returns.

The names are those of torch's elastic rendezvous, which users of `torchrun` know; nothing here
imports torch.
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
"""What a backend hands out with a state, to recognise that it is stored still."""


def checked_run_id(run_id: str) -> str:
    """*run_id*; raises `ValueError` if it is none."""
    if not run_id:
        raise ValueError("the run has no id: it must be a non-empty text")
    return run_id


class RendezvousBackend(ABC):
    """Where the state of one run is kept, shared by compare-and-set.

    It knows nothing of what it keeps. Its methods are called by one thread at a time, and raise
    `RendezvousConnectionError` when the state cannot be reached.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What the backend is called, in messages too."""

    @abstractmethod
    def get_state(self) -> tuple[bytes, Token] | None:
        """The stored state and its token; None if nothing is stored."""

    @abstractmethod
    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Store *state* if what *token* came with is stored still (None: if nothing is).

        Returns what is stored then, its token, and whether *state* was stored by this; None if
        nothing is stored. A token that is stale or malformed raises nothing: it fits nothing.
        """


@dataclass(frozen=True, slots=True)
class RendezvousStoreInfo:
    """Where the members of a round find the one of rank 0, to begin with: the bootstrap address."""

    master_addr: str
    master_port: int

    @classmethod
    def of(cls, member: Member) -> RendezvousStoreInfo:
        """What *member* said when it joined: an address that is made afresh for each round."""
        host, _, port = member.address.rpartition(":")
        return cls(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class RendezvousInfo:
    """What a node has of a round that it is a member of."""

    store: Any
    """For the members of this round alone: under a prefix of this run and round."""
    rank: int
    world_size: int
    bootstrap_store_info: RendezvousStoreInfo
    round: int
    members: tuple[Member, ...]
    """Everybody in it, by rank, with their addresses."""


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
        """The value of *key*; waits for it, until the timeout."""
        return bytes(self._store.get(self._key(key)))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The value of each of *keys*; waits for all of them, until the timeout."""
        return list(self._store.multi_get([self._key(key) for key in keys]))

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        """Store the values of *keys*."""
        self._store.multi_set([self._key(key) for key in keys], list(values))

    def add(self, key: str, amount: int) -> int:
        """Add *amount* to the number at *key*, 0 if there is none; returns the sum."""
        return int(self._store.add(self._key(key), amount))

    def append(self, key: str, value: bytes | str) -> None:
        """Store *value* behind what is stored at *key*."""
        self._store.append(self._key(key), value)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all *keys* are there, for *timeout*, or the store's own."""
        names = [self._key(key) for key in keys]
        if timeout is None:
            self._store.wait(names)
        else:
            self._store.wait(names, timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all *keys* are there."""
        return bool(self._store.check([self._key(key) for key in keys]))

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        """Store *value* if *expected* is stored; returns what is stored then."""
        return bytes(self._store.compare_set(self._key(key), expected, value))

    def delete_key(self, key: str) -> bool:
        """Remove *key*; whether it was there."""
        return bool(self._store.delete_key(self._key(key)))

    def num_keys(self) -> int:
        """How many keys the whole store has."""
        return int(self._store.num_keys())

    @property
    def timeout(self) -> timedelta:
        """How long to wait for a key."""
        found: timedelta = self._store.timeout
        return found

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait as long as *timeout* for a key."""
        self._store.set_timeout(timeout)

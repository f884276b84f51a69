"""The work of peers with the interface of PyTorch RPC: PyTorch itself, and farref.

Both run the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..peer import Clock, WeighedPeer, resident, until
from ..things import Thing, echo, live

B, C = "W0", "W1"
kept: list[Any] = []
"""The references that this worker process holds beyond its calls."""


class RpcPeer(WeighedPeer):
    """A peer with `rpc_sync`, `rpc_async` and `remote`."""

    api: Any
    """The module with these functions."""
    make: Callable[[int], list[Any]]
    """At a worker: references to that many new objects."""
    names: list[str]
    held: list[Any]

    # ---- calls

    def call(self, amount: int, _: int) -> float:
        """Round trips."""
        with Clock() as clock:
            for number in range(amount):
                self.api.rpc_sync(B, echo, (number,))
        return clock.seconds

    def in_flight(self, amount: int, _: int) -> float:
        """All of them at once."""
        with Clock() as clock:
            futures = [self.api.rpc_async(B, echo, (number,)) for number in range(amount)]
            for future in futures:
                future.wait()
        return clock.seconds

    def everybody(self, amount: int, _: int) -> float:
        """A call to each worker at once."""
        with Clock() as clock:
            for number in range(amount):
                for future in [self.api.rpc_async(name, echo, (number,)) for name in self.names]:
                    future.wait()
        return clock.seconds

    # ---- references

    def remote_fetch(self, amount: int, _: int) -> float:
        """Make an object at a worker, and fetch it."""
        with Clock() as clock:
            for number in range(amount):
                self.api.remote(B, echo, (number,)).to_here()
        return clock.seconds

    def share(self, amount: int, _: int) -> float:
        """A reference of the program to B's object, in a call to C."""
        return self._share(touch, amount)

    def share_fetch(self, amount: int, _: int) -> float:
        """The same, and C fetches the object."""
        return self._share(fetch, amount)

    def _share(self, work: Any, amount: int) -> float:
        ref = self.api.remote(B, echo, (1,))
        ref.to_here()
        with Clock() as clock:
            for _ in range(amount):
                self.api.rpc_sync(C, work, (ref,))
        return clock.seconds

    def references(self, amount: int, point: int) -> float:
        """*point* references of the program to B's objects, in one call to C."""
        refs = self.api.rpc_sync(B, self.make, (point,))
        with Clock() as clock:
            for _ in range(amount):
                if self.api.rpc_sync(C, count, (refs,)) != point:
                    raise AssertionError("some are missing")
        del refs
        self._wait_until_freed()
        return clock.seconds

    def create_drop(self, amount: int, _: int) -> float:
        """Objects made at B and dropped, until the last is freed."""
        with Clock() as clock:
            for _ in range(amount):
                self.api.remote(B, Thing)
            self._wait_until_freed()
        return clock.seconds

    def _wait_until_freed(self) -> None:
        until(lambda: self.api.rpc_sync(B, live) == len(self.held))

    # ---- scaling

    def share_holding(self, amount: int, point: int) -> float:
        """`share`, while the program holds *point* other references to B's objects."""
        if len(self.held) != point:
            self.held.clear()
            self._wait_until_freed()
            self.held += self.api.rpc_sync(B, self.make, (point,))
        return self.share(amount, point)

    def holders(self, amount: int, _: int) -> float:
        """One object that every worker gets, keeps and drops, until it is freed."""
        with Clock() as clock:
            for _ in range(amount):
                ref = self.api.remote(B, Thing)
                for future in [self.api.rpc_async(name, keep, (ref,)) for name in self.names[1:]]:
                    future.wait()
                del ref
                for future in [self.api.rpc_async(name, let_go) for name in self.names[1:]]:
                    future.wait()
                self._wait_until_freed()
        return clock.seconds

    def grown(self, amount: int) -> tuple[int, int]:
        warm = self.api.rpc_sync(B, self.make, (100,))
        before = resident(), self.api.rpc_sync(B, resident)
        refs = self.api.rpc_sync(B, self.make, (amount,))
        after = resident(), self.api.rpc_sync(B, resident)
        del warm, refs
        return after[0] - before[0], after[1] - before[1]


# ---- functions for the workers


def touch(_ref: Any) -> int:
    """Take a reference."""
    return 1


def fetch(ref: Any) -> Any:
    """Take a reference, and fetch."""
    return ref.to_here()


def count(refs: list[Any]) -> int:
    """The number of references."""
    return len(refs)


def keep(ref: Any) -> None:
    """Hold the reference beyond the call."""
    kept.append(ref)


def let_go() -> None:
    """Hold nothing any more."""
    kept.clear()

"""The work of the peers that have references: farref, PyTorch and Ray run the same code.

A peer says how it calls, sends, fetches and makes. References travel in lists: Ray would pass the
value of a bare one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ..peer import Clock, Peer, resident, timed
from ..things import Thing, added_up, array, checked, echo, some_bytes

Kind = Callable[[int], Any]
"""Makes a value of a size."""
B, C = 0, 1


def generated(kind: Kind, size: int, number: int) -> Iterator[Any]:
    for _ in range(number):
        yield kind(size)


def listed(kind: Kind, size: int, number: int) -> list[Any]:
    return list(generated(kind, size, number))


kept: list[Any] = []
"""The references that this worker process holds beyond its calls."""


class ReferencePeer(Peer, ABC):
    """A peer with calls, references, and processes whose memory can be measured."""

    make: Callable[[int], list[Any]]
    """At a worker: references to that many new objects."""
    echo: Callable[[int], int] = staticmethod(echo)
    """The least that a call can do."""
    shows_freeing = True
    """Whether the end of an object can be observed."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.everyone = range(workers)
        self.held: list[Any] = []

    @abstractmethod
    def send(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        """Begin a call to *worker*."""

    @abstractmethod
    def results(self, sent: list[Any]) -> list[Any]:
        """Wait for the results of calls."""

    @abstractmethod
    def ask(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        """The result of a call to *worker*."""

    @abstractmethod
    def remote(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        """A reference to the result of a call to *worker*, which may not be there yet."""

    @abstractmethod
    def get(self, ref: Any) -> Any:
        """The value of a reference."""

    @abstractmethod
    def made(self) -> list[Any]:
        """A reference to a new object of B's, in a list."""

    @abstractmethod
    def lasting(self) -> list[Any]:
        """A reference to an object of B's that is there, in a list."""

    @abstractmethod
    def freed(self) -> None:
        """Wait until B has freed every object that is not held, as far as it can be seen."""

    @abstractmethod
    def values(
        self, number: int, size: int, kind: Kind = array, *, frozen: bool = False
    ) -> list[Any]:
        """References to *number* values of this *kind* and *size* at B, which are there."""

    # ---- calls

    def call(self, amount: int, _: int) -> float:
        return timed(amount, lambda number: self.ask(B, self.echo, number))

    def in_flight(self, amount: int, _: int) -> float:
        return timed(
            1, lambda _: self.results([self.send(B, echo, number) for number in range(amount)])
        )

    method, methods_in_flight = call, in_flight
    """Where a worker is an actor, a call is one of a method."""

    def everybody(self, amount: int, _: int) -> float:
        return timed(amount, lambda number: self._all(self.everyone, echo, number))

    def _all(self, workers: range, work: Callable[..., Any], *args: Any) -> None:
        self.results([self.send(worker, work, *args) for worker in workers])

    # ---- references

    def remote_fetch(self, amount: int, _: int) -> float:
        return timed(amount, lambda number: self.get(self.remote(B, echo, number)))

    def share(self, amount: int, _: int) -> float:
        refs = self.lasting()
        return timed(amount, lambda _: self.ask(C, touch, refs))

    def share_fetch(self, amount: int, _: int) -> float:
        refs = self.lasting()
        return timed(amount, lambda _: self.ask(C, fetch, refs))

    def references(self, amount: int, point: int) -> float:
        refs = self.ask(B, self.make, point)
        with Clock() as clock:
            for _ in range(amount):
                if self.ask(C, count, refs) != point:
                    raise AssertionError("some are missing")
        del refs
        self.freed()
        return clock.seconds

    def create_drop(self, amount: int, _: int) -> float:
        with Clock() as clock:
            for _ in range(amount):
                self.remote(B, Thing)
            self.freed()
        return clock.seconds

    # ---- streams

    def items(self, kind: Kind, size: int, number: int) -> Iterator[Any]:
        """The items of a generator at B. Only peers that `Benchmark.peers` names have them."""
        raise NotImplementedError

    def stream(self, amount: int, _: int) -> float:
        return self._iterate(amount, int, 1)

    def stream_arrays(self, amount: int, _: int) -> float:
        return self._iterate(amount, array, 1_000)

    def _iterate(self, amount: int, kind: Kind, size: int) -> float:
        with Clock() as clock:
            got = sum(1 for _ in self.items(kind, size, amount))
        if got != amount:
            raise AssertionError(f"{got} of {amount} items came")
        return clock.seconds

    def stream_at_once(self, amount: int, _: int) -> float:
        return timed(1, lambda _: self.get(self.remote(B, listed, int, 1, amount)))

    # ---- values

    def value(self, amount: int, point: int) -> float:
        return self._fetch(self.values(amount, point), checked, point)

    def value_read(self, amount: int, point: int) -> float:
        return self._fetch(self.values(amount, point), added_up, point)

    def fetch_bytes(self, amount: int, point: int) -> float:
        return self._fetch(self.values(amount, point, some_bytes), checked, point)

    def frozen(self, amount: int, point: int) -> float:
        return self._fetch(self.values(amount, point, frozen=True), checked, point)

    def frozen_read(self, amount: int, point: int) -> float:
        return self._fetch(self.values(amount, point, frozen=True), added_up, point)

    def frozen_again(self, amount: int, point: int) -> float:
        refs = self.values(1, point, frozen=True)
        self.get(refs[0])
        return self._fetch(refs * amount, checked, point)

    def _fetch(self, refs: list[Any], look: Callable[[Any, int], None], size: int) -> float:
        return timed(len(refs), lambda number: look(self.get(refs[number]), size))

    # ---- growth

    def share_holding(self, amount: int, point: int) -> float:
        if len(self.held) != point:
            self.held.clear()
            self.freed()
            self.held += self.ask(B, self.make, point)
        return self.share(amount, point)

    def holders(self, amount: int, _: int) -> float:
        with Clock() as clock:
            for _ in range(amount):
                self._all(self.everyone[1:], keep, self.made())
                self._all(self.everyone[1:], let_go)
                if self.shows_freeing:
                    self.freed()
        return clock.seconds

    def memory_holder(self, amount: int, _: int) -> float:
        return self._grown(amount)[0]

    def memory_owner(self, amount: int, _: int) -> float:
        return self._grown(amount)[1]

    def _grown(self, amount: int) -> tuple[int, int]:
        warm = self.ask(B, self.make, 100)
        before = resident(), self.ask(B, resident)
        refs = self.ask(B, self.make, amount)
        after = resident(), self.ask(B, resident)
        del warm, refs
        return after[0] - before[0], after[1] - before[1]


# ---- functions for the workers


def touch(_refs: list[Any]) -> int:
    return 1


def fetch(refs: list[Any]) -> Any:
    return refs[0].to_here()


def count(refs: list[Any]) -> int:
    return len(refs)


def keep(refs: list[Any]) -> None:
    """Hold the references beyond the call."""
    kept.extend(refs)


def let_go() -> None:
    kept.clear()

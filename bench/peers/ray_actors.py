"""Ray: this process is the driver, its workers are actors."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray

from ..peer import Clock, WeighedPeer, resident
from ..things import added_up, array, checked

if TYPE_CHECKING:
    from collections.abc import Callable

STORE_BYTES = 4 << 30
"""The size of its object store: a value of 1 GB is there twice for a moment."""


class Crew:
    """Runs the driver's requests."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def echo(self, number: int) -> int:
        """The least that a call can do."""
        return number

    def touch(self, _refs: list[Any]) -> int:
        """Take a reference, inside a list, or Ray passes the value."""
        return 1

    def fetch(self, refs: list[Any]) -> Any:
        """Take a reference, and fetch."""
        return ray.get(refs[0])

    def make(self, number: int) -> list[Any]:
        """References to *number* new objects, which this actor owns."""
        return [ray.put(1) for _ in range(number)]

    def make_array(self, size: int) -> list[Any]:
        """A reference to an array, which this actor owns."""
        return [ray.put(array(size))]

    def count(self, refs: list[Any]) -> int:
        """The number of references."""
        return len(refs)

    def keep(self, refs: list[Any]) -> None:
        """Hold the references beyond the call."""
        self.kept += refs

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.kept.clear()

    def link(self, left: int, workers: list[Any]) -> Any:
        """A reference to the other worker's result for the remaining links; at the end a value."""
        return [workers[left % 2].link.remote(left - 1, workers)] if left else 1

    def resident(self) -> int:
        """See `bench.peer.resident`."""
        return resident()


Worker: Any = ray.remote(num_cpus=0)(Crew)


class Ray(WeighedPeer):
    """Ray as a peer."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        ray.init(
            num_cpus=max(2, os.cpu_count() or 1),
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.crew = [Worker.remote() for _ in range(workers)]
        ray.get([worker.echo.remote(0) for worker in self.crew])
        self.b, self.c = self.crew[0], self.crew[1]
        self.held: list[Any] = []

    def close(self) -> None:
        self.held.clear()
        ray.shutdown()

    # ---- calls

    def call(self, amount: int, _: int) -> float:
        """Round trips."""
        with Clock() as clock:
            for number in range(amount):
                ray.get(self.b.echo.remote(number))
        return clock.seconds

    remote_fetch = call
    """In Ray every call makes an object, which is fetched."""

    def in_flight(self, amount: int, _: int) -> float:
        """All of them at once."""
        with Clock() as clock:
            ray.get([self.b.echo.remote(number) for number in range(amount)])
        return clock.seconds

    def everybody(self, amount: int, _: int) -> float:
        """A call to each worker at once."""
        with Clock() as clock:
            for number in range(amount):
                ray.get([worker.echo.remote(number) for worker in self.crew])
        return clock.seconds

    # ---- references

    def share(self, amount: int, _: int) -> float:
        """A reference of the driver to B's object, in a call to C."""
        return self._share(self.c.touch, amount)

    def share_fetch(self, amount: int, _: int) -> float:
        """The same, and C fetches the object."""
        return self._share(self.c.fetch, amount)

    def _share(self, work: Any, amount: int) -> float:
        refs = ray.get(self.b.make.remote(1))
        with Clock() as clock:
            for _ in range(amount):
                ray.get(work.remote(refs))
        return clock.seconds

    def references(self, amount: int, point: int) -> float:
        """*point* references of the driver to B's objects, in one call to C."""
        refs = ray.get(self.b.make.remote(point))
        with Clock() as clock:
            for _ in range(amount):
                if ray.get(self.c.count.remote(refs)) != point:
                    raise AssertionError("some are missing")
        del refs
        self._settle()
        return clock.seconds

    def create_drop(self, amount: int, _: int) -> float:
        """Results that are dropped, until a later call is answered; that call frees them here."""
        with Clock() as clock:
            for number in range(amount):
                self.b.echo.remote(number)
            self._settle()
        return clock.seconds

    def _settle(self) -> None:
        ray.get([worker.echo.remote(0) for worker in self.crew])

    def alias_chain(self, amount: int, point: int) -> float:
        """A task that returns a reference, *point* times over; it takes a get for each link."""
        with Clock() as clock:
            for _ in range(amount):
                value = ray.get(self.b.link.remote(point, self.crew[:2]))
                while not isinstance(value, int):
                    value = ray.get(value[0])
        return clock.seconds

    def value(self, amount: int, point: int) -> float:
        """Fetch arrays of *point* bytes, each for the first time; they are mapped."""
        return self._fetch(self._arrays(amount, point), checked, point)

    def value_read(self, amount: int, point: int) -> float:
        """The same, and add up every byte."""
        return self._fetch(self._arrays(amount, point), added_up, point)

    frozen = value
    """All of Ray's values are frozen."""
    frozen_read = value_read

    def frozen_again(self, amount: int, point: int) -> float:
        """Fetch one that was fetched before."""
        refs = self._arrays(1, point)
        ray.get(refs)
        return self._fetch(refs * amount, checked, point)

    def _arrays(self, number: int, size: int) -> list[Any]:
        return [ray.get(self.b.make_array.remote(size))[0] for _ in range(number)]

    def _fetch(self, refs: list[Any], look: Callable[[Any, int], None], size: int) -> float:
        with Clock() as clock:
            for ref in refs:
                look(ray.get(ref), size)
        return clock.seconds

    # ---- scaling

    def share_holding(self, amount: int, point: int) -> float:
        """`share`, while the driver holds *point* other references to B's objects."""
        if len(self.held) != point:
            self.held.clear()
            self._settle()
            self.held += ray.get(self.b.make.remote(point))
        return self.share(amount, point)

    def holders(self, amount: int, _: int) -> float:
        """One object that every worker gets, keeps and drops; its freeing cannot be observed."""
        with Clock() as clock:
            for _ in range(amount):
                refs = ray.get(self.b.make.remote(1))
                ray.get([worker.keep.remote(refs) for worker in self.crew[1:]])
                del refs
                ray.get([worker.let_go.remote() for worker in self.crew[1:]])
        return clock.seconds

    def grown(self, amount: int) -> tuple[int, int]:
        warm = ray.get(self.b.make.remote(100))
        before = resident(), ray.get(self.b.resident.remote())
        refs = ray.get(self.b.make.remote(amount))
        after = resident(), ray.get(self.b.resident.remote())
        del warm, refs
        return after[0] - before[0], after[1] - before[1]

    def start_worker(self, amount: int, _: int) -> float:
        """One more process, until it answers."""
        with Clock() as clock:
            more = []
            for _ in range(amount):
                more.append(Worker.remote())
                ray.get(more[-1].echo.remote(0))
        for worker in more:
            ray.kill(worker)
        return clock.seconds

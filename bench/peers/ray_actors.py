"""Ray: this process is the driver, its workers are actors."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray

from ..peer import resident, timed
from ..things import array, echo
from .references import B, Kind, ReferencePeer, generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STORE_BYTES = 4 << 30
"""The size of its object store: a value of 1 GB is there twice for a moment."""


class Crew:
    """Runs the driver's requests: a method for each function of `references`, by its name."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def echo(self, number: int) -> int:
        return number

    def Thing(self) -> int:  # noqa: N802 (named as the class that the other peers make)
        """An object: in Ray every call makes one."""
        return 1

    def touch(self, _refs: list[Any]) -> int:
        return 1

    def fetch(self, refs: list[Any]) -> Any:
        return ray.get(refs[0])

    def make(self, number: int) -> list[Any]:
        return [ray.put(1) for _ in range(number)]

    def make_value(self, kind: Kind, size: int) -> list[Any]:
        return [ray.put(kind(size))]

    def count(self, refs: list[Any]) -> int:
        return len(refs)

    def keep(self, refs: list[Any]) -> None:
        self.kept += refs

    def let_go(self) -> None:
        self.kept.clear()

    def link(self, left: int, workers: list[Any]) -> Any:
        """A reference to the other worker's result for the remaining links; at the end a value."""
        return [workers[left % 2].link.remote(left - 1, workers)] if left else 1

    def generated(self, kind: Kind, size: int, number: int) -> Iterator[Any]:
        yield from generated(kind, size, number)

    def listed(self, kind: Kind, size: int, number: int) -> list[Any]:
        return list(generated(kind, size, number))

    def resident(self) -> int:
        return resident()


Worker: Any = ray.remote(num_cpus=0)(Crew)


class Ray(ReferencePeer):
    shows_freeing = False

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        ray.init(
            num_cpus=max(2, os.cpu_count() or 1),
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.make: Any = Crew.make
        self.crew = [Worker.remote() for _ in range(workers)]
        self.freed()

    def close(self) -> None:
        self.held.clear()
        ray.shutdown()

    def send(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return getattr(self.crew[worker], work.__name__).remote(*args)

    remote = send
    """In Ray every call makes an object."""

    def items(self, kind: Kind, size: int, number: int) -> Iterator[Any]:
        stream = self.crew[B].generated.options(num_returns="streaming")
        return map(ray.get, stream.remote(kind, size, number))

    def results(self, sent: list[Any]) -> list[Any]:
        found: list[Any] = ray.get(sent)
        return found

    def ask(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return ray.get(self.send(worker, work, *args))

    def get(self, ref: Any) -> Any:
        return ray.get(ref)

    def made(self) -> list[Any]:
        refs: list[Any] = self.ask(B, self.make, 1)
        return refs

    lasting = made

    def freed(self) -> None:
        """Have a later call answered, which frees them here; their end cannot be seen."""
        self._all(self.everyone, echo, 0)

    def values(
        self,
        number: int,
        size: int,
        kind: Kind = array,
        *,
        frozen: bool = False,  # noqa: ARG002 (all are frozen)
    ) -> list[Any]:
        """New ones, so that each is fetched for the first time. They are mapped."""
        return [self.ask(B, Crew.make_value, kind, size)[0] for _ in range(number)]

    def alias_chain(self, amount: int, point: int) -> float:
        """A task that returns a reference, *point* times over; it takes a get for each link."""

        def follow(_: int) -> None:
            value = ray.get(self.crew[B].link.remote(point, self.crew[:2]))
            while not isinstance(value, int):
                value = ray.get(value[0])

        return timed(amount, follow)

    def start_worker(self, amount: int, _: int) -> float:
        more: list[Any] = []

        def start(_: int) -> None:
            more.append(Worker.remote())
            ray.get(more[-1].echo.remote(0))

        seconds = timed(amount, start)
        for worker in more:
            ray.kill(worker)
        return seconds

"""Calls without a worker's name go to the least loaded worker.

The *load* of a worker is the number of unfinished requests that this endpoint has placed there in
this way. So it costs no message to know it, and several endpoints do not see each other's requests.
Among equals the one that has waited longest for a request is next; this endpoint comes last. As a
creation has no answer, the endpoint also asks when the value is there, as `wait` does.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ...protocol.errors import WorkerNotFoundError
from ...protocol.ids import WorkerId
from ..base.interrupts import Guard
from ..core.core import Core, Internal
from ..core.registrar_client import RegistrarClient
from ..wire.messages import WorkerInfo
from .futures import Future

BELIEVED = 1.0
"""Seconds for which the list of the workers is used. Then the registrar is asked again."""


class PlacedRequest(msgspec.Struct):
    """A request that is being placed: its worker, and the future that tells its end."""

    to: WorkerInfo
    future: Future[Any] | None = None


class Load(msgspec.Struct):
    """One worker as this endpoint uses it."""

    requests: int = 0
    """Those that are under way."""
    last: int = 0
    """The number of the last request."""


class Placing(Internal):
    """Chooses workers for one endpoint."""

    def __init__(self, core: Core, registrar_client: RegistrarClient) -> None:
        self._core = core
        self._registrar_client = registrar_client
        self._lock = Guard()
        self._workers: list[WorkerInfo] = []
        self._until = 0.0
        """The time until which the list is believed."""
        self._loads: dict[WorkerId, Load] = {}
        self._numbers = itertools.count(1)

    @contextmanager
    def place(self) -> Iterator[PlacedRequest]:
        """The least loaded worker, for one request that is sent inside.

        Set the `PlacedRequest.future` inside: the request is under way until that future is done.
        Blocks for one answer of the registrar now and then. Raises `WorkerNotFoundError`.
        """
        to, load = self._choose()
        placed = PlacedRequest(to)
        try:
            yield placed
        except BaseException:
            self._over(load)
            raise
        if placed.future is None:
            self._over(load)
        else:
            # Not the method of our own futures, which runs callbacks in the pool.
            concurrent.futures.Future.add_done_callback(placed.future, lambda _: self._over(load))

    def renew(self) -> None:
        """There is a new worker: ask for the list before the next request."""
        self._until = 0.0

    def _choose(self) -> tuple[WorkerInfo, Load]:
        if time.monotonic() >= self._until:
            self._ask()
        alive = self._alive()
        if not alive:  # new ones may have come since
            self._ask()
            alive = self._alive()
        if not alive:
            raise WorkerNotFoundError(
                "the call names no worker, and the system has none that could run it: create one "
                "with system.worker(name), or name an actor"
            )
        me = self._core.me

        def rank(info: WorkerInfo) -> tuple[int, bool, int]:
            load = self._loads[info.id]
            return load.requests, info.id == me, load.last

        with self._lock:
            for info in alive:
                self._loads.setdefault(info.id, Load())
            chosen = min(alive, key=rank)
            load = self._loads[chosen.id]
            load.requests += 1
            load.last = next(self._numbers)
            return chosen, load

    def _ask(self) -> None:
        self._workers = self._registrar_client.workers(only=True)
        self._until = time.monotonic() + BELIEVED
        there = {info.id for info in self._workers}
        with self._lock:
            for gone in self._loads.keys() - there:
                del self._loads[gone]

    def _alive(self) -> list[WorkerInfo]:
        with self._core.lock:
            dead = self._core.context.dead
            return [info for info in self._workers if info.id not in dead]

    def _over(self, load: Load) -> None:
        with self._lock:
            load.requests -= 1

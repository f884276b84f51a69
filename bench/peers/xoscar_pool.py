"""Xoscar: this process holds the main pool, its workers are sub-pools, each a process.

Its references point to actors only, and nobody counts them. So an object is an actor here, and is
destroyed by hand.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import xoscar as xo

from ..peer import PATIENCE, Clock, Peer
from ..things import added_up, array, checked, echo, some_bytes
from . import NotOffered

if TYPE_CHECKING:
    from collections.abc import Callable

    from .references import Kind

MOST_ACTORS = 1_000
"""Each takes about a millisecond, and its process remembers it."""


class Worker(xo.Actor):
    """Runs the program's requests."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []
        self.count_received = 0

    async def echo(self, number: int) -> int:
        return number

    async def touch(self, _ref: Any) -> int:
        return 1

    async def fetch(self, ref: Any) -> Any:
        return await ref.get()

    async def count(self, refs: list[Any]) -> int:
        return len(refs)

    async def keep(self, ref: Any) -> None:
        self.kept.append(ref)

    async def let_go(self) -> None:
        self.kept.clear()

    async def take(self, _message: int) -> None:
        self.count_received += 1

    async def received(self) -> int:
        got, self.count_received = self.count_received, 0
        return got


class Object(xo.Actor):
    """Xoscar's nearest thing to an object."""

    def __init__(self, kind: Kind = echo, size: int = 1) -> None:
        super().__init__()
        self.value = kind(size)

    async def get(self) -> Any:
        return self.value


class Xoscar(Peer):
    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.loop = asyncio.new_event_loop()
        self.held: list[Any] = []
        self._run(self._start())

    def _run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def _start(self) -> None:
        self.pool = await xo.create_actor_pool("127.0.0.1", n_process=self.workers)
        self.places = list(self.pool.sub_processes)
        self.crew = [
            await xo.create_actor(Worker, address=place, uid=f"worker {place}")
            for place in self.places
        ]
        self.b, self.c = self.crew[0], self.crew[1]

    def close(self) -> None:
        self._run(self.pool.stop())

    def do(self, work: str, amount: int, point: int) -> float:
        method = getattr(self, f"_{work}", None)
        if method is None:
            raise NotOffered("its references point to actors, and are not counted; no rounds")
        return float(self._run(method(amount, point)))

    # ---- calls

    async def _call(self, amount: int, _: int) -> float:
        return await _timed(amount, self.b.echo)

    async def _in_flight(self, amount: int, _: int) -> float:
        with Clock() as clock:
            await asyncio.gather(*(self.b.echo(number) for number in range(amount)))
        return clock.seconds

    _method, _methods_in_flight = _call, _in_flight
    """Every call is one of a method."""

    async def _one_way(self, amount: int, _: int) -> float:
        with Clock() as clock:
            for number in range(amount):
                await self.c.take.tell(number)
            got, end = 0, time.monotonic() + PATIENCE
            while got < amount and time.monotonic() < end:
                got += await self.c.received()
        if got != amount:
            raise AssertionError(f"{got} of {amount} messages were handled")
        return clock.seconds

    async def _everybody(self, amount: int, _: int) -> float:
        return await _timed(
            amount, lambda number: asyncio.gather(*(worker.echo(number) for worker in self.crew))
        )

    # ---- references to actors

    async def _object(self, *value: Any) -> Any:
        return await xo.create_actor(Object, *value, address=self.places[0])

    async def _remote_fetch(self, amount: int, _: int) -> float:
        async def once(_: int) -> None:
            ref = await self._object()
            await ref.get()
            await xo.destroy_actor(ref)

        return await _timed(amount, once)

    async def _share(self, amount: int, _: int) -> float:
        return await self._with_object(amount, self.c.touch)

    async def _share_fetch(self, amount: int, _: int) -> float:
        return await self._with_object(amount, self.c.fetch)

    async def _with_object(self, amount: int, use: Callable[[Any], Any], *value: Any) -> float:
        ref = await self._object(*value)
        seconds = await _timed(amount, lambda _: use(ref))
        await xo.destroy_actor(ref)
        return seconds

    async def _references(self, amount: int, point: int) -> float:
        if point > MOST_ACTORS:
            raise NotOffered("an actor for each reference takes minutes")
        refs = [await self._object() for _ in range(point)]
        with Clock() as clock:
            for _ in range(amount):
                if await self.c.count(refs) != point:
                    raise AssertionError("some are missing")
        for ref in refs:
            await xo.destroy_actor(ref)
        return clock.seconds

    async def _create_drop(self, amount: int, _: int) -> float:
        with Clock() as clock:
            refs = await asyncio.gather(*(self._object() for _ in range(amount)))
            await asyncio.gather(*(xo.destroy_actor(ref) for ref in refs))
        return clock.seconds

    async def _value(
        self, amount: int, point: int, look: Any = checked, kind: Kind = array
    ) -> float:
        async def fetch(ref: Any) -> None:
            look(await ref.get(), point)

        return await self._with_object(amount, fetch, kind, point)

    async def _value_read(self, amount: int, point: int) -> float:
        return await self._value(amount, point, added_up)

    async def _fetch_bytes(self, amount: int, point: int) -> float:
        return await self._value(amount, point, kind=some_bytes)

    _frozen = _frozen_again = _value
    """Xoscar has no frozen values, and copies."""
    _frozen_read = _value_read

    async def _holders(self, amount: int, _: int) -> float:
        async def once(_: int) -> None:
            ref = await self._object()
            await asyncio.gather(*(worker.keep(ref) for worker in self.crew[1:]))
            await asyncio.gather(*(worker.let_go() for worker in self.crew[1:]))
            await xo.destroy_actor(ref)

        return await _timed(amount, once)

    async def _start_worker(self, _amount: int, _: int) -> float:
        raise NotOffered("it starts all processes with the pool")


async def _timed(amount: int, once: Callable[[int], Any]) -> float:
    with Clock() as clock:
        for number in range(amount):
            await once(number)
    return clock.seconds

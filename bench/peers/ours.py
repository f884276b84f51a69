"""farref: this process is the program, its workers are processes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, RendezvousTimeouts, RRef, System
from farref.actors.base import system_base
from farref.actors.core.current import frame
from farref.actors.rendezvous.client import client_of
from farref.testing import Faults, delay

from ..peer import PATIENCE, Clock, timed
from ..things import Thing, array, echo
from .references import B, Kind, generated
from .rpc import RpcPeer

LATE = 0.002
"""The delay in seconds of every packet, if packets are late."""
TIMES = RendezvousTimeouts(join=PATIENCE, last_call=1, keep_alive=60)


class Counter(RefActor):
    """Takes one-way messages, and tells their number on request."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def receiveMsg_int(self, _number: int, _sender: Any) -> None:  # noqa: N802 - Thespian's
        self.count += 1

    def receiveMsg_str(self, _question: str, sender: Any) -> None:  # noqa: N802 - Thespian's
        self.send(sender, self.count)
        self.count = 0


class Ours(RpcPeer):
    def __init__(
        self,
        workers: int,
        *,
        spin: bool = True,
        late: bool = False,
        sites: bool = False,
        traced: bool = False,
        main: bool = False,
    ) -> None:
        """With *main* it calls a function of ``__main__``, which travels by its code."""
        super().__init__(workers)
        self.echo = sys.modules["__main__"].echo_of_main if main else echo
        self.api, self.make, self.link = farref, make, link
        self.folder = tempfile.TemporaryDirectory(prefix="farref-bench-")
        self.system = System(
            None if spin else system_base(spin=0.0),
            timeout=PATIENCE,
            faults=Faults(delay(seconds=LATE)) if late else None,
            sites=sites,
            trace=self.folder.name if traced else None,
        )
        for name in self.names:
            self.system.worker(name)
        self.counter: Any = None
        self.started = self.runs = 0

    def close(self) -> None:
        self.held.clear()
        self.system.shutdown()
        self.folder.cleanup()

    def values(
        self, number: int, size: int, kind: Kind = array, *, frozen: bool = False
    ) -> list[RRef[Any]]:
        """New ones, so that each is fetched for the first time."""
        refs = [farref.remote(self.names[B], kind, (size,), frozen=frozen) for _ in range(number)]
        farref.wait(refs, len(refs))
        return refs

    def items(self, kind: Kind, size: int, number: int) -> Iterator[Any]:
        return iter(self.remote(B, generated, kind, size, number))

    def one_way(self, amount: int, _: int) -> float:
        if self.counter is None:
            self.counter = self.system.create(Counter)
        with Clock() as clock:
            for number in range(amount):
                self.system.tell(self.counter, number)
            got = self.system.ask(self.counter, "how many?")
        if got != amount:
            raise AssertionError(f"{got} of {amount} messages were handled")
        return clock.seconds

    def chained(self, amount: int, point: int) -> float:
        return self._chain(amount, point, wait=False)

    def stepwise(self, amount: int, point: int) -> float:
        return self._chain(amount, point, wait=True)

    def _chain(self, amount: int, point: int, *, wait: bool) -> float:
        (start,) = self.lasting()

        def follow(_: int) -> None:
            ref, value = start, 0
            for _ in range(point):
                ref = ref.remote().conjugate()
                if wait:
                    value = ref.to_here()
            if (value if wait else ref.to_here()) != 1:
                raise AssertionError("another result")

        return timed(amount, follow)

    def alias_again(self, amount: int, point: int) -> float:
        ref = self.remote(B, link, point, self.names[:2])
        ref.to_here()
        return timed(amount, lambda _: ref.to_here())

    def rendezvous(self, amount: int, point: int) -> float:
        client = client_of(frame().core.front)
        seconds = 0.0
        for _ in range(amount):
            self.runs += 1
            nodes = [
                farref.rendezvous(
                    f"run{self.runs}", min_nodes=point, name=f"node{n}", timeouts=TIMES
                ).awaitable
                for n in range(point)
            ]

            async def meet(nodes: list[Any] = nodes) -> list[Any]:
                return await asyncio.gather(*(node.next_rendezvous() for node in nodes))

            async def leave(nodes: list[Any] = nodes) -> None:
                await asyncio.gather(*(node.leave() for node in nodes))

            with Clock() as clock:
                groups = client.block(meet(), "the benchmark", "it")
            if [(group.rank, group.world_size) for group in groups] != [
                (n, point) for n in range(point)
            ]:
                raise AssertionError("not everybody has met")
            client.block(leave(), "the benchmark", "it")
            seconds += clock.seconds
        return seconds

    def start_worker(self, amount: int, _: int) -> float:
        with Clock() as clock:
            more = []
            for _ in range(amount):
                self.started += 1
                more.append(self.system.worker(f"N{self.started}"))
                farref.rpc_sync(more[-1], echo, (0,))
        for worker in more:
            self.system.tell(worker, ActorExitRequest())
        return clock.seconds


# ---- functions for the workers


def make(number: int) -> list[RRef[Thing]]:
    """References to *number* new objects."""
    return [RRef(Thing()) for _ in range(number)]


def link(left: int, names: list[str]) -> Any:
    """See `RpcPeer.link`."""
    return farref.remote(names[left % 2], link, (left - 1, names)) if left else 1

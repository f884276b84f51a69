"""Monarch: this process is the client, its workers are actors in processes of their own.

Its references point to actors only, and nobody counts them. So an object is an actor here, and is
stopped by hand.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..peer import PATIENCE, timed
from ..things import array, echo
from .references import B, Kind, ReferencePeer

if TYPE_CHECKING:
    from collections.abc import Callable

monarch: Any = importlib.import_module("monarch.actor")  # it may have types, or not be there
endpoint: Callable[[Callable[..., Any]], Any] = monarch.endpoint


class Worker(monarch.Actor):
    """Runs the client's requests: a method for each function of `references`, by its name."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    @endpoint
    async def echo(self, number: int) -> int:
        """The least that a call can do."""
        return number

    @endpoint
    async def touch(self, _refs: list[Any]) -> int:
        """Take a reference."""
        return 1

    @endpoint
    async def fetch(self, refs: list[Any]) -> Any:
        """Take a reference, and fetch."""
        return await refs[0].get.call_one()

    @endpoint
    async def keep(self, refs: list[Any]) -> None:
        """Hold the references beyond the call."""
        self.kept += refs

    @endpoint
    async def let_go(self) -> None:
        """Hold nothing any more."""
        self.kept.clear()


class Object(monarch.Actor):
    """Monarch's nearest thing to an object."""

    def __init__(self, work: Callable[..., Any], *args: Any) -> None:
        self.value = work(*args)

    @endpoint
    async def there(self) -> None:
        """Answer, as the value is there."""

    @endpoint
    async def get(self) -> Any:
        """A copy of the value."""
        return self.value


class Monarch(ReferencePeer):
    """Monarch as a peer."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        host = monarch.this_host()
        self.places = [host.spawn_procs(per_host={"gpus": 1}) for _ in range(workers)]
        self.crew = [place.spawn("worker", Worker) for place in self.places]
        self.objects: list[Any] = []
        self._all(self.everyone, echo, 0)

    def close(self) -> None:
        monarch.shutdown_context().get(PATIENCE)

    def do(self, work: str, amount: int, point: int) -> float:
        """See `Peer.do`. Objects that the work has left are stopped without the clock."""
        seconds = super().do(work, amount, point)
        self.freed()
        return seconds

    def send(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return getattr(self.crew[worker], work.__name__).call_one(*args)

    def results(self, sent: list[Any]) -> list[Any]:
        return [future.get(PATIENCE) for future in sent]

    def ask(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return self.send(worker, work, *args).get(PATIENCE)

    def remote(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        self.objects.append(self.places[worker].spawn("object", Object, work, *args))
        return self.objects[-1]

    def get(self, ref: Any) -> Any:
        return ref.get.call_one().get(PATIENCE)

    def made(self) -> list[Any]:
        return self.values(1, 1, echo)

    lasting = made

    def freed(self) -> None:
        """Stop every object, as nothing else frees it."""
        self.results([ref.stop() for ref in self.objects])
        self.objects.clear()

    def values(
        self,
        number: int,
        size: int,
        kind: Kind = array,
        *,
        frozen: bool = False,  # noqa: ARG002 (Monarch copies)
    ) -> list[Any]:
        """New ones, so that each is fetched for the first time."""
        refs = [self.remote(B, kind, size) for _ in range(number)]
        self.results([ref.there.call_one() for ref in refs])
        return refs

    def remote_fetch(self, amount: int, _: int) -> float:
        """Make an object at a worker, fetch it, and stop it."""

        def once(number: int) -> None:
            self.get(self.remote(B, echo, number))
            self.freed()

        return timed(amount, once)

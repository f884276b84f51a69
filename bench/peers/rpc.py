"""The peers with the interface of PyTorch RPC: PyTorch itself, and farref."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..peer import timed, until
from ..things import Thing, echo, live
from .references import B, C, ReferencePeer

if TYPE_CHECKING:
    from collections.abc import Callable


class RpcPeer(ReferencePeer):
    """A peer with `rpc_sync`, `rpc_async` and `remote`."""

    api: Any
    """The module with these functions."""
    link: Callable[[int, list[str]], Any]
    """At a worker: a reference to the other worker's result for the links left; 1 at the end."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.names = [f"W{number}" for number in range(workers)]

    def send(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return self.api.rpc_async(self.names[worker], work, args)

    def results(self, sent: list[Any]) -> list[Any]:
        return [future.wait() for future in sent]

    def ask(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return self.api.rpc_sync(self.names[worker], work, args)

    def remote(self, worker: int, work: Callable[..., Any], *args: Any) -> Any:
        return self.api.remote(self.names[worker], work, args)

    def get(self, ref: Any) -> Any:
        return ref.to_here()

    def made(self) -> list[Any]:
        return [self.remote(B, Thing)]

    def lasting(self) -> list[Any]:
        ref = self.remote(B, echo, 1)
        ref.to_here()
        return [ref]

    def freed(self) -> None:
        until(lambda: self.ask(B, live) == len(self.held))

    def method(self, amount: int, _: int) -> float:
        ref = self._thing(B)
        return timed(amount, lambda _: ref.rpc_sync().value())

    def method_lent(self, amount: int, _: int) -> float:
        ref, lent = self._thing(B), self._thing(C)
        return timed(amount, lambda _: ref.rpc_sync().touch(lent))

    def methods_in_flight(self, amount: int, _: int) -> float:
        ref = self._thing(B)
        return timed(1, lambda _: self.results([ref.rpc_async().value() for _ in range(amount)]))

    def _thing(self, worker: int) -> Any:
        ref = self.remote(worker, Thing)
        ref.rpc_sync().value()
        return ref

    def call_there(self, amount: int, _: int) -> float:
        seconds: float = self.ask(B, call, self.api.__name__, self.names[C], amount)
        return seconds

    def alias_chain(self, amount: int, point: int) -> float:
        def follow(_: int) -> None:
            value = self.remote(B, self.link, point, self.names[:2])
            while not isinstance(value, int):  # farref needs one fetch, PyTorch one for each link
                value = value.to_here()

        return timed(amount, follow)


# ---- a function for the workers


def call(api: str, to: str, amount: int) -> float:
    """See `RpcPeer.call_there`; *api* is the name of the module."""
    rpc_sync = sys.modules[api].rpc_sync
    return timed(amount, lambda number: rpc_sync(to, echo, (number,)))

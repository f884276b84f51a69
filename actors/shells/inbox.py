"""The messages to a program that nobody has listened for."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress

from ...protocol.messages import Cargo
from ..core.current import running_in
from .endpoint import Endpoint


class ProgramInbox(queue.Queue[Any]):
    """A queue that also wakes coroutines, as these cannot wait in `get`."""

    def __init__(self) -> None:
        super().__init__()
        self.wakers: set[Callable[[], object]] = set()
        """Each is called after a message came, and at the end."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add *item*, as in any queue, and wake the coroutines that wait."""
        super().put(item, block, timeout)
        if self.wakers:
            self.wake()

    def wake(self) -> None:
        for waker in tuple(self.wakers):
            waker()


class Unopened:
    """A message to the program. The thread that listens for it unpickles it, by calling this."""

    def __init__(self, endpoint: Endpoint, cargo: Cargo, sender: ActorAddress) -> None:
        self._endpoint = endpoint
        self._cargo = cargo
        self._hold = endpoint.core.discards.hold(self, None, cargo.descriptors)
        self.sender = sender

    def __call__(self) -> Any:
        try:
            with running_in(self._endpoint.core):
                return self._endpoint.packer.open(self._cargo)
        finally:
            self._endpoint.core.discards.release(self._hold)

    def __del__(self) -> None:
        self._endpoint.core.discards.gone(self._hold)

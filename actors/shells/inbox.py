"""The messages to a program that nobody has listened for."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class ProgramInbox(queue.Queue[Any]):
    """A queue that also wakes coroutines: they cannot wait in `get`."""

    def __init__(self) -> None:
        super().__init__()
        self.wakers: set[Callable[[], object]] = set()
        """Each is called after a message came, and at the end."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """As in a queue."""
        super().put(item, block, timeout)
        if self.wakers:
            self.wake()

    def wake(self) -> None:
        """Wake the coroutines."""
        for waker in tuple(self.wakers):
            waker()

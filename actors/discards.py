"""Handles and messages that come to an end in finalizers, which may take no lock.

A finalizer runs anywhere, also in a thread that holds the endpoint's lock, or a transport's. So it
appends to a queue here (one step of the interpreter's) and rings the bell; the next step of the
endpoint, at the latest the turn that the bell brings, settles all of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol.ids import RRefId
    from ..protocol.messages import Descriptor
    from .effects import Later
    from .endpoint import Endpoint


class Discards:
    """What was let go of at one endpoint, and is not settled yet."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._handles: deque[RRefId] = deque()
        self._messages: deque[tuple[Descriptor, ...]] = deque()

    def handle(self, rref: RRefId) -> None:
        """A handle was collected. In any thread, lock-free."""
        if not self._endpoint.closed:
            self._handles.append(rref)
            self._endpoint.wake()

    def message(self, descriptors: tuple[Descriptor, ...]) -> None:
        """A message was given up before it was unpickled. In any thread, lock-free."""
        if not self._endpoint.closed:
            self._messages.append(descriptors)
            self._endpoint.wake()

    def __bool__(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._handles or self._messages)

    def sweep(self, later: Later) -> None:
        """Settle them. Under the endpoint's lock."""
        context, carry_out = self._endpoint.context, self._endpoint.effects.carry_out
        while self._handles:  # all at once: the fewer messages are needed to say so
            gone = [self._handles.popleft() for _ in range(len(self._handles))]
            carry_out(context.drop(*gone), later)
        while self._messages:
            carry_out(context.release(self._messages.popleft()), later)

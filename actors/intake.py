"""What came and waits here: how many bytes, until it is let go of.

A payload counts from the moment it arrives until nothing refers to it any more. So whatever becomes
of it (a handler begins with it, a function is called with it, a future's result is asked for, it is
refused, its sender dies), it stops to count, and nobody has to say so. Who begins with a payload
lets go of it once it is unpickled.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serialization.payload import Payload

NOTED = 1024
"""Bytes of a payload that are worth counting. Of smaller ones, limits in messages bound the sum."""


class Intake:
    """The payloads of one flow that came to one endpoint. Used under the endpoint's lock."""

    def __init__(self, on_less: Callable[[], None]) -> None:
        """*on_less* is called when one has been let go of, by finalizers; it takes no lock."""
        self.bytes = 0
        """What they weigh; and those that are gone, until `settle`."""
        self._on_less = on_less
        self._noted: dict[int, tuple[weakref.ref[Payload], int]] = {}
        """By the `id` of each reference: its hash would be that of all the payload's bytes."""
        self._gone: deque[int] = deque()

    def add(self, payload: Payload) -> None:
        """It came."""
        self.settle()
        noted, size = weakref.ref(payload, self._let_go), payload.size
        self._noted[id(noted)] = noted, size
        self.bytes += size

    def over(self, most: int) -> bool:
        """Whether so many bytes are here."""
        self.settle()
        return self.bytes >= most

    def settle(self) -> None:
        """Take off the count what has been let go of."""
        while self._gone:
            self.bytes -= self._gone.popleft()

    def _let_go(self, noted: weakref.ref[Payload]) -> None:
        """Called by finalizers: takes no lock."""
        self._gone.append(self._noted.pop(id(noted))[1])
        self._on_less()

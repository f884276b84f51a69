"""How many bytes came and wait here, until they are let go of.

A payload counts from the moment it arrives until nothing refers to it any more. A handler may begin
with it, a function may be called with it, a future's result may be asked for, it may be refused,
its sender may die: in each case it ceases to count, and nobody has to say so. The code that begins
with a payload lets go of it once it is unpickled.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.ids import WorkerId
    from ...serialization.payload import Payload

NOTED = 1024
"""Bytes of a payload that are worth counting. Of smaller ones, limits in messages bound the sum."""


class Intake:
    """The payloads of one flow that came to one endpoint. Used under the endpoint's lock."""

    def __init__(self, on_less: Callable[[], None]) -> None:
        """*on_less* is called when one has been let go of, by finalizers; it takes no lock."""
        self.bytes = 0
        """Their bytes, and those of payloads that are gone, until `settle`."""
        self._on_less = on_less
        self._shares: dict[WorkerId, int] = {}
        """Who has brought how much of it."""
        self._noted: dict[int, tuple[weakref.ref[Payload], WorkerId, int]] = {}
        """By the `id` of each reference: its hash would be that of all the payload's bytes."""
        self._gone: deque[tuple[WorkerId, int]] = deque()

    def add(self, sender: WorkerId, payload: Payload) -> None:
        """It came from *sender*."""
        self.settle()
        noted, size = weakref.ref(payload, self._let_go), payload.size
        self._noted[id(noted)] = noted, sender, size
        self._shares[sender] = self._shares.get(sender, 0) + size
        self.bytes += size

    def over(self, most: int, sender: WorkerId | None = None, share: int = 0) -> bool:
        """Whether so many bytes are here, and *sender* has brought as much as *share* of them."""
        self.settle()
        return self.bytes >= most and (sender is None or self.share(sender) >= share)

    def share(self, sender: WorkerId) -> int:
        """How many of them *sender* has brought."""
        self.settle()
        return self._shares.get(sender, 0)

    def settle(self) -> None:
        """Take off the count the payloads that have been let go of."""
        while self._gone:
            sender, size = self._gone.popleft()
            self.bytes -= size
            self._shares[sender] -= size
            if not self._shares[sender]:
                del self._shares[sender]

    def _let_go(self, noted: weakref.ref[Payload]) -> None:
        """Called by finalizers: takes no lock."""
        _, sender, size = self._noted.pop(id(noted))
        self._gone.append((sender, size))
        self._on_less()

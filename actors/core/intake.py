"""The number of bytes that arrived and wait here, until the program lets go of them.

A payload counts from its arrival until nothing refers to it any more, whatever becomes of it. The
code that begins with a payload lets go of it once it is unpickled.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable

from ...protocol.ids import WorkerId
from ...serialization.payload import Payload

NOTED = 1024
"""Smaller payloads are not counted: limits in messages bound their sum."""


class Intake:
    """The payloads of one flow that came to one endpoint. Used under the endpoint's lock."""

    def __init__(self, on_less: Callable[[], None]) -> None:
        """Finalizers call *on_less* when a payload has been let go of; it takes no lock."""
        self.bytes = 0
        """Bytes of the payloads here, and until they are subtracted those that are gone."""
        self._on_less = on_less
        self._shares: dict[WorkerId, int] = {}
        """The bytes that each sender has brought."""
        self._noted: dict[int, tuple[weakref.ref[Payload], WorkerId, int]] = {}
        """By the `id` of each weak reference: a hash would have to read all the payload's bytes."""
        self._gone: deque[tuple[WorkerId, int]] = deque()

    def add(self, sender: WorkerId, payload: Payload) -> None:
        """Count *payload*, which came from *sender*."""
        self._subtract()
        noted, size = weakref.ref(payload, self._let_go), payload.size
        self._noted[id(noted)] = noted, sender, size
        self._shares[sender] = self._shares.get(sender, 0) + size
        self.bytes += size

    def over(self, most: int, sender: WorkerId | None = None, share: int = 0) -> bool:
        """Whether *most* bytes or more are here, and *sender* brought *share* or more of them."""
        self._subtract()
        return self.bytes >= most and (sender is None or self.share(sender) >= share)

    def share(self, sender: WorkerId) -> int:
        """The bytes that *sender* has brought."""
        self._subtract()
        return self._shares.get(sender, 0)

    def _subtract(self) -> None:
        while self._gone:
            sender, size = self._gone.popleft()
            self.bytes -= size
            self._shares[sender] -= size
            if not self._shares[sender]:
                del self._shares[sender]

    def _let_go(self, noted: weakref.ref[Payload]) -> None:
        """Note that a payload has been let go of. Takes no lock, as finalizers call it."""
        _, sender, size = self._noted.pop(id(noted))
        self._gone.append((sender, size))
        self._on_less()

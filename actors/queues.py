"""Objects with requests in their queues, and when to suspect that those wait in a ring.

Queues are looked at every `PERIOD`. What blocks them for longer than that is suspected, at first
soon and then more and more rarely, until it is another request that blocks them, or a further one
is queued. So brief waits cost no message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.messages import target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.context import Context
    from ..protocol.ids import CallId, RRefId
    from ..protocol.messages import ObjectRequest

PERIOD = 0.1
"""Seconds between two looks at what is queued."""
PERIOD_OF_ONE = 0.0001
"""Seconds more for each object that has a queue: whoever has many of them looks more rarely."""
RARELY = 16
"""Looks between two probes for an object that has been blocked for longer than that."""


class Queues:
    """The queues of one endpoint's objects. The caller gives the time; it may be virtual."""

    def __init__(self, context: Context, waits: Callable[[CallId], bool]) -> None:
        self._context = context
        self._waits = waits
        """Whether a request that runs here waits for another one."""
        self._queues: dict[RRefId, tuple[CallId | None, int]] = {}
        """Objects with queues: what blocks each, and for how many looks it has."""
        self.look_at: float | None = None
        """When `look` has something to do next; None while nothing is queued."""

    def arrived(self, request: ObjectRequest, now: Callable[[], float]) -> bool:
        """*request* has come, and may have to wait. Returns whether `look_at` was set by that."""
        target = target_of(request)
        owner = self._context.owners.get(target) if target is not None else None
        if owner is None or not owner.queue:
            return False
        blocker, _ = self._queues.get(owner.rref, (None, 0))
        self._queues[owner.rref] = blocker, 0
        if self.look_at is not None:
            return False
        self.look_at = now() + PERIOD
        return True

    def due(self, now: float) -> bool:
        """Whether `look` has something to do."""
        return self.look_at is not None and now >= self.look_at

    def look(self, now: float) -> list[RRefId]:
        """The objects to suspect now: see `Context.suspect`."""
        suspected = [rref for rref in list(self._queues) if self._is_suspect(rref)]
        self.look_at = None
        if self._queues:
            self.look_at = now + PERIOD + PERIOD_OF_ONE * len(self._queues)
        return suspected

    def _is_suspect(self, rref: RRefId) -> bool:
        owner, blocker = self._context.owners.get(rref), self._context.rings.blocker(rref)
        if owner is None or not owner.queue:
            del self._queues[rref]
            return False
        before, looks = self._queues[rref]
        looks = looks + 1 if blocker == before else 0
        self._queues[rref] = blocker, looks
        waits = blocker is not None and (self._waits(blocker) or owner.alias is not None)
        return waits and looks > 0 and (looks % RARELY == 0 or looks.bit_count() == 1)

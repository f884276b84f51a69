"""Objects with queued requests, and the times to suspect that those wait in a ring.

A request that blocks a queue for longer than `PERIOD` is suspected: soon at first, then more and
more rarely, until another request blocks the queue or one more is queued.
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.context import Context
from ...protocol.ids import CallId, RRefId
from ...protocol.messages import ObjectRequest, target_of

PERIOD = 0.1
"""Seconds between two looks at the queues."""
PERIOD_OF_ONE = 0.0001
"""Additional seconds for each object with a queue: an endpoint with many of them looks more
rarely."""
RARELY = 16
"""An object is suspected at the looks 1, 2, 4 and 8 after its blocker changed or a request came,
then at every 16th look."""


class Queues:
    """The queues of one endpoint's objects. The caller gives the time; it may be virtual."""

    def __init__(self, context: Context, waits: Callable[[CallId], bool]) -> None:
        self._context = context
        self._waits = waits
        """Whether a request that runs here waits for another one."""
        self._queues: dict[RRefId, tuple[CallId | None, int]] = {}
        """For each object with a queue: the request that blocks it, and the number of looks since
        this changed or another request came."""
        self.look_at: float | None = None
        """The time when `look` has work next; None while no request is queued."""

    def arrived(self, request: ObjectRequest, now: Callable[[], float]) -> bool:
        """*request* has come, and may have to wait. Returns whether that set `look_at`."""
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
        """Whether `look` has work."""
        return self.look_at is not None and now >= self.look_at

    def look(self, now: float) -> list[RRefId]:
        """The objects to suspect now: see `Context.suspect`."""
        suspected = [rref for rref in list(self._queues) if self._is_suspect(rref)]
        self.look_at = None
        if self._queues:
            self.look_at = now + PERIOD + PERIOD_OF_ONE * len(self._queues)
        return suspected

    def _is_suspect(self, rref: RRefId) -> bool:
        owner, blocker = self._context.owners.get(rref), self._context.deadlocks.blocker(rref)
        if owner is None or not owner.queue:
            del self._queues[rref]
            return False
        before, looks = self._queues[rref]
        looks = looks + 1 if blocker == before else 0
        self._queues[rref] = blocker, looks
        # Without a blocker the object is not created: its creation may be held back.
        asks = blocker is None or blocker in self._context.state.asking
        waits = asks or (blocker is not None and self._waits(blocker))
        return waits and looks > 0 and (looks % RARELY == 0 or looks.bit_count() == 1)

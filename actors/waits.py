"""Which request waits for which: what the machine that finds rings (`protocol.rings`) asks.

The code of a request waits where it is blocked in a future, or awaits one. It says so here, which
takes no lock, and nobody asks as long as no request is queued. Some waits do not count: those that
this library does not see, as for a lock or a queue of the user's; those of other threads and tasks
that the code has started; and those that end with any one of several answers.

The queues of objects are looked at every `PERIOD`. An object that the same request blocks for
longer than that is suspected, at first soon and then more and more rarely, until another request
blocks it, or a further one is queued. So brief waits cost no message.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..protocol.messages import Create, Fetch, Invoke, target_of
from .current import Run, run_in

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Sequence

    from ..protocol.ids import CallId, RRefId
    from ..protocol.messages import ObjectRequest
    from .endpoint import Endpoint
    from .futures import Future

ON_OBJECTS = frozenset((Create, Fetch, Invoke))
"""Requests that may have to wait for their turn on an object."""
PERIOD = 0.1
"""Seconds between two looks at the queues."""
PERIOD_OF_ONE = 0.0001
"""Seconds more for each object that has a queue: an endpoint with many looks more rarely."""
RARELY = 16
"""Looks between two probes for an object that has been blocked for longer than that."""
LONGEST = 300
"""Characters of a wait in words; the rest is left out."""


class Wait(NamedTuple):
    """The code of *run* needs the answers of all *futures*."""

    number: int
    run: Run
    futures: Sequence[concurrent.futures.Future[Any]]


class Waits:
    """The waits of one endpoint's requests, and the queues that they hold up."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._waits: dict[CallId, Wait] = {}
        self._numbers = itertools.count(1)
        self._queues: dict[RRefId, tuple[CallId | None, int]] = {}
        """Objects with queues: what blocks each, and for how many looks it has."""
        self._look_at: float | None = None

    # ---- in the thread, or the task, that waits

    def block(self, *futures: concurrent.futures.Future[Any]) -> Run | None:
        """The running code waits for all of *futures* from now on; give `unblock` the result."""
        return self.begin(run_in(self._endpoint, threading.get_ident()), futures)

    def suspend(self, future: Future[Any]) -> Run | None:
        """The same for a coroutine."""
        return self.begin(run_in(self._endpoint, id(asyncio.current_task())), (future,))

    def begin(
        self, run: Run | None, futures: Sequence[concurrent.futures.Future[Any]]
    ) -> Run | None:
        """The code of *run*, if it is that of a request, waits for all of *futures* from now on."""
        if run is not None:
            self._waits[run.call] = Wait(next(self._numbers), run, futures)
        return run

    def unblock(self, run: Run | None) -> None:
        """It goes on."""
        if run is not None:
            self._waits.pop(run.call, None)

    # ---- under the endpoint's lock

    def of(self, call: CallId) -> tuple[CallId | None, int, str]:
        """What the request *call*, which runs here, waits for: see `Rings.waits`."""
        wait = self._waits.get(call)
        for future in wait.futures if wait is not None else ():
            needed = _needed(future)
            if needed is not None and needed.call is not None and wait is not None:
                what = f"{wait.run} on {self._endpoint.me} waits for {needed.what}"
                writable = what.encode("utf-8", "backslashreplace").decode()
                return needed.call, wait.number, writable[:LONGEST]
        return None, 0, ""

    def arrived(self, request: ObjectRequest) -> None:
        """*request* has come; it may have to wait for its turn."""
        target = target_of(request)
        owner = self._endpoint.context.owners.get(target) if target is not None else None
        if owner is None or not owner.queue:
            return
        blocker, _ = self._queues.get(owner.rref, (None, 0))
        self._queues[owner.rref] = blocker, 0
        if self._look_at is None:
            self._look_at = time.monotonic() + PERIOD
            self._endpoint.wake()  # the mailbox thread keeps the time

    def deadline(self) -> float | None:
        """When `look` has something to do next; None while nothing is queued."""
        return self._look_at

    # ---- in the mailbox thread

    def look(self, now: float) -> None:
        """Suspect the objects on which requests have been queued for long."""
        if self._look_at is None or now < self._look_at:
            return
        with self._endpoint.lock:
            suspected = [rref for rref in list(self._queues) if self._is_suspect(rref)]
            self._look_at = None
            if self._queues:
                self._look_at = now + PERIOD + PERIOD_OF_ONE * len(self._queues)
        for rref in suspected:
            self._endpoint.step(lambda rref=rref: self._endpoint.context.suspect(rref))  # type: ignore[misc]

    def _is_suspect(self, rref: RRefId) -> bool:
        context = self._endpoint.context
        owner, blocker = context.owners.get(rref), context.blocker(rref)
        if owner is None or not owner.queue:
            del self._queues[rref]
            return False
        before, looks = self._queues[rref]
        looks = looks + 1 if blocker == before else 0
        self._queues[rref] = blocker, looks
        waits = blocker in self._waits or owner.alias is not None
        return waits and looks > 0 and (looks % RARELY == 0 or looks.bit_count() == 1)


def _needed(future: concurrent.futures.Future[Any] | None) -> Future[Any] | None:
    """The future of a request that has to be answered before *future* is done, if it is known."""
    while future is not None and getattr(future, "call", None) is None:
        future = getattr(future, "after", None)
    return None if future is None or future.done() else future  # type: ignore[return-value]

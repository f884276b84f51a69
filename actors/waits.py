"""Which request waits for which: what the machine that finds rings (`protocol.rings`) asks.

The code of a request waits where it is blocked in a future, or awaits one. It says so here, which
takes no lock, and nobody asks as long as no request is queued. Some waits do not count: those that
this library does not see, as for a lock or a queue of the user's; those of other threads and tasks
that the code has started; and those that end with any one of several answers.

When to suspect a queue is for `queues` to say.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..protocol.messages import Create, Fetch, Invoke
from .current import Run, run_in
from .queues import Queues

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Sequence

    from ..protocol.ids import CallId
    from ..protocol.messages import ObjectRequest
    from .endpoint import Endpoint
    from .futures import Future

ON_OBJECTS = frozenset((Create, Fetch, Invoke))
"""Requests that may have to wait for their turn on an object."""
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
        self._queues = Queues(endpoint.context, self._waits.__contains__)

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
        """What the request *call*, which runs here, waits for: see `Context.waits`."""
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
        if self._queues.arrived(request, time.monotonic):
            self._endpoint.wake()  # the mailbox thread keeps the time

    def deadline(self) -> float | None:
        """When `look` has something to do next; None while nothing is queued."""
        return self._queues.look_at

    # ---- in the mailbox thread

    def look(self, now: float) -> None:
        """Suspect the objects on which requests have been queued for long."""
        if not self._queues.due(now):
            return
        with self._endpoint.lock:
            suspected = self._queues.look(now)
        for rref in suspected:
            self._endpoint.step(lambda rref=rref: self._endpoint.context.suspect(rref))  # type: ignore[misc]  # mypy infers no default


def _needed(future: concurrent.futures.Future[Any] | None) -> Future[Any] | None:
    """The future of a request that has to be answered before *future* is done, if it is known."""
    while future is not None and getattr(future, "call", None) is None:
        future = getattr(future, "after", None)
    return None if future is None or future.done() else future  # type: ignore[return-value]  # the library's own kind

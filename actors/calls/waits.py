"""The waits between requests, for the machine that finds rings of them (`protocol.deadlocks`).

The code of a request records here, without a lock, where it blocks on a future or awaits one. Some
waits do not count: those that this library does not see, such as for a lock of the user's; those of
other threads and tasks that the code has started; and those that any one of several answers ends.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from ...protocol.effects import Look
from ...protocol.ids import CallId
from ...protocol.messages import Create, Fetch, Invoke, ObjectRequest
from ..core.brief import Later
from ..core.core import Core, Internal
from ..core.current import CurrentRun, run_in
from .queues import Queues

LONGEST = 300
"""The most characters of a wait in words; the rest is left out."""


class Wait(msgspec.Struct, frozen=True):
    """The code of *run* needs the answers of all *futures*."""

    number: int
    run: CurrentRun
    futures: Sequence[concurrent.futures.Future[Any]]
    told: concurrent.futures.Future[Any] | None = None
    """The future that the thread waits for, if that is one of its own: others may wait for those
    in *futures*, too. An interrupt cancels it."""


class Awaited(Protocol):
    """The future of a request."""

    call: CallId | None
    what: str

    def done(self) -> bool:
        """Whether the answer is there."""


class Attended(Protocol):
    """The answer for which a request waits while its thread receives (`waiter`)."""

    call: CallId | None
    """None as long as the request has not left."""
    run: CurrentRun | None
    """The request that waits for it."""
    over: bool

    @property
    def what(self) -> str:
        """The awaited thing in words."""

    def give_up(self, *, interrupt: bool = False) -> bool:
        """Nobody waits any more. Returns false if the answer is there."""


class Waits(Internal):
    """The waits of one endpoint's requests, and the queues that they hold up."""

    def __init__(self, core: Core) -> None:
        self._core = core
        core.handlers[Look] = self._tell
        for request in (Create, Fetch, Invoke):  # they may have to wait for their turn
            core.observers[request] = self.arrived
        self._waits: dict[CallId, Wait] = {}
        self._numbers = itertools.count(1)
        self.pending: dict[CallId, Attended] = {}
        """Requests that run here, and that wait while their threads receive."""
        self._queues = Queues(core.context, self._waiting)

    # ---- in the thread, or the task, that waits

    def block(
        self,
        futures: Sequence[concurrent.futures.Future[Any]],
        told: concurrent.futures.Future[Any] | None = None,
    ) -> CurrentRun | None:
        """Note that the running code waits for all *futures*, which may change meanwhile.

        Pass the result to `unblock`. For *told* see `Wait`.
        """
        return self.begin(run_in(self._core, threading.get_ident()), futures, told)

    def suspend(self, future: concurrent.futures.Future[Any]) -> CurrentRun | None:
        """The same for a coroutine, which waits for *future*."""
        import asyncio  # noqa: PLC0415 - a coroutine's loop has loaded it

        return self.begin(run_in(self._core, id(asyncio.current_task())), (future,))

    def begin(
        self,
        run: CurrentRun | None,
        futures: Sequence[concurrent.futures.Future[Any]],
        told: concurrent.futures.Future[Any] | None = None,
    ) -> CurrentRun | None:
        """Note that the code of *run*, if that is a request, waits for all *futures*."""
        if run is not None:
            self._waits[run.call] = Wait(next(self._numbers), run, futures, told)
        return run

    def unblock(self, run: CurrentRun | None) -> None:
        """Note that the code of *run* goes on."""
        if run is not None:
            self._waits.pop(run.call, None)

    # ---- in any thread

    def cancel(self, call: CallId, *, alone: bool = False) -> bool:
        """End the wait of *call*: cancel what its code waits for, even where plain functions run.

        With *alone* only calls whose answers nobody else expects, and no functions that run.
        Returns whether the wait ends by that.
        """
        pending, wait = self.pending.get(call), self._waits.get(call)
        ends = pending is not None and pending.give_up(interrupt=True)
        if wait is None:
            return ends
        if wait.told is not None:
            ends |= wait.told.cancel()
        for future in wait.futures:
            needed: Any = _needed(future)
            if needed is None or (needed.fetches and (alone or wait.told is not None)):
                continue
            if not (alone and (needed.is_shared() or getattr(future, "is_shared", bool)())):
                ends |= needed.give_up(interrupt=not alone)
        return ends

    # ---- under the endpoint's lock

    def of(self, call: CallId) -> tuple[CallId | None, int, str]:
        """The request that *call*, which runs here, waits for: see `Context.waits`."""
        answer = self.pending.get(call)
        if answer is not None and answer.call is not None and not answer.over:
            # No other wait of the run is for this request, so its number tells the waits apart.
            return answer.call, answer.call.number, self._in_words(answer.run, answer.what)
        wait = self._waits.get(call)
        for future in wait.futures if wait is not None else ():
            needed = _needed(future)
            if needed is not None and needed.call is not None and wait is not None:
                return needed.call, wait.number, self._in_words(wait.run, needed.what)
        return None, 0, ""

    def _in_words(self, run: CurrentRun | None, needed: str) -> str:
        what = f"{run} on {self._core.me} waits for {needed}"
        return what.encode("utf-8", "backslashreplace").decode()[:LONGEST]

    def _waiting(self, call: CallId) -> bool:
        return call in self._waits or call in self.pending

    def _tell(self, effect: Look, later: Later) -> None:
        needed = self._core.context.waits(effect.run, *self.of(effect.run))
        self._core.carry_out(needed, later)

    def arrived(self, request: ObjectRequest) -> None:
        """*request* has come; it may have to wait for its turn."""
        if self._queues.arrived(request, time.monotonic):
            self._core.wake()  # the mailbox thread keeps the time

    def deadline(self) -> float | None:
        """The time when `look` has work next; None while no request is queued."""
        return self._queues.look_at

    # ---- in the mailbox thread

    def look(self, now: float) -> None:
        """Suspect the objects on which requests have been queued for long."""
        if not self._queues.due(now):
            return
        with self._core.lock:
            suspected = self._queues.look(now)
        for rref in suspected:
            self._core.step(partial(self._core.context.suspect, rref))


def _needed(future: Any) -> Awaited | None:
    """The future of a request that must be answered before *future* is done, if it is known."""
    while future is not None and getattr(future, "call", None) is None:
        if getattr(future, "question", None) is not None:
            break  # an actor's answer: no call, but it can be given up
        future = getattr(future, "after", None)
    return None if future is None or future.done() else future

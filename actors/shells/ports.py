"""The common parts of the ports of several bases: waits and wakeups."""

from __future__ import annotations

import concurrent.futures
import heapq
import math
import time
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any

from ...protocol.delivery import ACK_DELAY
from ...protocol.errors import WouldBlockError
from ..base.interrupts import undisturbed
from ..base.loop import RunLoop
from ..core.port import Port

JUST_NOW = 0.002
"""Seconds. An endpoint that was asked in that time is busy."""
LONGEST_PAUSE = 86_400.0
"""Seconds: the operating system cannot sleep for much longer than 24 days."""


def check_not_receiving(loop: RunLoop) -> None:
    """Raise `WouldBlockError` in code that has interrupted this thread while it receives.

    It raises also just before the thread begins to receive, and just after.
    """
    if loop.is_interrupted():
        raise WouldBlockError(
            "Python runs this code, a finalizer for example, in the thread that receives the "
            "answers, while it does so: a wait here would not end. The request has left; let "
            "another thread wait for the answer"
        )


class SelfRunning(Port):
    """The common part of ports where actors run by themselves: a waiting thread just waits."""

    @property
    def runs_by_itself(self) -> bool:
        return True

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        # A signal handler may interrupt the wait, and wait itself. So this holds nothing that the
        # thread with the answers needs, as the future's own methods hold its condition.
        told = allocate_lock()
        told.acquire()

        def tell(_: object) -> None:
            told.release()

        with undisturbed:
            concurrent.futures.Future.add_done_callback(future, tell)
        try:
            return told.acquire(timeout=max(0.0, timeout)) or future.done()
        finally:
            if not future.done():  # or each wait of a program that polls would leave one
                with undisturbed, future._condition:
                    if not future.done():  # then its callbacks may be running
                        future._done_callbacks.remove(tell)  # type: ignore[attr-defined]  # typeshed leaves it out


class Alarm:
    """The wakeups of an endpoint. In the mailbox thread only.

    Thespian's wakeups cannot be cancelled: one that is no longer needed comes all the same. So
    this class keeps a list of the wakeups to come. If one of them comes early enough, it is used
    again; a new one is requested only if it has to come before all of them. So there are at most
    as many wakeups as different pauses.

    An endpoint takes some microseconds to say when it has something to do. If it was asked just
    now, a wakeup comes after `ACK_DELAY` instead. That is soon enough for an acknowledgement. A
    first beat, which is due at once, may come that much later.
    """

    def __init__(self, nudge_after: Callable[[float], None]) -> None:
        """*nudge_after* requests a wakeup with a `Nudge` in a number of seconds."""
        self._nudge_after = nudge_after
        self._due: list[float] = []
        """A heap: the times of the wakeups to come."""
        self.open_until = math.inf
        """From this time on `set` has nothing to do: a wakeup comes soon enough for anything."""
        self._asked = -math.inf
        """The time when the endpoint was last asked."""

    @property
    def due(self) -> tuple[float, ...]:
        """The times of the wakeups to come, on the clock of `time.monotonic`."""
        return tuple(self._due)

    def rang(self) -> None:
        """Note that the earliest of the requested wakeups has come."""
        if self._due:
            heapq.heappop(self._due)
        self._note()

    def set(self, asked: Callable[[], float | None]) -> None:
        """Arrange for a wakeup when the endpoint has something to do; *asked* is its `pause`."""
        now = time.monotonic()
        if now >= self.open_until:
            return
        if now - self._asked < JUST_NOW:
            pause: float | None = self._asked + ACK_DELAY - now
        else:
            self._asked, pause = now, asked()
        if pause is None:
            return
        pause = min(max(pause, 0.005), LONGEST_PAUSE)
        due = now + pause
        if not self._due or due < self._due[0] - 0.01:
            heapq.heappush(self._due, due)
            self._nudge_after(pause)
            self._note()

    def _note(self) -> None:
        self.open_until = self._due[0] - ACK_DELAY if self._due else math.inf

"""Callbacks of futures: they run in the pool's threads, and while the endpoint closes in others.

A chain of futures must end with its system (G6), so a callback runs even if the pool has closed.
The thread that closes the endpoint runs none, and waits for them for a moment only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..base.interrupts import undisturbed
from .pool import Job, Pool

LAST = 100
"""Threads for those that have not begun when the endpoint closes: some may never end."""
PARTING = 1.0
"""Seconds that callbacks have to end when the endpoint closes."""


class Callbacks:
    """The callbacks of one endpoint's futures that are to run, or run. Thread-safe."""

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool = pool
        self._last = Pool(LAST, f"farref callbacks {name}")
        """Runs the callbacks that the pool has not begun when it closes."""
        self._threads: dict[object, int] = {}
        """The thread that runs each callback; 0 before it begins."""

    def __len__(self) -> int:
        return len(self._threads)

    def call(self, fn: Callable[[Any], object], future: object) -> None:
        mark = object()
        self._threads[mark] = 0
        with undisturbed:  # the thread with the answers needs the pool's lock
            if not self._pool.submit(self._run, fn, future, mark):
                self._call_last(fn, future, mark)

    def _call_last(self, *args: Any) -> None:
        jobs: list[Job] = [(self._run, args)]
        try:
            if self._last.submit(self._run, *args):
                return
        except RuntimeError:  # the interpreter ends: there are no more threads
            jobs = self._last.close()
        for job, each in jobs:
            self._last.run_here(job, each)

    def _run(self, fn: Callable[[Any], object], future: object, mark: object) -> None:
        self._threads[mark] = threading.get_ident()
        try:
            fn(future)
        finally:
            del self._threads[mark]

    def done(self) -> bool:
        """Whether all have ended, apart from one that calls this."""
        me = threading.get_ident()
        return all(thread == me for thread in self._threads.copy().values())

    def end(self, forgotten: list[Job]) -> None:
        """Run the callbacks among *forgotten*, the jobs that the pool took back when it closed."""
        for job, args in forgotten:
            if job == self._run:
                self._call_last(*args)

    def finish(self) -> None:
        """Wait until all have ended, for `PARTING` at most.

        One that takes longer goes on in its thread, which holds up no end of a process.
        """
        end = time.monotonic() + PARTING
        while not self.done() and time.monotonic() < end:
            time.sleep(0.002)

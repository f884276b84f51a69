"""Threads for the user's functions: a fixed number run at once, and a wait never blocks the rest.

A thread that blocks in one of the library's waits lends its place to another one. So nested calls
(A calls B, and B's function calls A) cannot use up the pool and deadlock. When the endpoint ends,
so do all waits, by an exception; `finish` gives their functions a moment to clean up.
"""

from __future__ import annotations

import contextlib
import threading
from _thread import RLock
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...printable import logger
from ...serialization.failures import details_of
from ..base.interrupts import Condition
from .threads import Threads

Job = tuple[Callable[..., object], tuple[Any, ...]]

log = logger(__name__)

IDLE_SECONDS = 5.0
"""A thread without work ends after this long."""


class _Mine(threading.local):
    """A thread's own part of a pool."""

    inside = False
    """Whether it runs one of the jobs."""
    waited = 0.0
    """Seconds in which it has received messages during its job."""


class Pool:
    """At most *size* jobs run at once, not counting those that wait in the library."""

    def __init__(self, size: int, name: str, threads: Threads | None = None) -> None:
        if size < 1:
            raise ValueError(f"a worker needs at least 1 thread, not {size}")
        self.size = size
        self._name = name
        self._threads = threads or Threads()
        self.jobs: deque[Job] = deque()
        """The jobs that have not started."""
        self._lock = RLock()
        self._ready = Condition(self._lock)
        self._places = size
        """Jobs that may still start."""
        self._idle = 0
        self._closed = False
        self.blocked: set[int] = set()
        """Threads of jobs that wait for something remote."""
        self._ending: set[int] = set()
        """Threads of jobs that waited so when the pool was closed, and that still run."""
        self.mine = _Mine()
        self.on_end: Callable[[], object] = bool
        """Called when a job has ended in a thread of the pool."""

    def submit(self, job: Callable[..., object], *args: Any) -> bool:
        """Run ``job(*args)`` in some thread, soon; false if the pool is closed.

        The job must catch its own exceptions.
        """
        added = self.add(job, *args)
        self.start()
        return added

    def add(self, job: Callable[..., object], *args: Any) -> bool:
        """The first half of `submit`: a free thread will take the job, but none is woken."""
        with self._lock:
            if not self._closed:
                self.jobs.append((job, args))
            return not self._closed

    def start(self) -> None:
        """The second half of `submit`; call it once for each added job."""
        with self._lock:
            if self.jobs and not self._closed:
                self._start_some()

    def enter(self) -> bool:
        """Take a place for `run_here`, unless jobs wait for one. Returns whether it was taken."""
        with self._lock:
            if self._closed or self.jobs or self._places <= 0:
                return False
            self._places -= 1
            return True

    def run_here(self, job: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Run ``job(*args)`` in the calling thread, in the place that `enter` took.

        The thread counts as the pool's while the job runs.
        """
        mine = self.mine
        mine.inside, mine.waited = True, 0.0
        try:
            job(*args)
        except BaseException as error:
            self._failed(error)
        mine.inside = False
        with self._lock:
            self._places += 1
            if self.jobs:
                self._start_some()
            elif self._ending:
                self._ended()

    @property
    def waits(self) -> int:
        return len(self.jobs)

    def close(self) -> list[Job]:
        """Take back the jobs that have not started; threads end when their job does."""
        with self._lock:
            self._closed = True
            self._ending |= self.blocked
            left = list(self.jobs)
            self.jobs.clear()
            self._ready.notify_all()
        return left

    def finish(self, seconds: float) -> None:
        """Wait up to *seconds* for the jobs that were waiting when the pool was closed."""
        with self._lock:
            self._ready.wait_for(lambda: not self._ending, seconds)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Lend this thread's place to another job while it waits for something remote."""
        self.lend()
        try:
            yield
        finally:
            self.take_back()

    def lend(self) -> None:
        """The first half of `waiting`."""
        if self.mine.inside:
            with self._lock:
                self.blocked.add(threading.get_ident())
                self._places += 1
                if self.jobs:
                    self._start_some()

    def take_back(self) -> None:
        """The second half of `waiting`."""
        if self.mine.inside:
            with self._lock:
                self.blocked.discard(threading.get_ident())
                self._places -= 1

    def _start_some(self) -> None:
        # Every job that may start now needs a free thread of its own. So a thread that was woken
        # for an earlier job, and does not run yet, must not count for this one too.
        if self._idle < min(len(self.jobs), self._places):
            self._threads.start(self._work, self._name)
            self._idle += 1  # it waits for our lock before it looks for jobs
        else:
            self._ready.notify()

    def _work(self) -> None:
        mine = self.mine
        mine.inside = True
        while True:
            with self._lock:
                ready = self._ready.wait_for(
                    lambda: self._closed or (self.jobs and self._places > 0), IDLE_SECONDS
                )
                self._idle -= 1
                if self._closed or not ready:
                    return
                job, args = self.jobs.popleft()
                self._places -= 1
            mine.waited = 0.0
            try:
                job(*args)
            except BaseException as error:
                self._failed(error)
            del job, args  # while waiting for the next job, keep nothing of the last
            self.on_end()
            with self._lock:
                self._places += 1
                self._idle += 1
                if self._ending:
                    self._ended()

    def _failed(self, error: BaseException) -> None:
        with contextlib.suppress(BaseException):  # of a log handler: the thread goes on
            log.error("a job of %s failed:\n%s", self._name, details_of(error))

    def _ended(self) -> None:
        """Note the end of a job after the pool was closed. Under the lock."""
        self._ending.discard(threading.get_ident())
        self._ready.notify_all()

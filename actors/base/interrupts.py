"""Delays the user's signal handlers while the program's main thread must not be interrupted.

Python runs signal handlers in the main thread, between any two of its instructions.  If a handler
raises (Ctrl-C, a deadline by ``SIGALRM``), the thread's current work ends half way.  That must not
happen

- in a *section*, ``with undisturbed:``.  A step of the protocol is one, with the work that belongs
  to it: a count and its handle, a fork and its message.  Whoever holds a `Guard` is in one;
- in a *wait*, while the main thread leads the loop: a reply would be lost, maybe another thread's.

A handler that was delayed runs at the end of the outermost section, or of the wait.  But a handler
that interrupts the sleep of a wait runs at once, and sleep is where the thread nearly always is.

A section is short and never waits for the user's code, because Ctrl-C has no effect in it.  It may
contain a wait: a call sends its request and waits for the reply in one section, so the handlers are
replaced once.  In the sleep of that wait Ctrl-C has its effect at once.

Only signals whose handlers usually raise, or end the program, are delayed: those in ``HELD``.
Thespian gives each of its actors handlers for them that raise nothing; these run at once.

**A `Condition` stays intact if a handler raises in a thread that uses it.**  The methods of
``threading.Condition`` are Python code.  If a handler raised between the taking of the lock and the
block of the ``with``, nobody would release the lock.  If it raised between the release and the
sleep of a wait, the block would release a lock that the thread no longer has.  Here C code takes
the lock for the ``with``, and C code notes that a wait has released it.  No handler runs within C
code.  A handler that raises ends the sleep of a wait all the same.
"""

from __future__ import annotations

import concurrent.futures
import os
import signal
import threading

# As in `signal`, but without names for the numbers: they take a tenth of the time.
from _signal import getsignal  # type: ignore[import-not-found]  # it has no types
from _signal import signal as set_signal
from _thread import RLock, allocate_lock
from collections import deque
from collections.abc import Callable
from operator import attrgetter, call
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .poller import Poller
from .signals import THESPIAN

Handler = Callable[[int, FrameType | None], object]

HELD: Final = tuple(
    int(number)
    for number in (
        signal.SIGINT,
        signal.SIGALRM,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGVTALRM,
        signal.SIGPROF,
    )
)


class Interrupts:
    """Holds signals back.  There is one, `undisturbed`, as there is one main thread."""

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self.within: list[Poller | None] = []
        """The sections (None) and waits that the main thread is in, the innermost last."""
        self._found: tuple[Any, ...] = ()
        """The handler of each signal in `HELD`, as it was when the last outermost one began."""
        self._ours: tuple[tuple[int, Delayed], ...] = ()
        """The signals of `HELD` that had a handler then, and what takes its place."""
        self.delayed: deque[tuple[Handler, int, FrameType | None]] = deque()
        """The handlers that wait for the end of the section or wait."""

    def hold(self, poller: Poller | None = None) -> bool:
        """Begin a section, or a wait that sleeps in *poller*.

        Returns false in a thread other than the main one, in which no handler runs.
        """
        if get_ident() != self._main:
            return False
        # If a handler raises before all are ours, some are.  They pass signals on, and the end of
        # the next section puts the user's back.
        if not self.within:
            found = tuple(map(getsignal, HELD))
            if found != self._found:
                self._look_at(found)
            for number, ours in self._ours:
                set_signal(number, ours)
        self.within.append(poller)
        return True

    def release(self, *_: object) -> None:
        """End the innermost section or wait.  Raises the errors of the delayed handlers."""
        if get_ident() != self._main:
            return
        self.within.pop()
        if self.within and not self.delayed:
            return  # nearly always
        try:
            if not self.within:
                for number, ours in self._ours:
                    if getsignal(number) is ours:  # or one of them has set another
                        set_signal(number, ours.handler)
        finally:
            while self.delayed and self._lets_in():
                handler, number, frame = self.delayed.popleft()
                handler(number, frame)

    __enter__ = hold
    __exit__ = release

    def take(self, handler: Handler, number: int, frame: FrameType | None) -> None:
        """Run *handler* for a signal, now or later."""
        if self._lets_in():
            handler(number, frame)
            return
        self.delayed.append((handler, number, frame))
        for poller in self.within:
            if poller is not None:
                poller.wake()  # it may be about to sleep

    # -- inside

    def _look_at(self, found: tuple[Any, ...]) -> None:
        """Prepare to take the place of *found*: the user has set other handlers since.

        A handler may raise in here too.  Then nothing has changed, and the next section tries anew.
        """
        ours = tuple(
            (number, each if isinstance(each, Delayed) else Delayed(self, each))
            for number, each in zip(HELD, found, strict=True)
            if callable(each) and getattr(each, "__module__", "") != THESPIAN
        )
        self._ours, self._found = ours, found

    def _lets_in(self) -> bool:
        """Whether a handler may run now."""
        innermost = self.within[-1] if self.within else None
        return not self.within or (innermost is not None and innermost.asleep == self._main)

    def after_fork(self) -> None:
        """In a forked child the thread that forked is the main one, and alone."""
        main = threading.main_thread().ident
        if main != self._main:
            self._main = main
            self.within.clear()  # those of a thread that is not there
            self.delayed.clear()  # they run in the parent


class Delayed:
    """Takes the place of a handler of the user's, and passes signals on to it.

    So it does no harm at any time: not when an interrupted section has left it in place, nor when a
    program has stored it and sets it again.
    """

    def __init__(self, interrupts: Interrupts, handler: Handler) -> None:
        self._interrupts = interrupts
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.take(self.handler, number, frame)


undisturbed: Final = Interrupts()
os.register_at_fork(after_in_child=undisturbed.after_fork)


class Guard(msgspec.Struct, eq=False):
    """A reentrant lock for short work that needs no other thread: its holder is in a section.

    Use it for every lock that the program's main thread takes outside a step, and that a thread
    with an answer may need.  If a signal handler ran while the main thread holds the lock, and
    waited for such an answer, the answer could never come.
    """

    lock: Any = msgspec.field(default_factory=RLock)
    """Enough by itself while the main thread is in a section or wait; see `Interrupts.within`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Begin a section, and take the lock.  Returns whether it was taken."""
        undisturbed.hold()
        taken: bool = self.lock.acquire(blocking, timeout)
        if not taken:
            undisturbed.release()
        return taken

    def release(self, *_: object) -> None:
        """Release the lock and end the section, which runs the delayed handlers."""
        self.lock.release()
        undisturbed.release()

    __enter__ = acquire
    __exit__ = release

    # what a condition uses of an `RLock`
    locked = property(attrgetter("lock.locked"))  # from Python 3.14 on
    _is_owned = property(attrgetter("lock._is_owned"))
    _release_save = property(attrgetter("lock._release_save"))
    _acquire_restore = property(attrgetter("lock._acquire_restore"))


class Condition(threading.Condition):
    """A ``threading.Condition`` of an ``RLock``, for threads that a signal may interrupt.

    If the lock is a `Guard`, the section goes on while it waits: then only threads other than the
    main one wait for long.
    """

    _lock: Any
    _waiters: Any

    if not TYPE_CHECKING:  # for the type checker these are the methods of the base
        __enter__ = property(attrgetter("_lock.__enter__"))
        __exit__ = property(attrgetter("_lock.__exit__"))

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, sleep until another thread notifies, and take the lock again.

        Returns whether that happened within *timeout* seconds.
        """
        lock, told, saved = self._lock, allocate_lock(), list[Any]()
        told.acquire()
        try:
            self._waiters.append(told)
            saved.extend(map(call, (lock._release_save,)))
            return told.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if saved:
                lock._acquire_restore(saved[0])
            if told in self._waiters:
                self._waiters.remove(told)


def new_future() -> concurrent.futures.Future[Any]:
    """A future with such a condition: one thread waits for it, and another one sets it."""
    made = concurrent.futures.Future[Any]()
    made._condition = Condition()
    return made

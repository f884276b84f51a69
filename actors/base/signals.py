"""The signal handlers of a system's processes, and of their forked children.

A forked process inherits the handlers of its parent, and every process inherits the signals that
its starter ignores or blocks (``nohup``, a supervisor).  So a process of the system begins with
Python's own handlers (`begin_anew`).  And a child that the user's code forks in it, by ``os.fork``
or ``multiprocessing``, gets Python's own in place of those of Thespian's actors, which only tell a
loop that does not run in the child: ``Process.terminate()`` would have no effect.

**A fault ends its process, with a traceback.**  Python runs a handler after the instruction that
was interrupted.  But an instruction that faults is repeated first: it faults again, and the handler
never runs.  Thespian gives its actors handlers for these signals too, so an actor with a fault
would spin for ever.  Here they have their default action, and ``faulthandler`` first writes a
traceback to standard error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final

from ._thespian import shutdown_signal_detector, uncatchable_signals

THESPIAN: Final = shutdown_signal_detector.__module__
"""The module of the handlers that Thespian's actors have."""
PYTHONS: Final[dict[int, Any]] = {
    signal.SIGINT: signal.default_int_handler,
    **dict.fromkeys((signal.SIGPIPE, signal.SIGXFSZ), signal.SIG_IGN),
}
"""What Python does at its start in place of the default."""
STDERR: Final = 2  # not sys.stderr, which may be a file that the program reads itself
FAULTS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
    if hasattr(signal, name)
)


def begin_anew() -> None:
    """Give the signals of this process Python's own handlers.  Call it in the main thread."""
    _restore(signal.valid_signals())
    die_of_faults()


def _restore(numbers: Iterable[int]) -> None:
    for number in numbers:
        with contextlib.suppress(OSError, ValueError):  # uncatchable, or reserved by the C library
            signal.signal(number, PYTHONS.get(number, signal.SIG_DFL))


class _Fork(threading.local):
    """A fork by this thread, whose child loses the handlers of Thespian's actors.

    Until then no signal may come to the child, because Python would forget it.
    """

    found: Iterable[int] = ()
    """The signals with such a handler."""
    mask: Iterable[int] | None = None
    """The signals that were blocked before, if there are such handlers."""

    def before(self) -> None:
        self.found = {
            number
            for number in signal.valid_signals()
            if getattr(signal.getsignal(number), "__module__", "") == THESPIAN
        }
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self.found) if self.found else None

    def after(self) -> None:
        if self.mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def after_in_child(self) -> None:
        _restore(self.found)
        self.after()


def die_of_faults() -> None:
    """Have a fault end this process, and unblock all signals.

    Call it in the main thread, before the user's code runs.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    faulthandler.disable()  # of the program that this process was forked from
    for number in FAULTS:
        signal.signal(number, signal.SIG_DFL)
    if sys.__stderr__ is not None:  # else descriptor 2 is something else
        faulthandler.enable(file=STDERR)


# On Thespian's own bases, actors are to have no handlers for these signals, either.
uncatchable_signals.extend(number for number in FAULTS if number not in uncatchable_signals)
_fork = _Fork()
os.register_at_fork(
    before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.after_in_child
)

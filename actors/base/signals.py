"""Makes a fault end its process, with a traceback.

Python runs a handler after the instruction that was interrupted.  An instruction that faults is
repeated first: it faults again, and the handler never runs.  Thespian gives each of its actors such
handlers, so an actor with a fault would spin for ever.  Here the signals have their default action,
and ``faulthandler`` first writes a traceback to standard error.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from typing import Final

from ._thespian import uncatchable_signals

STDERR: Final = 2  # not sys.stderr, which may be a file that the program reads itself
FAULTS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
    if hasattr(signal, name)
)


def leave_faults_alone() -> None:
    """Have Thespian's own bases give their actors no handlers for these signals, either."""
    uncatchable_signals.extend(number for number in FAULTS if number not in uncatchable_signals)


def forget_handlers() -> None:
    """Have these signals end this process, which inherits the handlers of the program."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def die_of_faults() -> None:
    """Have a fault end this process.  In its main thread, before code of the user's runs."""
    faulthandler.disable()  # of the program that this process was forked from
    for number in FAULTS:
        signal.signal(number, signal.SIG_DFL)
    if sys.__stderr__ is not None:  # else descriptor 2 is something else
        faulthandler.enable(file=STDERR)


leave_faults_alone()

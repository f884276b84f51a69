"""Ends a process of the system in order, as a Python program ends.

`multiprocessing` ends a process by ``os._exit``: no handler of `atexit` runs, nothing that is still
held is finalized, and buffered output of files is lost.  So our processes do all of that first:
they join the threads that are not daemons, run the handlers, release what they hold, and flush and
close their files.

A forked process has a copy of all that its parent has registered, opened and made, and leaves the
end of these to the parent.  So `begin` forgets the handlers, and the other steps look only at what
the process has made itself: `gc.freeze` has put all earlier objects where the collector does not
list them.

Any step may hang.  Then an alarm raises `Late` in it, and the next step begins.  If even that has
no effect, the process is ended after `STUCK` more seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import io
import logging
import multiprocessing.util
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.util import Finalize
from types import FrameType, FunctionType, TracebackType
from typing import Any, Final

from ...printable import printable

THREADS: Final = 1.0  # seconds for threads that are not daemons
LAST: Final = 3.0  # seconds for all other steps
AGAIN: Final = 0.1  # seconds for each further step when these are over
STUCK: Final = 1.0  # seconds
PATIENCE: Final = THREADS + LAST + 0.5  # seconds after which others kill a process that ends
FILE: Final[Any] = io.IOBase.__base__  # `io.IOBase` would ask each object for its `__class__`
OURS: Final = {"farref", "asyncio", "builtins", "socket", FILE.__module__}
"""Packages whose objects with finalizers exist in every process of a system."""

held: list[Callable[[], object]] = []
"""Functions that release what the parts of this process hold.  Called after the exit handlers."""
_atexit: Any = atexit
_finalize: Any = weakref.finalize
_logging: Any = logging
_threading: Any = threading
_join_threads: Any = _threading._shutdown
_util: Any = multiprocessing.util


class Late(BaseException):
    """Interrupts a step of the end that takes too long."""


def begin() -> None:
    """Prepare the end of this process, in its main thread, before the user's code runs."""
    held.clear()
    if multiprocessing.get_start_method() == "fork":
        _atexit._clear()
        for each in list(_finalize._registry):
            each.atexit = False
        _finalize._registered_with_atexit = False
        _logging._handlerList.clear()
        atexit.register(logging.shutdown)
    # After the last words of functions, and the end of child processes.
    Finalize(None, _end, exitpriority=-10)
    # From Python 3.14 on a process first waits for its threads, however long, and runs the
    # finalizers later.
    _threading._shutdown = partial(_shutdown, os.getpid())


def _shutdown(pid: int) -> None:
    """Run the finalizers of `multiprocessing`, the last of which is `_end`.  They run only once."""
    if os.getpid() == pid:
        _util._exit_function()
    else:  # in a child that a function has forked
        _join_threads()


def _end() -> None:
    """Do all steps of the end, within the time for them."""
    sys.unraisablehook = partial(_unraisable, sys.unraisablehook)
    signal.signal(signal.SIGALRM, _ring)
    file = 2 if sys.__stderr__ is not None else os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(RuntimeError):  # it is a thread, and there can be no more
        faulthandler.dump_traceback_later(THREADS + LAST + STUCK, exit=True, file=file)
    with contextlib.suppress(Late):
        _do(THREADS, _end_threads)
        _do(LAST, _atexit._run_exitfuncs, _flush_files, *held, gc.collect, _end_globals, *FILES)
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _do(seconds: float, *steps: Callable[[], object]) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    for step in steps:
        try:
            step()
        except Late as late:
            found = _named(late.__traceback__)
            if found or step is _atexit._run_exitfuncs:  # on a busy machine our steps are slow, too
                _tell(found or "a handler of atexit")
        except Exception:
            traceback.print_exc()


def _ring(_number: int, frame: FrameType | None) -> None:
    """Raise `Late` in a step whose time is over, but not while that is reported."""
    while frame is not None and frame.f_code is not _tell.__code__:
        if frame.f_code is _do.__code__:
            raise Late
        frame = frame.f_back


def _unraisable(before: Callable[[Any], object], raised: Any) -> None:
    """Report a finalizer that was `Late` in one line, and leave other errors to *before*."""
    if raised.exc_type is Late:
        # From Python 3.14 on the text has the handler, and a wait for threads is no error.
        text = (raised.err_msg or "").rpartition("callback ")[2]
        if "joining a thread" not in text:
            what = text if raised.object is None else repr(raised.object)
            _tell(_named(raised.exc_traceback) or what)
    else:
        before(raised)


def _named(where: TracebackType | None) -> str:
    """The first function in *where* that is not ours; empty if none is written in Python."""
    for frame, _ in traceback.walk_tb(where):
        if frame.f_globals is not globals():
            code = frame.f_code
            return f"{code.co_qualname}, in {code.co_filename}, line {code.co_firstlineno}"
    return ""


def _tell(what: str) -> None:
    said = f"farref: process {os.getpid()} ends without waiting for {what}: its time is over"
    with contextlib.suppress(Exception):
        sys.stderr.write(printable(said) + "\n")
        sys.stderr.flush()


def _end_threads() -> None:
    with contextlib.suppress(Late):
        _join_threads()
    main = threading.main_thread()
    alive = [each.name for each in threading.enumerate() if not (each.daemon or each is main)]
    if alive:
        _tell(f"the threads {', '.join(sorted(alive))}")


def _end_globals() -> None:
    """Release globals with a finalizer, as Python does at the end of its modules."""
    made = {
        id(each): each
        for each in gc.get_objects()
        if hasattr(type(each), "__del__") and type(each).__module__.partition(".")[0] not in OURS
    }
    if not made:  # looking at all modules would copy their pages
        return
    spaces = [vars(each) for each in list(sys.modules.values())]
    spaces += [each.__globals__ for each in gc.get_objects() if type(each) is FunctionType]
    for names in spaces:
        for name, value in list(names.items()):
            if id(value) in made:
                names[name] = None


def _files() -> list[Any]:
    """The files that this process has opened; a layer comes before those that it writes to."""
    files = [each for each in gc.get_objects() if issubclass(type(each), FILE)]
    return sorted(files, key=lambda file: (not isinstance(file, io.TextIOWrapper), _in_c(file)))


def _in_c(file: object) -> bool:
    return bool(type(file).__module__ == FILE.__module__)


def _flush_files() -> None:
    """Have all buffers written.  A collection may finalize the layers of a file in any order."""
    for file in _files():
        with contextlib.suppress(Exception):  # as Python does
            file.flush()


def _close_files() -> None:
    """Close the files that are written in Python: one of `gzip` has an end to write."""
    for file in _files():
        if not _in_c(file):
            with contextlib.suppress(Exception):
                file.close()


FILES: Final = (gc.collect, _flush_files, _close_files, _flush_files)
"""The last steps."""

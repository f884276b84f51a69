"""Notices: lines of the log that a program sees even if it configures no logging.

They go to its standard error then, as the warnings of other loggers do.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import re
import sys
import threading
import time
import warnings
from inspect import CO_COROUTINE
from types import FrameType

from ...printable import is_shown, logger
from ...protocol.errors import FarrefError, GivenUpError, SystemDownError
from ...serialization.errors import Failure
from ...serialization.failures import details_of
from . import sites
from .sites import Place

What = str | tuple[object, ...]
"""A text, or its format and the parts, as most of them are never read."""

log = logger(__name__)

OFTEN = 1.0
"""Seconds between two lines about the same error."""
FORGET = 60.0
"""Seconds after which an error without repetitions counts as new."""


def in_words(what: What) -> str:
    words, *parts = what if isinstance(what, tuple) else (what,)
    return str(words).format(*parts) if parts else str(words)


def notice(log: logging.Logger, level: int, text: str) -> None:
    """Log *text*. If no handler shows the log's records, write it to the standard error."""
    if not log.isEnabledFor(level):
        return
    record = log.makeRecord(log.name, level, "(farref)", 0, text, (), None)
    log.handle(record)
    last = logging.lastResort
    if last is not None and level >= last.level and not is_shown(log):
        last.handle(record)


def dropped(what: str, place: Place | None, error: Failure | BaseException) -> None:
    """Log *error*: no code has looked at the future of *what*, which was called at *place*.

    Runs code of the error's class, but raises nothing.
    """
    if isinstance(error, SystemDownError | GivenUpError):
        return  # it is the system's error, not that call's
    with contextlib.suppress(Exception):
        at = f" (called at {sites.said(place)})" if place is not None else ""
        text = error.text if isinstance(error, Failure) else details_of(error)
        about = f"nobody looked at the error of {what}{at}"
        # An error of the user's code has a call of its own to look at, one of farref's has not.
        if not isinstance(error, FarrefError) or _is_first(log, about, text):
            notice(log, logging.ERROR, f"{about}:\n{text}")
        flush(OFTEN)


_lock = threading.RLock()  # a future that the collector drops may come in between
_more: dict[str, int] = {}
"""For each text of an error of farref, without its numbers: the errors since the log had a line
about it. A death fails thousands of calls at once, with one text."""
_told: dict[str, tuple[float, str, logging.Logger]] = {}


def _is_first(log: logging.Logger, about: str, text: str) -> bool:
    """Count the error *text*; whether the log needs it in full."""
    cause = re.sub(r"\d+", "#", text)
    with _lock:
        new = cause not in _more
        _more[cause] = 0 if new else _more[cause] + 1
        if new:
            _told[cause] = time.monotonic(), about, log
        return new


def counts(after: float) -> list[tuple[logging.Logger, int, str]]:
    """The lines of the log with the counts of causes whose last line is *after* seconds old."""
    if not _told:
        return []
    now, lines = time.monotonic(), []
    with _lock:
        for cause, (told, about, log) in list(_told.items()):
            more = _more[cause]
            if now < told + after:
                continue
            if more:
                text = f"{about}: {more:,} more with the same error since then"
                lines.append((log, logging.ERROR, text))
                _told[cause], _more[cause] = (now, about, log), 0
            elif now > told + FORGET:
                del _told[cause], _more[cause]
    return lines


def flush(after: float = 0.0) -> None:
    """Log the counts of errors like one that was logged *after* seconds ago or earlier."""
    for line in counts(after):
        notice(*line)


atexit.register(flush)


def _is_cell(frame: FrameType | None) -> bool:
    """Whether *frame* is plain code of a notebook's cell, or called by it.

    Its loop belongs to the notebook, which waits for the cell anyway.
    """
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "IPython":
            return True
        if frame.f_code.co_flags & CO_COROUTINE:
            return False
        frame = frame.f_back
    return False


def blocks_loop(what: str, instead: str) -> None:
    """Warn: a coroutine of the program's waits for *what*, and its loop stands still meanwhile.

    The warning names the line of the program, and comes once for each.
    """
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and sites.is_ours(frame.f_globals):
        frame = frame.f_back
    if _is_cell(frame):
        return
    warned = frame.f_globals.setdefault("__warningregistry__", {})
    line = ("farref", frame.f_lineno)  # one call may wait for several things
    if line not in warned:
        text = f"waiting for {what} here stops the asyncio loop that runs this code, with all of "
        text += f"its tasks; write {instead} instead"
        warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
        warned[line] = True

"""Notices: lines of the log that a program sees even if it configures no logging.

The library's own logger is silent in such a program. A notice then goes to its standard error, as
the warnings of other loggers do.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from typing import TYPE_CHECKING

from ...printable import logger
from ...protocol.errors import GivenUpError, SystemDownError
from ...serialization.failures import Failure, details_of
from . import sites

if TYPE_CHECKING:
    from types import FrameType

    from .sites import Place

    What = str | tuple[object, ...]
    """A text, or its format and the parts, as most of them are never read."""

log = logger(__name__)


def in_words(what: What) -> str:
    """*what* as a text."""
    words, *parts = what if isinstance(what, tuple) else (what,)
    return str(words).format(*parts) if parts else str(words)


def notice(log: logging.Logger, level: int, text: str) -> None:
    """Log *text*. If no handler shows the log's records, write it to the standard error."""
    if not log.isEnabledFor(level):
        return
    record = log.makeRecord(log.name, level, "(farref)", 0, text, (), None)
    log.handle(record)
    last = logging.lastResort
    if last is not None and level >= last.level and not _shown(log):
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
        notice(log, logging.ERROR, f"nobody looked at the error of {what}{at}:\n{text}")


def blocks_loop(what: str, instead: str) -> None:
    """Warn: a coroutine of the program's waits for *what*, and its loop stands still meanwhile.

    The warning names the line of the program, and comes once for each.
    """
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and sites.is_ours(frame.f_globals):
        frame = frame.f_back
    warned = frame.f_globals.setdefault("__warningregistry__", {})
    line = ("farref", frame.f_lineno)  # one call may wait for several things
    if line not in warned:
        text = f"waiting for {what} here stops the asyncio loop that runs this code, with all of "
        text += f"its tasks; write {instead} instead"
        warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
        warned[line] = True


def _shown(log: logging.Logger) -> bool:
    """Whether a handler of *log*, or of one above it, does more than nothing."""
    above: logging.Logger | None = log
    while above is not None:
        if any(not isinstance(each, logging.NullHandler) for each in above.handlers):
            return True
        above = above.parent if above.propagate else None
    return False

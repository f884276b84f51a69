"""The logs of a system's processes, and Thespian's own log."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any, BinaryIO, TextIO

import msgspec
from thespian.system.utilis import thesplog_control

from ...printable import is_shown, logger, printable
from ...protocol.errors import SystemDownError
from ..base import rundir
from . import directory
from .events import JsonFormatter

log = logger(__name__)

LOG_LEVEL = "FARREF_LOG"
"""The environment variable for the lowest level at which actors' logs are shown."""
LOG_FORMAT = "FARREF_LOG_FORMAT"
"""The environment variable for the format: ``text`` or, for programs, ``json``."""


class TextFormatter(logging.Formatter):
    """Each record as a line, or as several for a traceback, and all of it printable."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(processName)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), lines=True)


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
PROCESSES = ("admin", "logger")
"""Thespian's processes, in which no code of the user's logs."""
REST = 2.0
"""Seconds for the last records, once the processes have ended."""


class NotThespian(logging.Filter):
    """Lets through records that are not Thespian's own, and Thespian's errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        package = record.name.partition(".")[0]
        its_own = package == "Thespian" or record.processName in PROCESSES
        return record.levelno >= logging.ERROR or not its_own or package == "farref"


def hush_thespian() -> None:
    """Keep Thespian from writing its own log; if the user asked for one, put it in our folder."""
    ours = directory.folder()
    rundir.log_for_thespian(ours)
    asked = {name for name in os.environ if name.startswith("THESPLOG_")}
    if os.environ[rundir.THESPIAN_LOG] == str(rundir.thespian_log(ours)):
        asked.remove(rundir.THESPIAN_LOG)
    if not asked:
        thesplog_control(logging.ERROR, useLogging=False, tmpFileMaxSize=0)


class Records:
    """The log records of a system's processes, which this program's own handlers show.

    The logger process of the system writes them into a pipe, and a thread of this program reads it:
    in order, and to the end, as all processes of the system hold the pipe open until they end.
    """

    def __init__(self) -> None:
        self._level = _level()
        reading, writing = os.pipe()
        self._from, self._to = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
        self._thread = threading.Thread(target=self._read, name="farref log", daemon=True)
        self._fallback = _fallback(sys.stderr)

    def definitions(self) -> dict[str, Any]:
        """What the logger process does, as a `dictConfig`."""
        handler = {"()": _ToProgram, "ends": (self._from, self._to), "fallback": self._fallback}
        return {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"program": handler},
            "root": {"handlers": ["program"], "level": self._level},
        }

    def begin(self) -> None:
        """Show the records from now on: the processes have been forked."""
        self._to.close()
        try:
            self._thread.start()
        except RuntimeError:  # none can be started: the logger process shows the records itself
            self._from.close()

    def end(self) -> None:
        """The processes have ended: wait for the rest of their records."""
        self._to.close()
        if self._thread.ident is not None:
            self._thread.join(REST)
        if not self._thread.is_alive():
            self._from.close()

    def _read(self) -> None:
        for line in self._from:
            try:
                self._show(logging.makeLogRecord(msgspec.json.decode(line)))
            except Exception:
                log.exception("a record could not be shown")

    def _show(self, record: logging.LogRecord) -> None:
        named = logging.getLogger(record.name)
        if not os.environ.keys().isdisjoint({LOG_LEVEL, LOG_FORMAT}) or not is_shown(named):
            self._fallback.handle(record)
        elif NotThespian().filter(record):
            named.handle(record)


class _ToProgram(logging.Handler):
    """In the logger process: sends each record to the program, or shows it if that has gone."""

    def __init__(self, ends: tuple[BinaryIO, BinaryIO], fallback: logging.Handler) -> None:
        super().__init__()
        reading, self._to = ends
        reading.close()
        self._fallback = fallback

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._to.write(msgspec.json.encode(vars(record), enc_hook=repr) + b"\n")
            self._to.flush()
        except OSError:
            self._fallback.handle(record)


def levels() -> dict[str, int]:
    """The levels of this process's loggers, by their names; that of the root is for actors."""
    known = logging.Logger.manager.loggerDict
    loggers = {name: each for name, each in known.items() if isinstance(each, logging.Logger)}
    chosen = {name: each.level for name, each in loggers.items() if each.level}
    return {"": _level(), **chosen}


def set_levels(levels: dict[str, int]) -> None:
    """Give loggers of this process these *levels*, by their names. In an actor's process."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _level() -> int:
    """The level from which actors log: that of this program's root, or WARNING."""
    asked = os.environ.get(LOG_LEVEL, "").upper()
    known = logging.getLevelNamesMapping()
    if asked and asked not in known:
        raise SystemDownError(
            f"{LOG_LEVEL}={asked} is no logging level; give one of {', '.join(known)}"
        )
    root = logging.getLogger()
    return known.get(asked, root.level if is_shown(root) else logging.WARNING)


def _fallback(stream: TextIO) -> logging.Handler:
    """Shows records on *stream*, from WARNING on, for a program that has no handlers.

    ``FARREF_LOG`` names another level. ``FARREF_LOG_FORMAT=json`` makes each record a line of JSON
    with the attributes of `events`. Thespian's own records are shown from ERROR on, or from that
    level if it is lower: its warnings are about conditions that farref handles, such as a peer that
    has gone.
    """
    form = os.environ.get(LOG_FORMAT, "").lower() or "text"
    if form not in FORMATTERS:
        raise SystemDownError(
            f"{LOG_FORMAT}={form} is no log format; give one of {', '.join(FORMATTERS)}"
        )
    shown = logging.StreamHandler(stream)
    shown.setLevel(os.environ.get(LOG_LEVEL, "").upper() or logging.WARNING)
    shown.setFormatter(FORMATTERS[form]())
    if LOG_LEVEL not in os.environ:
        shown.addFilter(NotThespian())
    return shown

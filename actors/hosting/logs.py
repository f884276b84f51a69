"""The logs of a system's processes, and Thespian's own log."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from thespian.system.utilis import thesplog_control

from ...printable import printable
from ...protocol.errors import SystemDownError
from ..base import rundir
from . import directory
from .events import JsonFormatter

LOG_LEVEL = "FARREF_LOG"
"""The environment variable for the lowest level at which actors' logs are shown."""
LOG_FORMAT = "FARREF_LOG_FORMAT"
"""The environment variable for the format: ``text`` or, for programs, ``json``."""


class TextFormatter(logging.Formatter):
    """Each record as a line, or as several for a traceback, and all of it printable."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """*record* as text."""
        return printable(super().format(record), lines=True)


FORMATTERS = {
    "text": {"()": TextFormatter},
    "json": {"()": JsonFormatter},
}


class NotThespian(logging.Filter):
    """Lets through records that are not Thespian's own, and Thespian's errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show *record*."""
        return record.levelno >= logging.ERROR or record.name.split(".")[0] != "Thespian"


def hush_thespian() -> None:
    """Keep Thespian from writing its own log; if the user asked for one, put it in our folder."""
    ours = directory.folder()
    rundir.log_for_thespian(ours)
    asked = {name for name in os.environ if name.startswith("THESPLOG_")}
    if os.environ[rundir.THESPIAN_LOG] == str(rundir.thespian_log(ours)):
        asked.remove(rundir.THESPIAN_LOG)
    if not asked:
        thesplog_control(logging.ERROR, useLogging=False, tmpFileMaxSize=0)


def quiet() -> dict[str, Any]:
    """The logs of the actors go to this program's standard error, from WARNING on.

    ``FARREF_LOG`` names another level. ``FARREF_LOG_FORMAT=json`` makes each record a line of JSON
    with the attributes of `events`. Thespian's own records are shown from ERROR on, or from that
    level if it is lower: its warnings are about conditions that farref handles, such as a peer that
    has gone.
    """
    level = os.environ.get(LOG_LEVEL, "").upper() or "WARNING"
    if level not in logging.getLevelNamesMapping():
        names = ", ".join(logging.getLevelNamesMapping())
        raise SystemDownError(f"{LOG_LEVEL}={level} is no logging level; give one of {names}")
    form = os.environ.get(LOG_FORMAT, "").lower() or "text"
    if form not in FORMATTERS:
        raise SystemDownError(
            f"{LOG_FORMAT}={form} is no log format; give one of {', '.join(FORMATTERS)}"
        )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"farref": FORMATTERS[form]},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "level": level,
                "filters": [] if LOG_LEVEL in os.environ else ["thespian"],
                "formatter": "farref",
                "stream": sys.stderr,
            }
        },
        "filters": {"thespian": {"()": NotThespian}},
        "root": {"handlers": ["stderr"], "level": level},
    }

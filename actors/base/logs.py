"""Loggers in an actor's process, which is forked from one that had some.

Thespian gives such a process a new root of logging, and with it a new set of loggers. But a module
that was imported before keeps the logger that it had made. What it logs would still go to the root
of the program that was forked: nowhere, or past the level and the format that the actors have.
"""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)
"""Made where this module is first imported: before the fork."""


def adopt_loggers() -> None:
    """Have every logger that there was before the fork log to this process's root."""
    before, now = _log.manager, logging.Logger.manager
    if before is now:
        return
    for name, logger in before.loggerDict.items():
        if isinstance(logger, logging.Logger):
            logger.manager = now
            if logger.parent is before.root:
                logger.parent = now.root
        now.loggerDict[name] = logger
    now._clear_cache()  # type: ignore[attr-defined]  # which levels were enabled, with that root

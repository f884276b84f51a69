"""Moves loggers that an actor's process inherited by fork to the process's own root.

Thespian gives such a process a new root of logging, and with it a new set of loggers. But a module
that was imported before keeps its old logger, whose records would still go to the root of the
forked program: nowhere, or without the actors' level and format.
"""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)
"""Made where this module is first imported: before the fork."""


def adopt_loggers() -> None:
    """Make every logger from before the fork log to this process's root."""
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

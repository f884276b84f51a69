"""Logs refused connections.

A stranger can cause a thousand refusals a second, and must not fill a disk with them.  So a process
logs one refusal in :data:`PERIOD` seconds, with the number of those in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Final

from ...printable import logger
from .addresses import Address

PERIOD: Final = 10.0
EVENT: Final = "connection.refused"
log = logger(__name__)


class Refusals:
    def __init__(self, me: Address) -> None:
        """For connections to *me*."""
        self._me = me.key if me.well_known else f"an actor at {me.host or 'this host'}"
        self._untold = 0
        self._quiet_until = 0.0
        self.hand_over: Callable[[logging.LogRecord], object] = _log
        """Takes each record that is to be logged."""

    def tell(self, who: str, why: str) -> None:
        """Log that a connection from *who* was refused, or count it for the next record."""
        now = perf_counter()
        if now < self._quiet_until:
            self._untold += 1
            return
        more = f", and {self._untold} more before" if self._untold else ""
        self._quiet_until, self._untold = now + PERIOD, 0
        text, args = "%s refused a connection from %s: %s%s", (self._me, who, why, more)
        extra = {"farref_event": EVENT, "farref_peer": who, "farref_cause": why}
        record = log.makeRecord(
            log.name, logging.WARNING, __file__, 0, text, args, None, extra=extra
        )
        self.hand_over(record)


def _log(record: logging.LogRecord) -> None:
    if log.isEnabledFor(record.levelno):
        log.handle(record)

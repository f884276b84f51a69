"""Logging in an actor's process: as in the program, whose handlers the records reach.

Such a process is forked from the program's, so it has the program's loggers, with their levels. The
handlers of these write where the program writes. Here they go, and one handler of the root sends
each record to Thespian's logger process. An actor may add handlers of its own to any logger.
"""

from __future__ import annotations

import copy
import logging
from typing import Any, Final

from thespian.actors import ActorAddress

from ._thespian import TransmitIntent, get_min_log_level
from .transport import Transport

MOST_WAITING: Final = 1 << 20
"""The most bytes of records that wait to be sent. What comes beyond them is counted and dropped."""
_log = logging.getLogger(__name__)
"""Made where this module is first imported: before the fork."""
_PLAIN = (str, int, float, bool, type(None))
_formatter = logging.Formatter()


def begin(definitions: Any, to: ActorAddress, transport: Transport) -> None:
    """Begin logging in this process. The records go *to* the logger process.

    The level of the root is that of the logger process, by its *definitions*, or else the least
    level in them.
    """
    known = definitions.get("root", {}) if isinstance(definitions, dict) else {}
    begin_anew(known.get("level", get_min_log_level(definitions)))
    logging.root.addHandler(_Sender(to, transport))


def begin_anew(level: Any = logging.WARNING) -> None:
    """Begin logging in this process from *level* on, without handlers."""
    logging.root = logging.Logger.root = logging.RootLogger(level)
    adopt()
    # Python would flush the program's handlers again when this process ends.
    del logging._handlerList[:]  # type: ignore[attr-defined]  # typeshed hides it


def adopt() -> None:
    """Have all loggers log to the root that this process has now.

    Thespian makes a new root, and with it a new set of loggers. But a module that was imported
    before keeps its logger, so there is one set again: that of this module.
    """
    ours, latest, root = _log.manager, logging.Logger.manager, logging.root
    earlier = ours.root, latest.root
    known, others = ours.loggerDict, {} if latest is ours else latest.loggerDict
    for name, logger in [*known.items(), *others.items()]:
        if not isinstance(logger, logging.Logger):
            continue
        first = known.get(name)
        if not isinstance(first, logging.Logger):
            first = known[name] = logger
        logger.manager = ours
        if logger is not first:
            logger.parent = first
        elif logger.parent in earlier:
            logger.parent = root
        logger.handlers = []  # the program's, whose own logger of this name has them
        logger.propagate = True
    ours.root = root
    logging.Logger.manager = ours
    ours._clear_cache()  # type: ignore[attr-defined]  # which levels were enabled, with that root


class _Sender(logging.Handler):
    def __init__(self, to: ActorAddress, transport: Transport) -> None:
        super().__init__()
        self._to, self._transport = to, transport
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Send *record*, unless too many wait already."""
        try:
            if self._transport.queued_bytes(self._to) > MOST_WAITING:
                self._dropped += 1
                return
            if self._dropped:
                text = "%s records of this process were dropped: they came too fast"
                lost = (record.name, logging.WARNING, record.pathname, record.lineno)
                note = logging.LogRecord(*lost, text, (self._dropped,), None)
                self._dropped = 0
                self._send(note)
            self._send(record)
        except Exception:
            self.handleError(record)

    def _send(self, record: logging.LogRecord) -> None:
        self._transport.scheduleTransmit(None, TransmitIntent(self._to, sendable(record)))


def sendable(record: logging.LogRecord) -> logging.LogRecord:
    """A copy of *record* with texts in place of objects. Raises nothing."""
    copied = copy.copy(record)
    try:
        copied.msg = record.getMessage()
    except Exception as error:
        copied.msg = f"{record.msg!r} (its arguments do not fit: {error!r})"
    copied.args = None
    if record.exc_info and not record.exc_text:
        copied.exc_text = _formatter.formatException(record.exc_info)
    copied.exc_info = None
    for name, value in vars(copied).items():
        if not isinstance(value, _PLAIN):
            setattr(copied, name, _text_of(value))
    return copied


def _text_of(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)

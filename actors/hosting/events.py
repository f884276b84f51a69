"""The events of a system, as lines of the log: one for each, from the process that decides it.

For programs that read logs, each such record has attributes, by logging's ``extra``:

=========================  ========================================================================
``farref_event``           its name, see docs/observability.md
``farref_system``          the system's name
``farref_endpoint``        the endpoint that it is about, as `farref refs` writes it
``farref_endpoint_id``     the same with its incarnation, which makes it unique for ever
``farref_host``            the address of the host that it is about
``farref_sender``          the sender of a refused message; ``farref_sender_id``
``farref_cause``           the reason
=========================  ========================================================================
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from ...printable import json_text
from ...protocol.ids import WorkerId
from ...serialization.failures import text_of
from ..recording.tracing import spell

PREFIX = "farref_"


def tell(
    log: logging.Logger, level: int, event: str, text: str, *args: object, **about: WorkerId | str
) -> None:
    """Log *text* with *args*; *about*, without empty values, becomes the record's attributes."""
    extra = {"event": event}
    for key, value in about.items():
        if isinstance(value, WorkerId):
            extra |= {key: value.name, f"{key}_id": spell(value)}
        elif value:
            extra[key] = value
    log.log(level, text, *args, extra={f"{PREFIX}{key}": each for key, each in extra.items()})


def refused(
    log: logging.Logger,
    by: WorkerId | str,
    what: str,
    error: Exception,
    *,
    system: str,
    sender: WorkerId | str = "",
) -> None:
    """Log that *by* refused *what* of *sender*. The record keeps no object alive."""
    writable = text_of(error).encode("utf-8", "backslashreplace").decode()  # for any text
    about = {"endpoint": by} if isinstance(by, WorkerId) else {}
    args = by, what, writable
    more = {**about, "sender": sender, "cause": writable, "system": system}
    tell(log, logging.WARNING, "message.refused", "%s refused %s: %s", *args, **more)


class JsonFormatter(logging.Formatter):
    """Each record as one line of JSON, with the attributes above."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        more = {key: value for key, value in vars(record).items() if key.startswith(PREFIX)}
        return json_text({**said, **more}, default=str)

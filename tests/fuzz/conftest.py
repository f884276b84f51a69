"""Shared by the fuzz tests: a memory limit, since damaged bytes may ask for much, and the log."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator

import psutil
import pytest

from farref.protocol.ids import RRefId, WorkerId


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit this process to one more gigabyte than it has now."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    now = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


class Kept(logging.Handler):
    """Keeps the log's records, as a program's own handler may."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def pinning(self) -> list[logging.LogRecord]:
        """Records that hold anything but text and numbers."""
        inert = (str, int, float, type(None), WorkerId, RRefId)
        return [
            record
            for record in self.records
            if record.exc_info or not all(isinstance(each, inert) for each in record.args or ())
        ]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """The log records of farref in this process."""
    handler, log = Kept(), logging.getLogger("farref")
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    yield handler
    log.removeHandler(handler)
    log.propagate = propagate

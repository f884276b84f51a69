"""Stopping a process, so that it has stopped before the next line of a test."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


def stop(pid: int) -> None:
    """Send SIGSTOP to *pid*. Returns when each of its threads has stopped."""
    os.kill(pid, signal.SIGSTOP)
    eventually(
        lambda: all(_state(thread) == "T" for thread in Path(f"/proc/{pid}/task").iterdir()),
        f"process {pid} did not stop",
    )


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop *pid* for the time of the block."""
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _state(thread: Path) -> str:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it ended in the meantime
        return "T"

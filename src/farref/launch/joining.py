"""The command of a process that joins the program's system (`member`), and its report."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from ..actors.base import addresses
from .errors import LaunchError

LONGEST = 4096
"""Bytes of a report: a pipe takes so many at once, though nobody reads yet."""


class ErrorPipe:
    """A pipe that takes a member's error to the process that started the member.

    Unlike a file, it leaves nothing behind if one of them is killed.
    """

    def __init__(self) -> None:
        self._mine, self._theirs = os.pipe()
        os.set_blocking(self._mine, False)  # a process of the member's may hold the other end

    @contextlib.contextmanager
    def given(self) -> Iterator[int]:
        """The member's end. The member inherits it when it is started in this context."""
        try:
            yield self._theirs
        finally:
            os.close(self._theirs)

    def taken(self) -> str:
        """The error of the member, which has ended; empty if it has told none."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._mine, LONGEST).decode(errors="replace")
        return ""

    def close(self) -> None:
        os.close(self._mine)


def command(how: dict[str, Any], report: int) -> list[str]:
    """The command of a member that joins as *how* says, and writes its error to *report*."""
    return [sys.executable, "-m", f"{__package__}.member", json.dumps(how), str(report)]


def tell(report: int, error: Exception) -> None:
    """Write the *error* of this member, from its beginning."""
    os.write(report, str(error).encode()[:LONGEST])


def free_port(host: str) -> int:
    """A port at *host* that nobody listens on now. Raises `LaunchError`."""
    try:
        return addresses.free_port(host)
    except OSError as error:
        raise LaunchError(
            f"{host} is not an address of this node ({error.strerror}); give its own with --host"
        ) from error

"""The command of a process that joins the program's system (`member`), and its report."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..actors.base import addresses
from .errors import LaunchError


def command(how: dict[str, Any]) -> tuple[list[str], Path]:
    """The command of a member that joins as *how* says, and the file for its error."""
    handle, report = tempfile.mkstemp(prefix="farref-member-")
    os.close(handle)
    return [sys.executable, "-m", f"{__package__}.member", json.dumps(how), report], Path(report)


def taken(report: Path) -> str:
    """The error in the file, which is removed; empty if the member ended without one."""
    try:
        return report.read_text(encoding="utf-8")
    finally:
        report.unlink()


def free_port(host: str) -> int:
    """A port at *host* that nobody listens on now. Raises `LaunchError`."""
    try:
        return addresses.free_port(host)
    except OSError as error:
        raise LaunchError(
            f"{host} is no address of this node ({error.strerror}); give its own with --host"
        ) from error

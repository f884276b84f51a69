"""The systems that this program has entered and not left, and a warning where they pile up.

In a notebook it is easy to run the cell that starts a system twice. The name `system` then means
the new one, and nothing leads to the old one any more, but its processes run on.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

_entered: list[tuple[int, Any]] = []
"""Each `System`, with the process that entered it: a forked child inherits the list."""


def entered() -> list[Any]:
    """The systems of this process, the first one first."""
    return [system for pid, system in _entered if pid == os.getpid()]


def enter(system: object) -> None:
    _entered.append((os.getpid(), system))


def leave(system: object) -> None:
    _entered[:] = [entry for entry in _entered if entry[1] is not system]


def warn_of_another() -> None:
    """In a notebook or at a prompt: warn that a system that was started there still runs."""
    running = ", ".join(repr(system.name) for system in entered())
    if running and hasattr(sys, "ps1"):
        warnings.warn(
            f"this session still runs {running}, with all its processes; end it with "
            "`system.shutdown()`, or, if no variable has it any more, with "
            "`for old in farref.System.running()[:-1]: old.shutdown()`",
            RuntimeWarning,
            stacklevel=3,
        )

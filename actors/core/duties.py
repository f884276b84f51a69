"""The duties of a caller: a lock that it holds or does not hold, a thread that it is.

A decorator notes the duty and returns the function itself, so it costs a call nothing. The test
suite puts a check before each of these functions (`tests/duties.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound="Callable[..., Any]")

DUTIES: list[tuple[Callable[..., Any], str]] = []
"""Each function with its duty, in the order in which they were defined."""


def _duty(duty: str) -> Callable[[F], F]:
    def noted(function: F) -> F:
        DUTIES.append((function, duty))
        return function

    return noted


under_lock = _duty("under the lock")
"""The caller holds the endpoint's lock, `Core.lock`.

Such a function runs no user code, sends nothing and completes no future.
"""
without_lock = _duty("without the lock")
"""The caller does not hold the endpoint's lock: such a function waits, or runs user code."""
in_mailbox_thread = _duty("in the mailbox thread")
"""The caller is the mailbox thread: the one thread that handles the endpoint's messages now."""
in_section = _duty("in a section")
"""The caller holds signal handlers back, if it is the main thread (`base.interrupts`)."""

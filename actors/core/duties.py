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


def under_lock(function: F) -> F:
    """The caller holds the endpoint's lock, `Core.lock`.

    Such a function runs no user code, sends nothing and completes no future.
    """
    DUTIES.append((function, "under the lock"))
    return function


def without_lock(function: F) -> F:
    """The caller does not hold the endpoint's lock.

    Such a function waits, or runs user code.
    """
    DUTIES.append((function, "without the lock"))
    return function


def in_mailbox_thread(function: F) -> F:
    """The caller is the mailbox thread: the one thread that handles the endpoint's messages now."""
    DUTIES.append((function, "in the mailbox thread"))
    return function


def in_section(function: F) -> F:
    """The caller holds signal handlers back, if it is the main thread (`base.interrupts`)."""
    DUTIES.append((function, "in a section"))
    return function

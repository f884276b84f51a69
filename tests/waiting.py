"""Waiting for something that other threads or processes do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 30.0
"""Seconds for something that takes milliseconds on an idle machine."""


def eventually(
    condition: Callable[[], object],
    otherwise: str | Callable[[], object] = "",
    patience: float = PATIENCE,
) -> None:
    """Wait until *condition* holds. The tests claim only that it comes true, never how soon.

    *otherwise* is the message of the failure, or makes it.
    """
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.005)

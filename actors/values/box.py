"""A value that passes through several calls; none of them may keep it.

Python complains about a coroutine that was never started, wherever the collector happens to run. A
coroutine that is dropped on its way, as its actor ends, is closed in its box.
"""

from __future__ import annotations

import types
from typing import Any

import msgspec


class Box(msgspec.Struct, eq=False):
    """One value, until some code takes it. Not thread-safe."""

    content: Any

    def take(self) -> Any:
        """The value; the box is empty after that."""
        content, self.content = self.content, None
        return content


class CoroutineBox(Box, eq=False):
    """A box with a coroutine, which it closes if it is dropped."""

    def __del__(self) -> None:
        if type(self.content) is types.CoroutineType:  # else its result has taken its place
            self.content.close()

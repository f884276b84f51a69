"""A value on its way through several calls, of which none may keep it.

Python complains of a coroutine that nobody ever started, wherever the collector happens to run. One
that is dropped on its way, as its actor ends, is closed in its box.
"""

from __future__ import annotations

import types
from typing import Any


class Box:
    """One value, until somebody takes it. Not thread-safe."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def take(self) -> Any:
        """The value; the box is empty after that."""
        content, self.content = self.content, None
        return content

    def __del__(self) -> None:
        if type(self.content) is types.CoroutineType:
            self.content.close()

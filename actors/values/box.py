"""A value that passes through several calls; none of them may keep it.

Python complains about a coroutine that was never started, wherever the collector happens to run. A
coroutine that is dropped on its way, as its actor ends, is closed in its box.
"""

from __future__ import annotations

import types
from typing import Any


class Box:
    """One value, until some code takes it. Not thread-safe."""

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

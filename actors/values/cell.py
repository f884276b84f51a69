"""Cells: a value on its way through several calls, none of which may keep it.

The frame of a function keeps its arguments until it ends, and with a value all references in it.
So a function that is not to keep the value gets a cell, and the code that needs the value takes it
out.
"""

from __future__ import annotations

import types
from concurrent.futures import Future
from typing import Any

import msgspec

LATER = (types.CoroutineType, Future)
"""The types of results that come later, with their subclasses: the outcome of the coroutine or the
future is the answer. Ask by `issubclass`: `isinstance` asks the user's `__class__`, too."""


class Cell(msgspec.Struct, eq=False):
    """One value, until some code takes it. Not thread-safe."""

    content: Any

    def take(self) -> Any:
        """The value; the cell is empty after that."""
        content, self.content = self.content, None
        return content


class CoroutineCell(Cell, eq=False):
    """A cell with a coroutine, which it closes if it is dropped.

    Python complains about one that was never started, wherever the collector happens to run.
    """

    def __del__(self) -> None:
        if type(self.content) is types.CoroutineType:  # else its result has taken its place
            self.content.close()

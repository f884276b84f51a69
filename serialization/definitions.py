"""Functions and classes that are pickled by value, as they travel: once to each endpoint.

The sender makes definitions in its `library`, and a receiver makes functions of them in `spaces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.ids import WorkerId  # also a decoder reads it, in an annotation
from . import spaces

if TYPE_CHECKING:
    from collections.abc import Hashable


class Exported(msgspec.Struct, frozen=True, array_like=True):
    """A definition in a message on the wire: its index in the export cache of the message's flow.

    If the receiver does not have it, the other fields bring it.
    """

    index: int
    origin: WorkerId | None = None
    number: int = 0
    data: bytes = b""


class Definition:
    """A function or class, pickled by the endpoint *origin* as its definition number *number*."""

    __slots__ = ("__weakref__", "_loaded", "data", "name", "number", "origin")

    def __init__(self, origin: WorkerId, number: int, data: bytes) -> None:
        self.origin = origin
        self.number = number
        self.name: Hashable = (origin, number)
        """Distinguishes it from all other definitions."""
        self.data = data
        self._loaded: tuple[Any, Any] | None = None

    def make(self) -> Any:
        """The function, class or other global, made at its first use.

        Raises the errors of unpickling.
        """
        return self._load()[0]

    def called(self) -> Any:
        """The same for one call."""
        made, reads = self._load()
        return made if reads is None else spaces.called(made, *reads)

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = spaces.load(self.data)
        return self._loaded

"""Functions and classes that are pickled by value, as they travel: once to each endpoint.

cloudpickle sends a function of ``__main__``, of a notebook, a lambda or a closure by value: its
code, and the globals that it uses. Such a function becomes a `Definition`. The first message to an
endpoint brings the definition, later ones only name it (`protocol.shelves`). A definition has all
that it needs in it: the functions and classes that it uses, with their globals. So a receiver never
has to ask for more. The sender makes definitions in its `library`, and a receiver makes the
functions again in its `spaces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.ids import WorkerId  # also a decoder reads it, in an annotation

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Hashable

SPACE = "s"
"""The kind of a namespace's persistent id in a definition."""
_NOTHING: Any = object()


class Missing:
    """Stands for the value of a global that is not there (any more)."""


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """A definition in a message on the wire: its place on the shelf of the message's flow.

    If the receiver does not have it, the rest is there, too.
    """

    place: int
    origin: WorkerId | None = None
    number: int = 0
    data: bytes = b""


class Definition:
    """A function or class, pickled by the endpoint *origin* as its definition number *number*."""

    __slots__ = ("__weakref__", "data", "made", "name", "number", "origin")

    def __init__(self, origin: WorkerId, number: int, data: bytes) -> None:
        self.origin = origin
        self.number = number
        self.name: Hashable = (origin, number)
        """Distinguishes it from all other definitions."""
        self.data = data
        self.made: Any = _NOTHING
        """The function or class, where it has been made (see `spaces`)."""

    @property
    def is_made(self) -> bool:
        """Whether the function or class has been made here."""
        return self.made is not _NOTHING


class Header(msgspec.Struct, frozen=True):
    """A namespace that a definition uses."""

    number: int
    generation: int
    base: dict[str, Any]
    """The names that the import system gives every module."""
    since: dict[str, int]


def bounded(known: OrderedDict[Any, Any], most: int) -> None:
    """Let go of the oldest entries of *known*, so that *most* are left."""
    while len(known) > most:
        known.popitem(last=False)

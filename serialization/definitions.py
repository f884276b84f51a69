"""Functions and classes that are pickled by value, as they travel: once to each endpoint.

The rule: a module of the sender that cannot be imported (``__main__``, a notebook) is one module at
the receiver. A function or class of it goes there once. A changed definition replaces it there, as
an edit in a notebook does. The other globals stay as they are there, except those that the sender
has bound anew.

The sender gives each binding of a global, and of an attribute of a class, a number when it first
sends it (`tick`). A receiver takes a binding only if its number is higher than the one that it has.
So it does not matter how often, in which order, or by which way definitions arrive.

A `Definition` brings all that the function or class needs: the pickles of the globals that it uses,
of those that these use, and so on. So a receiver never has to ask for more. The first message to an
endpoint brings it, later ones only name it (`protocol.shelves`). The sender makes definitions in
its `library`, and a receiver has its modules in `spaces`.
"""

from __future__ import annotations

import dis
import os
import threading
import time
import weakref
from types import CodeType
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.ids import WorkerId  # also a decoder reads it, in an annotation

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

_NOTHING: Any = object()
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_lock = threading.Lock()
_last = 0


class Missing:
    """Stands for the value of a global or an attribute that is not there (any more)."""


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

    __slots__ = ("__weakref__", "data", "made", "name", "number", "origin", "view")

    def __init__(self, origin: WorkerId, number: int, data: bytes) -> None:
        self.origin = origin
        self.number = number
        self.name: Hashable = (origin, number)
        """Distinguishes it from all other definitions."""
        self.data = data
        self.made: Any = _NOTHING
        """The function or class, where it has been made (see `spaces`)."""
        self.view: Any = None
        """Its module there, and the globals of each call if they are its own; see `spaces`."""

    @property
    def is_made(self) -> bool:
        """Whether the function or class has been made here."""
        return self.made is not _NOTHING


def _renew() -> None:
    """In a forked process: a thread of the parent may have held the lock."""
    global _lock  # noqa: PLW0603 - one counter for the process
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew)


def tick() -> int:
    """The number of a new binding: higher than all that this process gave so far.

    It follows the clock: a forked process may send the classes that it has from its parent. They
    are even; a class that goes whole in a message has odd ones, see `classes`.
    """
    global _last  # noqa: PLW0603 - one counter for the process
    with _lock:
        _last = max(_last + 2, time.time_ns() & ~1)
        return _last


def seen(value: Any) -> Any:
    """*value*, to be compared with later: weakly, if possible.

    Lists, dicts and tuples are kept alive, as Python has no weak references to them.
    """
    if type(value) in _ATOMS:
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def is_same(now: Any, before: Any) -> bool:
    """Whether *now* is the object that `seen` got, or an equal number or text."""
    if type(before) is weakref.ref:
        return before() is now
    kind = type(before)
    return now is before or (kind in _ATOMS and type(now) is kind and bool(now == before))


def are_same(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    """The same for the values of two dicts with the same keys."""
    return now.keys() == before.keys() and all(map(is_same, now.values(), before.values()))


def names_in(code: CodeType, *, stored: bool = False) -> dict[str, None]:
    """The names of the globals, and of the builtins, that *code*, or code inside it, uses.

    *stored*: only those that it binds.
    """
    ends = ("STORE_GLOBAL", "DELETE_GLOBAL") if stored else ("_GLOBAL", "_GLOBALS")
    found = {each.argval: None for each in dis.get_instructions(code) if each.opname.endswith(ends)}
    for const in code.co_consts:
        if type(const) is CodeType:
            found |= names_in(const, stored=stored)
    return found

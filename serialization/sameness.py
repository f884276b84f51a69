"""Remembers an object without keeping it alive, to tell later whether another one has its place."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})


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


def are_same(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """The same for the values of two dicts with the same keys."""
    return now.keys() == before.keys() and all(map(is_same, now.values(), before.values()))

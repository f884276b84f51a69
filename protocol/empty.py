"""The empty tables that all entries share: an endpoint may hold a million, nearly all empty.

An entry makes a table of its own before it puts something in, and has the shared one again when
that has left::

    self.children = self.children or {}
    self.children[fork] = to

    del self.children[fork]
    self.children = self.children or EMPTY

A table of its own takes 64 bytes while it is empty, 216 afterwards. A *few* forks are a tuple in
order, which takes 48 bytes; more are a set, so the cost of one more does not grow with them.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from .ids import ForkId

Few = tuple[ForkId, ...] | set[ForkId]


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("all entries share this empty table: make one of the entry's own")


class _EmptyDict(dict[Any, Any]):
    __slots__ = ()
    __setitem__ = setdefault = update = __ior__ = _refuse  # type: ignore[assignment]  # it takes anything


class _EmptySet(set[Any]):
    __slots__ = ()
    add = update = __ior__ = _refuse


EMPTY: Final[dict[Any, Any]] = _EmptyDict()
EMPTY_SET: Final[set[Any]] = _EmptySet()

MOST_IN_TUPLE = 8
"""The most forks in a tuple."""


def added(few: Few, fork: ForkId) -> Few:
    """*few* and *fork*."""
    if type(few) is set:
        few.add(fork)
        return few
    if fork in few:
        return few
    return tuple(sorted((*few, fork))) if len(few) < MOST_IN_TUPLE else {*few, fork}


def without(few: Few, fork: ForkId) -> Few:
    """*few* without *fork*, which may not be among them."""
    if type(few) is set:
        few.discard(fork)
        return few
    return tuple([each for each in few if each != fork])

"""Whether the comparison of counts is exact in this build of Python, found out by a trial.

It is exact on CPython with the global interpreter lock.
"""

from __future__ import annotations

import sys
import weakref
from functools import cache, partial
from typing import Any

from ...serialization.contains import namespaces
from .kinds import twin_of
from .reading import Walk, reached, twins_of

PARTS = 1_000
"""More than any trial has."""


@cache
def is_exact() -> bool:
    """Whether the comparison is exact here. The first call in a process makes the trial: 3 ms."""
    if not hasattr(sys, "getrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return all(_tried(kind) for kind in _TRIALS)


class _Thing:
    def __init__(self, inner: object = None) -> None:
        self.inner = inner

    def method(self) -> object:
        return self.inner


def _in_closure(inner: object) -> object:
    return lambda: inner


def _in_generator(inner: object) -> object:
    def suspended(inner: object) -> Any:
        yield inner

    made = suspended(inner)
    next(made)
    return made


_TRIALS = (
    _Thing,
    _in_closure,
    _in_generator,
    lambda inner: [inner],
    lambda inner: {"a": (inner,)},
    lambda inner: _Thing(inner).method,
    lambda inner: partial(_Thing, inner),
)


def _tried(wrap: Any) -> bool:
    """Whether the comparison sees exactly whether something else reaches a part of ``wrap(x)``."""

    def look(inner: list[Any], *, watch: bool = False, beside: bool = False) -> bool:
        value = [wrap(inner[0])]
        twin = twin_of(value[0]) if beside else None
        seen = weakref.ref(inner[0]) if watch else None
        inner.clear()
        walk = Walk(value, namespaces(), PARTS)
        wanted = [number for number, part in walk.met.items() if type(part) is _Thing]
        target = [number for number in wanted if walk.met[number].inner == "target"]  # type: ignore[attr-defined]  # it is a `_Thing`
        leading = walk.leading(target)
        twins = twins_of(leading)
        parts = list(leading.values())
        found = bool(target)
        roots = {id(value)}
        del walk, wanted, target, leading
        alone = found and not reached(parts, roots, [range(len(parts))], twins=twins)
        if twin is not None:
            return not alone
        return alone and (seen is None or seen() is not None)

    held = _Thing("target")
    in_variable = look([held])
    del held
    seen = look([_Thing("target")]) and look([_Thing("target")], beside=True)
    return seen and not in_variable and not look([_Thing("target")], watch=True)

"""The size of a process: every table of ours and of Thespian's, and the system's resources.

There is no list of tables. The census follows every attribute from the endpoint, its actor or
system, and the globals of the modules, and counts by attribute. So it covers a new table from its
first day.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
import types
from collections import Counter, deque
from typing import Any

from farref.actors.core.current import frame

CACHE = "cache of"
KINDS = 10
"""A cache may grow by this much: it holds code, a class at a time, and no results of operations."""
CHANCE = 3
"""Anything may grow by this much: a wakeup that is just due, the thread that takes the census."""
_CONTAINERS = (dict, list, set, frozenset, deque)
_TESTERS = {"_pytest", "pluggy", "xdist"}
"""The packages that run the tests. Logging leads to them; their tables are not ours."""
_APART = (type, types.ModuleType, types.FrameType, types.CodeType, types.TracebackType, str, bytes)


def census(*roots: object) -> Counter[str]:
    """Entries by table, instances by class, threads and descriptors, of the calling process.

    It starts at *roots*, the endpoint of this process, and the modules of farref and Thespian.
    """
    gc.collect()
    found: Counter[str] = Counter()
    seen: set[int] = set()
    reached: list[Any] = [*roots, frame().core]
    for module in [m for m in sys.modules.values() if _ours(getattr(m, "__name__", ""))]:
        _tables(found, vars(module), module.__name__)
        reached += [each for name, each in vars(module).items() if not name.startswith("__")]
    while reached:
        thing = reached.pop()
        if id(thing) in seen or isinstance(thing, _APART):
            continue
        seen.add(id(thing))
        if isinstance(thing, types.FunctionType | types.MethodType):
            reached += [thing.__self__] if isinstance(thing, types.MethodType) else []
            reached += getattr(thing, "__closure__", None) or ()
            continue
        kind = type(thing)
        if kind.__module__.partition(".")[0] in _TESTERS:
            continue
        if _ours(kind.__module__):
            found[f"instances of {kind.__qualname__}"] += 1
            _tables(found, _attributes(thing), kind.__qualname__)
        elif hasattr(thing, "__dict__"):
            _tables(found, vars(thing), kind.__qualname__)
        reached += gc.get_referents(thing)
    found["threads"] = threading.active_count()
    found["tasks of the kernel"] = len(os.listdir("/proc/self/task"))
    found["descriptors"] = len(os.listdir("/proc/self/fd"))
    return +found


def _ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] in {"farref", "thespian"}


def _attributes(thing: object) -> dict[str, Any]:
    slots = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
    return getattr(thing, "__dict__", {}) | {
        name: getattr(thing, name) for name in slots if hasattr(thing, name)
    }


def _tables(found: Counter[str], attributes: dict[str, Any], owner: str) -> None:
    for name, value in list(attributes.items()):
        if name.startswith("__"):
            continue
        if isinstance(value, _CONTAINERS):
            found[f"{owner}.{name}"] += _size(value)
        elif isinstance(value, functools._lru_cache_wrapper):
            found[f"{CACHE} {owner}.{name}"] += value.cache_info().currsize


def _size(container: Any) -> int:
    """Its entries, and those of the containers in it."""
    inside = container.values() if isinstance(container, dict) else container
    return len(container) + sum(_size(each) for each in list(inside) if type(each) in _CONTAINERS)


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """The entries that grew, and not by chance."""
    return {
        name: (before[name], number)
        for name, number in after.items()
        if number > before[name] + (KINDS if name.startswith(CACHE) else CHANCE)
    }

"""Whether nothing in this process but values of its objects reaches a reference.

The search goes forward from the values, as the garbage collector would, without a lock: it finds
the parts of each value that lead to a wanted handle. Then, at one moment and under the endpoint's
lock, it compares two numbers for each of these parts: the references to it that Python counts, and
the references to it that come from the parts themselves. If they are equal, then nothing else
reaches the part: no variable, frame, thread or other object. If one part has a further reference,
everything counts as live. So it does no harm that the search does not look into modules, classes,
and objects that do not tell what they refer to: a path through them is a further reference.

Both numbers are read in one call of C code, during which no other thread can run, and no garbage
collection. A weak reference to a part makes it live, too: it may give out the part at any time.

The numbers are exact on CPython with its global lock. `is_exact` tries them out once.
"""

from __future__ import annotations

import gc
import operator
import sys
import threading
import time
import weakref
from collections import Counter, defaultdict
from functools import cache, partial
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from ...serialization.contains import namespaces
from ..core.core import Internal
from ..handles.rref import RRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ...protocol.ids import RRefId
    from ..core.core import Core
    from ..values.objects import Objects

PARTS = 20_000
"""The most parts that are compared at one moment, in about 10 ms; more count as live."""
OBJECTS = 2_000_000
"""The most objects that a search through all values meets; a larger heap counts as live."""
AGE = 2.0
"""The list of the values with handles is made anew after this many seconds, or later: after 20
times as long as it took to make it."""
_call = operator.methodcaller("__call__")
_CLOSED = (ModuleType, type, FrameType, Internal)


def alone(parts: list[object], roots: Collection[int]) -> bool:
    """Whether only *parts* themselves refer to *parts*, and one more reference to each of *roots*.

    *roots* are ids. The caller has no other reference to the parts. The list grows by one.
    """
    probe: list[object] = []
    parts.append(probe)
    numbers: tuple[partial[Any], ...] = (
        partial(list, map(sys.getrefcount, parts)),
        partial(gc.get_referents, *parts),
        partial(list, map(weakref.getweakrefcount, parts)),
    )
    enabled = gc.isenabled()
    gc.disable()
    try:
        counts, referents, weak = list(map(_call, numbers))
    finally:
        if enabled:
            gc.enable()
    inside = Counter(map(id, referents))
    del referents
    base = counts[-1] - 1  # the probe has one reference besides: its variable
    return all(
        count - base == inside[id(part)] + (id(part) in roots)
        and watched == issubclass(type(part), RRef)  # the hold of a handle
        for part, count, watched in zip(parts[:-1], counts, weak, strict=False)
    )


class _Walk:
    """The parts of one value, and the handles among them."""

    def __init__(self, value: object, outside: dict[int, object], limit: int) -> None:
        self.met: dict[int, object] = {id(value): value}
        self.by: defaultdict[int, list[int]] = defaultdict(list)
        """For each part, the parts that refer to it."""
        self.handles: list[int] = []
        ahead = [id(value)] if gc.is_tracked(value) else []
        if issubclass(type(value), RRef):
            self.handles, ahead = [id(value)], []
        for number in ahead:
            for each in gc.get_referents(self.met[number]):
                if id(each) in self.met:
                    self.by[id(each)].append(number)
                elif not issubclass(type(each), _CLOSED) and id(each) not in outside:
                    if issubclass(type(each), RRef):
                        self.handles.append(id(each))
                    elif gc.is_tracked(each):
                        ahead.append(id(each))
                    else:
                        continue
                    self.met[id(each)] = each
                    self.by[id(each)].append(number)
            if len(self.met) > limit:
                break

    def leading(self, handles: Iterable[int]) -> dict[int, object]:
        """The parts that lead to *handles*, and these."""
        ahead = list(handles)
        found: dict[int, object] = {}
        for number in ahead:
            if number not in found:
                found[number] = self.met[number]
                ahead += self.by[number]
        return found


class Prepared:
    """The parts to compare, for a question about some references."""

    __slots__ = ("handles", "parts", "roots")

    def __init__(self) -> None:
        self.parts: list[object] | None = []
        """None: they are too many."""
        self.roots: dict[RRefId, int] = {}
        """The objects that hold the references, and the id of each one's value."""
        self.handles: dict[int, list[RRefId]] = {}
        """The place of each wanted handle in `parts`, and the objects that hold it."""


class Scanner(Internal):
    """The values of one endpoint, searched for handles."""

    def __init__(self, core: Core, objects: Objects) -> None:
        self._core = core
        self._objects = objects
        self.alone = threading.RLock()
        """Held for a search and its comparison: another search refers to the same parts."""
        self._holders: dict[RRefId, Counter[RRefId]] = {}
        self._fresh_until = 0.0
        self.pause = 0.0
        """The longest time, in seconds, for which a comparison has stopped all threads."""

    def holders(self, *, anew: bool = False) -> dict[RRefId, Counter[RRefId]]:
        """For each object, the objects here with handles of it in their values, and how many."""
        with self.alone:
            started = time.monotonic()
            if anew or started > self._fresh_until:
                self._holders = self._search()
                took = time.monotonic() - started
                self._fresh_until = started + took + max(AGE, 20 * took)
            return self._holders

    def _search(self) -> dict[RRefId, Counter[RRefId]]:
        with self._core.lock:
            owned = [(rref, value) for rref, value in self._objects.values()]
        outside, left = namespaces(), OBJECTS
        found: list[tuple[RRefId, RRefId]] = []
        while owned:
            holder, value = owned.pop()
            if not gc.is_tracked(value) and not issubclass(type(value), RRef):
                continue
            walk = _Walk(value, outside, left)
            left -= len(walk.met)
            handles: list[Any] = [walk.met[each] for each in walk.handles]
            found += [(each._id, holder) for each in handles if self._mine(each)]
            if left < 0:
                break
        holders: defaultdict[RRefId, Counter[RRefId]] = defaultdict(Counter)
        with self._core.lock:
            for rref, holder in found:
                holders[self._core.context.whereabouts(rref)][holder] += 1
        return holders

    def prepare(self, rrefs: Iterable[RRefId]) -> Prepared:
        """Find the parts of the values here that lead to *rrefs*, and on to these values' own."""
        holders, outside, made = self.holders(), namespaces(), Prepared()
        wanted = list(dict.fromkeys(rrefs))
        walks: dict[RRefId, _Walk] = {}
        for rref in wanted:
            for holder in holders.get(rref, ()):
                stored = self._objects.stored(holder)
                if holder not in walks and stored is not None:
                    walks[holder] = _Walk(stored.value, outside, PARTS * 10)
                    made.roots[holder] = id(stored.value)
                    wanted += [holder] if holder not in wanted else []
        parts: dict[int, object] = {}
        leads: defaultdict[int, list[RRefId]] = defaultdict(list)
        named = set(wanted)
        for holder, walk in walks.items():
            handles = [
                each
                for each in walk.handles
                if self._mine(walk.met[each]) and self._stands_for(walk.met[each]) in named
            ]
            parts |= walk.leading(handles)
            for each in handles:
                leads[each].append(holder)
        if len(parts) > PARTS:
            made.parts = None
            return made
        for place, number in enumerate(parts):
            if number in leads:
                made.handles[place] = leads[number]
        made.parts = list(parts.values())
        return made

    def compare(self, made: Prepared) -> dict[RRefId, dict[RRefId, int]] | None:
        """The values that alone hold each reference, at this moment. Under the endpoint's lock.

        None if anything else reaches a part.
        """
        if made.parts is None or not is_exact():
            return None
        for holder, number in made.roots.items():
            stored = self._objects.stored(holder)
            if stored is None or id(stored.value) != number:
                return None
            del stored
        led = {id(part) for part in made.parts}
        roots = {number for number in made.roots.values() if number in led}
        started = time.perf_counter()
        if not alone(made.parts, roots):
            return None
        self.pause = max(self.pause, time.perf_counter() - started)
        found: dict[RRefId, dict[RRefId, int]] = {}
        for place, holders in made.handles.items():
            values = found.setdefault(self._stands_for(made.parts[place]), {})
            for first, holder in enumerate(holders):  # a handle counts once
                values[holder] = values.get(holder, 0) + (not first)
        return found

    def _mine(self, handle: Any) -> bool:
        return handle._front is self._core.front

    def _stands_for(self, handle: Any) -> RRefId:
        return self._core.context.whereabouts(handle._id)


# ---- whether the numbers are right


@cache
def is_exact() -> bool:
    """Whether the comparison is exact in this Python: tried out, once."""
    if not hasattr(sys, "getrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return all(_tried(kind) for kind in _TRIALS)


class _Thing:
    """Something with attributes, a method, and weak references."""

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

    def look(inner: list[Any], *, watch: bool = False) -> bool:
        value = [wrap(inner[0])]
        seen = weakref.ref(inner[0]) if watch else None
        inner.clear()
        walk = _Walk(value, namespaces(), PARTS)
        wanted = [number for number, part in walk.met.items() if type(part) is _Thing]
        target = [number for number in wanted if walk.met[number].inner == "target"]  # type: ignore[attr-defined]  # it is a `_Thing`
        parts = list(walk.leading(target).values())
        found = bool(target)
        roots = {id(value)}
        del walk, wanted, target
        return found and alone(parts, roots) and (seen is None or seen() is not None)

    held = _Thing("target")
    in_variable = look([held])
    del held
    return not in_variable and look([_Thing("target")]) and not look([_Thing("target")], watch=True)

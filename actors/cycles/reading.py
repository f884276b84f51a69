"""What refers to the parts of a value, beside these parts: the comparison of two numbers.

The numbers of a part are the references to it that Python counts, and the references to it that
come from the parts themselves. If they are equal, then nothing else refers to the part: no
variable, frame, thread or other object. A part with a further reference counts as *reached*, and so
does every part that it refers to. So it does no harm that a walk does not look into modules,
classes, and objects that do not tell what they refer to: a path through them is a further
reference. A weak reference to a part makes it reached, too: it may give out the part at any time.
So does the type of a part if it does not tell all its holders to Python (`kinds`). All this trusts
what types written in C say of their references exactly as far as Python's own collector does.

Some parts have a *twin*: another object gives out what they hold, and does not tell Python that it
refers to it. From Python 3.13 on, that is the dictionary of an object's attributes, and in any
Python the frame of a suspended generator or coroutine. So the twins are compared, too (`twins_of`).

From Python 3.14 on, an expression may borrow a variable's reference: a function that is suspended
within the expression then refers to the object twice, and only one of the references is counted.
So of an object in a variable, only the variable's references are expected (`_certain`).

One call of C code reads the numbers of some parts. Meanwhile neither another thread nor a garbage
collection can run.
"""

from __future__ import annotations

import gc
import operator
import sys
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import FrameType, MappingProxyType, ModuleType
from typing import Any

from ..core.core import Internal
from ..handles.rref import RRef
from .kinds import FRAMES, is_counted, twin_of

_Numbers = tuple[list[int], list[list[object]], list[int]]
"""For each part: the references to it, the objects that it refers to, its weak references."""
Moment = Callable[[Callable[[], None]], None]

NO_TWINS: Mapping[int, int] = MappingProxyType({})
YIELD = 500
"""A walk lets other threads run after this many objects: in about 1 ms, not in Python's 5."""
_call = operator.methodcaller("__call__")
_CLOSED = (ModuleType, type, FrameType, Internal)
_COLLECTS_ANYWHERE = sys.version_info < (3, 12)
"""Python may collect garbage, and run finalizers, in the middle of C code."""
_BORROWS = sys.version_info >= (3, 14)
"""An expression may use the object of a variable without counting a reference of its own."""


class _Reading:
    def __init__(self, roots: Collection[int], twins: Mapping[int, int]) -> None:
        self._roots = roots
        self._twins = twins
        self._inside: Counter[int] = Counter()
        """The references to each object that come from the parts."""
        self._others: dict[int, int] = {}
        """For each part, the references that must come from the parts."""
        self._edges: dict[int, list[int]] = {}
        self._watched: list[int] = []
        """The parts that something may give out without a reference to them."""

    def read(self, parts: list[object]) -> _Numbers:
        """Read the numbers of *parts*, which the caller has in one further list.

        Stops all threads. It adds a probe to the list.
        """
        probe: list[object] = []
        parts.append(probe)
        numbers: tuple[partial[Any], ...] = (
            partial(list, map(sys.getrefcount, parts)),
            partial(list, map(gc.get_referents, parts)),
            partial(list, map(weakref.getweakrefcount, parts)),
        )
        stops = _COLLECTS_ANYWHERE and gc.isenabled()
        if stops:
            gc.disable()
        try:
            counts, referents, weak = list(map(_call, numbers))
        finally:
            if stops:
                gc.enable()
        return counts, referents, weak

    def add(self, parts: list[object], numbers: _Numbers) -> None:
        """Take the *numbers* of *parts*, as `read` has left them."""
        counts, referents, weak = numbers
        uncounted = {kind for kind in set(map(type, parts)) if not is_counted(kind)}
        base = counts[-1]  # a variable has the probe, too, as the caller's list has each part
        for part, count, led, watched in zip(parts[:-1], counts, referents, weak, strict=False):
            number = id(part)
            self._others[number] = count - base - (number in self._roots)
            self._edges[number] = ids = list(map(id, led))
            kind = type(part)
            self._inside.update(_certain(part, ids) if _BORROWS and kind in FRAMES else ids)
            twin = self._twins.get(number)
            if twin is not None and twin not in ids:
                self._inside[twin] += 1
            if watched != issubclass(kind, RRef) or kind in uncounted:  # the hold of a handle
                self._watched.append(number)

    def reached(self) -> set[int]:
        wrong = [each for each, others in self._others.items() if others != self._inside[each]]
        found = {*wrong, *self._watched}
        of_twins = [each for each, twin in self._twins.items() if twin in found]
        found.update(of_twins)
        ahead = list(found)
        while ahead:
            for each in self._edges[ahead.pop()]:
                if each in self._others and each not in found:
                    found.add(each)
                    ahead.append(each)
        return found


def reached(
    parts: Sequence[object],
    roots: Collection[int],
    portions: Iterable[Iterable[int]],
    at_a_moment: Moment = operator.call,
    twins: Mapping[int, int] = NO_TWINS,
) -> set[int]:
    """The ids of the *parts* that anything else reaches.

    *roots* are the ids of parts with one more reference that does not count. *twins* are those of
    parts, and of their twins, which are among the parts. The caller has no references to the parts
    but one in *parts*. Each of *portions*, the places of some parts, is read at one moment, which
    *at_a_moment* chooses: it calls the reader.
    """
    reading = _Reading(roots, twins)
    for portion in portions:
        _take(reading, [parts[place] for place in portion], at_a_moment)
    return reading.reached()


def _certain(part: object, ids: list[int]) -> Counter[int]:
    """Which of *ids*, the references of a suspended function, count for certain, and how often."""
    frame: FrameType | None = getattr(part, FRAMES[type(part)])
    found = Counter(ids)
    if frame is not None:
        in_cells = frame.f_code.co_cellvars + frame.f_code.co_freevars
        of_variables = Counter(
            id(each) for name, each in frame.f_locals.items() if name not in in_cells
        )
        for each, count in of_variables.items():
            found[each] = min(found[each], count)
    return found


def _take(reading: _Reading, parts: list[object], at_a_moment: Moment) -> None:
    """Read one portion. The numbers refer to other parts, so they go before the next one."""
    numbers: list[_Numbers] = []
    at_a_moment(lambda: numbers.append(reading.read(parts)))
    for each in numbers:  # none if the endpoint has closed
        reading.add(parts, each)


def twins_of(parts: dict[int, object]) -> dict[int, int]:
    """Add the twins of *parts* to them. Returns the id of each twin, by the id of its part."""
    twins: dict[int, int] = {}
    for number, part in list(parts.items()):
        twin = twin_of(part)
        if twin is not None:
            twins[number] = id(twin)
            parts[id(twin)] = twin
    return twins


class Walk:
    """The parts of one value, and the handles among them."""

    def __init__(self, value: object, outside: dict[int, object], limit: int) -> None:
        self.met: dict[int, object] = {id(value): value}
        self.by: defaultdict[int, list[int]] = defaultdict(list)
        """For each part, the parts that refer to it."""
        self.handles: list[int] = []
        ahead = [id(value)] if gc.is_tracked(value) else []
        if issubclass(type(value), RRef):
            self.handles, ahead = [id(value)], []
        for place, number in enumerate(ahead, 1):
            if not place % YIELD:
                time.sleep(0)
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

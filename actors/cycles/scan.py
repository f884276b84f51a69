"""Whether nothing in this process but values of its objects reaches a reference.

The search goes forward from the values, as the garbage collector would, without a lock: it finds
the parts of each value that lead to a wanted handle. Then it compares their numbers (`reading`).

A first look reads the numbers of `SLICE` parts at a time, and takes no lock for that. It finds
nearly everything that is alive, but may miss a variable that comes or goes meanwhile. A second look
is exact, and takes only what may be garbage. It reads both numbers of all parts that *hang
together* in one call of C code, during which no other thread and no garbage collection can run. It
does so under the endpoint's lock, and has the protocol count the handles at the same moment. All
else happens later, a slice at a time, so that the endpoint's messages go on.

Parts hang together if they are parts of one value, or of values with handles of one object, or if
one value has a handle of the object of the other. Other parts are read at another moment, so the
pause stays short. A path from the ones to the others leads through a message.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from ...protocol.effects import Effect, Scan
from ...protocol.holders import SOME, HolderReport
from ...protocol.ids import RRefId
from ...protocol.messages import Grip
from ...protocol.owner import Owner
from ...protocol.user import User
from ...serialization.contains import namespaces
from ..core.core import Core, Internal
from ..core.discards import Hold
from ..handles.rref import RRef
from ..values.objects import Objects
from .exact import is_exact
from .reading import Walk, reached, twins_of

PARTS = 100_000
"""The most parts that hang together; more of them count as live."""
SLICE = 2_000
"""The parts that are read at one moment where any moment will do."""
OBJECTS = 2_000_000
"""The most objects that a search through values meets; further ones count as live."""
AGE = 2.0
"""Seconds for which the list of values with handles is used, or 20 times the processor time that it
took to make it, if that is more."""


class Prepared(msgspec.Struct):
    """The parts to compare, for a look at some objects."""

    report: HolderReport
    entries: dict[RRefId, Owner | User] = {}
    """The entries of the objects."""
    parts: list[object] = []
    groups: list[tuple[list[int], list[RRefId]]] = []
    """Things that hang together: the places of parts, and objects."""
    roots: dict[RRefId, int] = {}
    """The objects that hold the references, and the id of each one's value."""
    handles: dict[int, tuple[RRefId, list[RRefId]]] = {}
    """The place of each wanted handle in `parts`, its object, and the objects that hold it."""
    twins: dict[int, int] = {}
    """For parts with a twin among the parts, the ids of both."""


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
        """The longest time, in seconds, for which a search has held up messages or all threads."""

    def holders(self, *, anew: bool = False) -> dict[RRefId, Counter[RRefId]]:
        """For each object, the objects here with handles of it in their values, and how many."""
        with self.alone:
            if anew or time.monotonic() > self._fresh_until:
                began = time.thread_time()
                self._holders = self._search()
                self._fresh_until = time.monotonic() + max(AGE, 20 * (time.thread_time() - began))
            return self._holders

    def _search(self) -> dict[RRefId, Counter[RRefId]]:
        owned = self._objects.all()
        outside, left = namespaces(), OBJECTS
        held: list[RRefId] = []
        by: list[RRefId] = []
        inside: dict[RRefId, list[Hold]] = {}
        while owned and left > 0:
            holder = owned.pop()
            stored = self._objects.stored(holder)
            value = stored.value if stored is not None else None
            if not gc.is_tracked(value) and not issubclass(type(value), RRef):
                continue
            walk = Walk(value, outside, left)
            left -= len(walk.met)
            handles: list[Any] = [walk.met[each] for each in self._handles(walk)]
            held += [each._id for each in handles]
            by += [holder] * len(handles)
            if handles:
                inside[holder] = [each._hold for each in handles]
        self._objects.inside = inside
        holders: defaultdict[RRefId, Counter[RRefId]] = defaultdict(Counter)
        for rref, holder in zip(self._stand_for(held), by, strict=True):
            holders[rref][holder] += 1
        return holders

    # ---- the answer to a look

    def answer(self, scan: Scan) -> tuple[Grip, ...]:
        """How this endpoint holds the objects that *scan* asks for.

        Takes the endpoint's lock often, each time for some of the objects.
        """
        with self.alone:
            made = self._prepare(scan)
            found = self._compare(made) if is_exact() or not scan.exact else None
            if found is None:  # this Python cannot tell
                return ()
            report, reports = made.report, self._core.context.holder_reports
            report.see(found)
            while some := report.due():
                report.add(self._in_a_step(reports.grip, report, some))
            return report.grips()

    def step(self, move: Callable[[], list[Effect]]) -> None:
        """Make a step of a search, and note how long it takes."""

        def timed() -> list[Effect]:
            started = time.perf_counter()
            effects = move()
            self.pause = max(self.pause, time.perf_counter() - started)
            return effects

        self._core.step(timed)

    def _in_a_step(self, do: Callable[..., Any], *args: Any) -> Any:
        found: list[Any] = []

        def move() -> list[Effect]:
            found.append(do(*args))
            return []

        self.step(move)
        return found[0] if found else ()  # the endpoint has closed

    # ---- the parts of the values

    def _prepare(self, scan: Scan) -> Prepared:
        """Find the parts of the values here that lead to the objects, and on to the holders' own.

        The parts that hang together matter only if the comparison is to be exact.
        """
        exact = scan.exact
        with self._core.lock:
            made = Prepared(self._core.context.holder_reports.begin(scan.rrefs, exact=exact))
        walks, named = self._walks(scan.rrefs, made)
        mine = [(holder, each) for holder, walk in walks.items() for each in self._handles(walk)]
        whereabouts = self._whereabouts([walks[holder].met[each] for holder, each in mine])
        parts: dict[int, object] = {}
        leads: dict[int, tuple[RRefId, list[RRefId]]] = {}
        inside: defaultdict[RRefId, list[int]] = defaultdict(list)
        groups = _Groups()
        for (holder, each), rref in zip(mine, whereabouts, strict=True):
            if rref in named:
                leads.setdefault(each, (rref, []))[1].append(holder)
                inside[holder].append(each)
                groups.join(holder, rref)
        for holder, handles in inside.items():
            led = walks[holder].leading(handles)
            parts |= led
            if exact:
                groups.join(holder, *led)
        if exact:
            made.twins = twins_of(parts)
            for each, twin in made.twins.items():
                groups.join(each, twin)
        made.parts = list(parts.values())
        for place, number in enumerate(parts):
            if number in leads:
                made.handles[place] = leads[number]
        if exact:
            for rref in list(named):
                aliases = made.report.standing.get(rref, ())
                named.update(aliases)
                groups.join(rref, *aliases)
            rrefs, reports = list(named), self._core.context.holder_reports
            for first in range(0, len(rrefs), SOME):
                some = rrefs[first : first + SOME]
                made.entries.update(self._in_a_step(reports.entries_of, some))
            made.groups = groups.of(parts, made.entries)
        return made

    def _walks(
        self, rrefs: Iterable[RRefId], made: Prepared
    ) -> tuple[dict[RRefId, Walk], set[RRefId]]:
        """The values that lead to *rrefs*, and all objects that they are searched for."""
        holders, outside, left = self.holders(), namespaces(), OBJECTS
        ahead = list(dict.fromkeys(rrefs))
        named = set(ahead)
        walks: dict[RRefId, Walk] = {}
        for rref in ahead:
            for holder in holders.get(rref, ()):
                if holder in walks or left < 0:
                    continue
                stored = self._objects.stored(holder)
                if stored is not None:
                    walk = walks[holder] = Walk(stored.value, outside, min(left, PARTS))
                    made.roots[holder] = id(stored.value)
                    left -= len(walk.met)
                    if holder not in named:
                        named.add(holder)
                        ahead.append(holder)
        return walks, named

    # ---- the comparison

    def _compare(self, made: Prepared) -> dict[RRefId, dict[RRefId, int]]:
        """The values that alone hold each object.

        An exact look sees this at one moment for all that hangs together, at which it has the
        handles counted. Else it is a guess, from the handles alone where counts are not exact.
        """
        if not is_exact():
            return self._held(made, set())
        roots = set(map(id, made.parts)) & set(made.roots.values())
        if made.report.exact:
            found: set[int] = set()
            for places, rrefs in _together(made.groups):
                if len(places) > PARTS:
                    found.update(id(made.parts[place]) for place in places)
                else:
                    entries = {rref: made.entries[rref] for rref in rrefs}
                    moment = partial(self._at_a_moment, made.report, entries)
                    found |= reached(made.parts, roots, [places], moment, made.twins)
        else:
            everything = range(len(made.parts))
            portions = [everything[first : first + SLICE] for first in everything[::SLICE]]
            found = reached(made.parts, roots, portions, self._timed)
        return self._held(made, found)

    def _at_a_moment(
        self, report: HolderReport, entries: dict[RRefId, Owner | User], read: Callable[[], None]
    ) -> None:
        """Read the numbers of some parts, and count the handles of the objects with these parts."""

        def both() -> None:
            self._core.context.holder_reports.count(report, entries)
            read()

        self._in_a_step(both)

    def _timed(self, read: Callable[[], None]) -> None:
        """Read the numbers of some parts; any moment will do."""
        started = time.perf_counter()
        read()
        self.pause = max(self.pause, time.perf_counter() - started)

    def _held(self, made: Prepared, found: set[int]) -> dict[RRefId, dict[RRefId, int]]:
        """The holders of each handle that is not in *found*."""
        # Where a value has been replaced, its root was wrong.
        gone = {holder for holder, number in made.roots.items() if self._value(holder) != number}
        held: dict[RRefId, dict[RRefId, int]] = {}
        for place, (rref, holders) in made.handles.items():
            if id(made.parts[place]) not in found and gone.isdisjoint(holders):
                values = held.setdefault(rref, {})
                for first, holder in enumerate(holders):  # a handle counts once
                    values[holder] = values.get(holder, 0) + (not first)
        return held

    def _value(self, rref: RRefId) -> int | None:
        """The id of the value of *rref*, if it has one."""
        stored = self._objects.stored(rref)
        return id(stored.value) if stored is not None else None

    def _handles(self, walk: Walk) -> list[int]:
        """The handles of this endpoint that *walk* has met."""
        front = self._core.front
        met: dict[int, Any] = walk.met
        return [each for each in walk.handles if met[each]._front is front]

    def _whereabouts(self, handles: list[Any]) -> list[RRefId]:
        """The objects of *handles*."""
        return self._stand_for([handle._id for handle in handles])

    def _stand_for(self, rrefs: list[RRefId]) -> list[RRefId]:
        """The objects that *rrefs* stand for. Takes the endpoint's lock often, for a short time."""
        found: list[RRefId] = []
        for first in range(0, len(rrefs), SOME):
            with self._core.lock:
                found += map(self._core.context.whereabouts, rrefs[first : first + SOME])
        return found


class _Groups:
    """Groups of things that refer to each other: objects (`RRefId`s), and parts (their ids)."""

    def __init__(self) -> None:
        self._above: dict[object, object] = {}

    def join(self, *things: object) -> None:
        first = self._top(things[0])
        for each in things[1:]:
            self._above[self._top(each)] = first

    def _top(self, thing: object) -> object:
        above = self._above
        while (up := above.setdefault(thing, thing)) is not thing:
            above[thing] = thing = above[up]  # half the way for the next one
        return thing

    def of(
        self, parts: Iterable[int], rrefs: Iterable[RRefId]
    ) -> list[tuple[list[int], list[RRefId]]]:
        """The groups: in each, the places of some *parts*, and some of *rrefs*."""
        found: dict[object, tuple[list[int], list[RRefId]]] = {}
        for place, number in enumerate(parts):
            found.setdefault(self._top(number), ([], []))[0].append(place)
        for rref in rrefs:
            found.setdefault(self._top(rref), ([], []))[1].append(rref)
        return list(found.values())


def _together(
    groups: Iterable[tuple[list[int], list[RRefId]]],
) -> Iterator[tuple[list[int], list[RRefId]]]:
    """Small ones of *groups* put together, to be read at one moment."""
    places: list[int] = []
    rrefs: list[RRefId] = []
    for group in groups:
        full = len(places) + len(group[0]) > SLICE or len(rrefs) + len(group[1]) > SOME
        if full and (places or rrefs):
            yield places, rrefs
            places, rrefs = [], []
        places += group[0]
        rrefs += group[1]
    yield places, rrefs

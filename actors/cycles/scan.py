"""Whether nothing in this process but values of its objects reaches a reference.

The search goes forward from the values, as the garbage collector would, without a lock: it finds
the parts of each value that lead to a wanted handle. Then it compares their numbers (`reading`).

A first look reads the numbers of `SLICE` parts at a time, and takes no lock for that. It finds
nearly everything that is alive, but may miss a variable that comes or goes meanwhile. A second look
is exact, and takes only what may be garbage. Under the endpoint's lock it reads both numbers of all
parts that *hang together* in one call of C code; during that no other thread can run, and no
garbage collection. Parts hang together if they are parts of one value, or of values with handles of
one object, or if one value has a handle of the object of the other. Other parts are read at another
moment, so the pause stays short. A path from the ones to the others leads through a message.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from ...serialization.contains import namespaces
from ..core.core import Internal
from ..handles.rref import RRef
from .exact import is_exact
from .reading import Walk, reached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.ids import RRefId
    from ..core.core import Core
    from ..values.objects import Objects

PARTS = 100_000
"""The most parts that hang together; more of them count as live."""
SLICE = 2_000
"""The parts that are read at one moment where any moment will do."""
OBJECTS = 2_000_000
"""The most objects that a search through values meets; further ones count as live."""
AGE = 2.0
"""The list of the values with handles is made anew after this many seconds, or later: after 20
times as long as it took to make it."""


class Prepared:
    """The parts to compare, for a question about some references."""

    __slots__ = ("groups", "handles", "parts", "roots")

    def __init__(self) -> None:
        self.parts: list[object] = []
        self.groups: list[list[int]] = []
        """The places of the parts that hang together."""
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
            owned = [rref for rref, _ in self._objects.values()]
        outside, left = namespaces(), OBJECTS
        held: list[RRefId] = []
        by: list[RRefId] = []
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
        holders: defaultdict[RRefId, Counter[RRefId]] = defaultdict(Counter)
        for rref, holder in zip(self._stand_for(held), by, strict=True):
            holders[rref][holder] += 1
        return holders

    # ---- the parts of the values

    def prepare(self, rrefs: Iterable[RRefId], *, exact: bool) -> Prepared:
        """Find the parts of the values here that lead to *rrefs*, and on to these values' own.

        The parts that hang together matter only if the comparison is to be *exact*.
        """
        made = Prepared()
        walks, named = self._walks(rrefs, made)
        mine = [(holder, each) for holder, walk in walks.items() for each in self._handles(walk)]
        whereabouts = self._whereabouts([walks[holder].met[each] for holder, each in mine])
        parts: dict[int, object] = {}
        leads: defaultdict[int, list[RRefId]] = defaultdict(list)
        inside: defaultdict[RRefId, list[int]] = defaultdict(list)
        groups = _Groups()
        for (holder, each), rref in zip(mine, whereabouts, strict=True):
            if rref in named:
                leads[each].append(holder)
                inside[holder].append(each)
                groups.join(holder, rref)
        for holder, handles in inside.items():
            led = walks[holder].leading(handles)
            parts |= led
            if exact:
                groups.join(holder, *led)
        if exact:
            with self._core.lock:
                for rref, aliases in self._core.context.aliases.standing().items():
                    groups.join(rref, *aliases)
        made.parts = list(parts.values())
        for place, number in enumerate(parts):
            if number in leads:
                made.handles[place] = leads[number]
        if exact:
            made.groups = groups.of(parts)
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

    def compare(self, made: Prepared, *, exact: bool) -> dict[RRefId, dict[RRefId, int]] | None:
        """The values that alone hold each reference.

        *exact*: at this moment, under the endpoint's lock; None if this Python cannot tell. Else
        it is then a guess from the handles alone.
        """
        if not is_exact():
            return None if exact else self._held(made, set())
        here = set(map(id, made.parts))
        roots = here & set(made.roots.values())
        if exact:
            found: set[int] = set()
            for group in made.groups:
                if len(group) > PARTS:
                    found.update(id(made.parts[place]) for place in group)
                    continue
                some, pause = reached(made.parts, roots, [group])
                found |= some
                self.pause = max(self.pause, pause)
        else:
            places = range(len(made.parts))
            portions = [places[first : first + SLICE] for first in places[::SLICE]]
            found, pause = reached(made.parts, roots, portions)
            self.pause = max(self.pause, pause)
        return self._held(made, found)

    def _held(self, made: Prepared, found: set[int]) -> dict[RRefId, dict[RRefId, int]]:
        """The holders of each handle that is not in *found*."""
        # Where a value has been replaced, its root was wrong.
        gone = {holder for holder, number in made.roots.items() if self._value(holder) != number}
        kept = [
            place
            for place, holders in made.handles.items()
            if id(made.parts[place]) not in found and gone.isdisjoint(holders)
        ]
        held: dict[RRefId, dict[RRefId, int]] = {}
        whereabouts = self._whereabouts([made.parts[place] for place in kept])
        for place, rref in zip(kept, whereabouts, strict=True):
            values = held.setdefault(rref, {})
            for first, holder in enumerate(made.handles[place]):  # a handle counts once
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
        """The objects that *rrefs* stand for. Takes the endpoint's lock for a short time, often."""
        found: list[RRefId] = []
        for first in range(0, len(rrefs), SLICE):
            with self._core.lock:
                found += map(self._core.context.whereabouts, rrefs[first : first + SLICE])
        return found


class _Groups:
    """Which things hang together: objects, by their `RRefId`s, and parts, by their ids."""

    def __init__(self) -> None:
        self._above: dict[object, object] = {}

    def join(self, *things: object) -> None:
        """*things* hang together."""
        first = self._top(things[0])
        for each in things[1:]:
            self._above[self._top(each)] = first

    def _top(self, thing: object) -> object:
        above = self._above
        while (up := above.setdefault(thing, thing)) is not thing:
            above[thing] = thing = above[up]  # half the way for the next one
        return thing

    def of(self, parts: Iterable[int]) -> list[list[int]]:
        """The places of *parts* that hang together."""
        found: dict[object, list[int]] = {}
        for place, number in enumerate(parts):
            found.setdefault(self._top(number), []).append(place)
        return list(found.values())

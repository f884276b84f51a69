"""The evidence of one search for garbage in cycles, and the judgement on it (see `cycles`).

The evidence is a set of *grips*: each tells how one endpoint holds one object. It is a graph of
objects. An edge leads from an object to each object whose handles are in its value, or for which it
stands as an alias. As soon as an object turns out to live, everything that it leads to lives, too.
So each edge is followed once, however many objects a search begins with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .effects import Garbage
from .ids import ForkId, RRefId, WorkerId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .messages import Grip

    Edges = Mapping[RRefId, list[RRefId]]

Place = tuple[WorkerId, RRefId]
"""An object, and an endpoint that holds it."""


def spread(live: set[RRefId], begin: Iterable[RRefId], edges: Edges) -> None:
    """Add *begin*, and all that *edges* lead to from there, to *live*."""
    ahead = [rref for rref in begin if rref not in live]
    live.update(ahead)
    while ahead:
        for rref in edges.get(ahead.pop(), ()):
            if rref not in live:
                live.add(rref)
                ahead.append(rref)


class Quest:
    """A search that an endpoint makes, from objects that live there; *start* is the first one."""

    __slots__ = (
        *("again", "asked", "counted", "cuts", "first", "leads", "live", "owned"),
        *("silent", "start", "unseen"),
    )

    def __init__(self, start: RRefId, *, cuts: bool) -> None:
        self.start = start
        self.cuts = cuts
        """Whether it is to free the garbage that it finds, or only to report it."""
        self.first: dict[Place, Grip] = {}
        """What the first looks saw."""
        self.again = False
        """Whether the first looks are over."""
        self.asked: dict[int, tuple[WorkerId, tuple[RRefId, ...]]] = {}
        """The looks without an answer: the endpoint that was asked, and the objects."""
        self.unseen: set[Place] = set()
        """Where the next looks go: others hold the objects there, as the answers say."""
        self.counted: dict[Place, set[ForkId]] = {}
        """For each place, the forks that the owner counts for it."""
        self.owned: dict[RRefId, WorkerId] = {}
        """The owners that have answered for their objects."""
        self.leads: dict[RRefId, list[RRefId]] = {}
        """The edges: for each object, the objects that it leads to."""
        self.live: set[RRefId] = set()
        """The objects that may be alive."""
        self.silent: set[WorkerId] = set()
        """The endpoints that have not answered in time."""

    # ---- the evidence

    def enliven(self, rrefs: Iterable[RRefId]) -> None:
        """*rrefs* may be alive, and so may everything that they lead to."""
        spread(self.live, rrefs, self.leads)

    def see(self, worker: WorkerId, asked: Iterable[RRefId], grips: Iterable[Grip]) -> None:
        """*worker* answers a look at *asked*."""
        held = set()
        for grip in grips:
            held.add(grip.rref)
            place = worker, grip.rref
            if not self.again and place not in self.first:
                self._add(place, grip)
            elif self.first.get(place) != grip:
                self.enliven([grip.rref])  # it has changed meanwhile
        self.enliven(rref for rref in asked if rref not in held)

    def _add(self, place: Place, grip: Grip) -> None:
        worker, rref = place
        self.first[place] = grip
        self.unseen.discard(place)
        if grip.owned:
            self.owned[rref] = worker
        for fork, other in grip.others:
            there = other, rref
            if grip.owned:
                self.counted.setdefault(there, set()).add(fork)
            if there not in self.first:
                self.unseen.add(there)
        for holder in grip.by:
            self.leads.setdefault(holder, []).append(rref)
        if not self.live.isdisjoint(grip.by):
            self.enliven([rref])

    def ahead(self) -> list[Place]:
        """The places to look at next, each once."""
        found = sorted(place for place in self.unseen if place[1] not in self.live)
        self.unseen.clear()
        return found

    def compare_forks(self) -> None:
        """Each user must have the forks that the owner counts: none is on its way.

        A user may have further ones: tables list these, or listed them until an endpoint died.
        """
        for place, grip in self.first.items():
            there = self.counted.get(place, frozenset()).issubset(grip.forks)
            if not there or place[1] not in self.owned:
                self.enliven([place[1]])

    def begin_again(self) -> list[Place]:
        """The places of the second looks: all those of objects that may be garbage."""
        self.again = True
        return sorted(place for place in self.first if place[1] not in self.live)

    # ---- the judgement

    def garbage(self) -> list[tuple[Garbage, list[RRefId]]]:
        """Each set of dead objects that hang together, and the objects to cut in it."""
        dead = sorted(self.owned.keys() - self.live)
        beside: dict[RRefId, list[RRefId]] = {rref: [] for rref in dead}
        edges = {
            rref: sorted(each for each in self.leads.get(rref, ()) if each in beside)
            for rref in dead
        }
        for rref, led in edges.items():
            for each in led:
                beside[rref].append(each)
                beside[each].append(rref)
        found, met = [], set[RRefId]()
        for rref in dead:
            if rref not in met:
                reached = set[RRefId]()
                spread(reached, [rref], beside)
                met |= reached
                together = sorted(reached)
                cuts = self._cuts(together, edges)
                ring = _ring(cuts[0], edges) if cuts else ()
                cut = len(cuts) if self.cuts else 0
                found.append((Garbage(tuple(together), ring, cut), cuts if self.cuts else []))
        return found

    def _cuts(self, objects: Iterable[RRefId], edges: Edges) -> list[RRefId]:
        """Objects such that every ring among *objects* passes through one of them.

        A walk goes along the edges as deep as it can. Where it meets its own way, a ring closes.
        """
        found: dict[RRefId, None] = {}
        done: set[RRefId] = set()
        for begin in objects:
            way = {begin: iter(edges[begin])} if begin not in done else {}
            done.add(begin)
            while way:
                node = next(reversed(way))
                to = next(way[node], None)
                if to is None:
                    del way[node]
                elif to in way:
                    # An alias has no value to drop; its target has, and is in the same ring.
                    alias = self.first[self.owned[to], to].alias
                    found[edges[to][0] if alias else to] = None
                elif to not in done:
                    done.add(to)
                    way[to] = iter(edges[to])
        return list(found)

    def stamp(self, rref: RRefId) -> int:
        """The stamp of the object's own entry, as all looks saw it."""
        return self.first[self.owned[rref], rref].stamp


def _ring(begin: RRefId, edges: Edges) -> tuple[RRefId, ...]:
    """A shortest ring, from *begin* edge by edge back to it; empty if there is none."""
    came: dict[RRefId, RRefId] = {}
    ahead = [begin]
    for node in ahead:
        for to in edges[node]:
            if to == begin:
                way = [to, node]
                while way[-1] != begin:
                    way.append(came[way[-1]])
                return tuple(way[::-1])
            if to not in came:
                came[to] = node
                ahead.append(to)
    return ()

"""The evidence of one search for garbage in cycles, and the judgement on it (see `cycles`).

The evidence is a set of *grips*: each tells how one endpoint holds one object. It is a graph of
objects. An edge leads from an object to each object whose handles are in its value, or for which it
stands as an alias. As soon as an object turns out to live, everything that it leads to lives, too.
So each edge is followed once, however many objects a search begins with.

Answers are only put down when they come. `Search.weigh` evaluates them, as soon as all are there.
That may take a while, so the shell may call it before the next step, without a lock. Nothing else
touches the evidence meanwhile, as no look is without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from .effects import Garbage
from .ids import ForkId, RRefId, WorkerId
from .messages import Cut, Grip

Edges = Mapping[RRefId, list[RRefId]]
Asked = tuple[WorkerId, tuple[RRefId, ...]]
"""A look: the endpoint that is asked, and the objects."""

Place = tuple[WorkerId, RRefId]
"""An object, and an endpoint that holds it."""
MAX_SET = 100_000
"""The most grips that one search keeps, and that one answer brings; objects beyond them count as
live. Until all answers to its looks are there, a search has the answers, too."""
MAX_ASKED = 5_000
"""The most objects that one `WhoHolds` asks for."""


def spread(live: set[RRefId], begin: Iterable[RRefId], edges: Edges) -> None:
    """Add *begin*, and all that *edges* lead to from there, to *live*."""
    ahead = [rref for rref in begin if rref not in live]
    live.update(ahead)
    while ahead:
        for rref in edges.get(ahead.pop(), ()):
            if rref not in live:
                live.add(rref)
                ahead.append(rref)


class Search(msgspec.Struct, eq=False):
    """A search that the endpoint *me* makes, from some of its objects; *start* is the first one."""

    me: WorkerId
    start: RRefId
    asks: list[Asked]
    """The looks to make next."""
    cuts: bool
    """Whether it is to free the garbage that it finds, or only to report it."""
    first: dict[Place, Grip] = {}
    """What the first looks saw."""
    again: bool = False
    """Whether the first looks are over."""
    asked: dict[int, Asked] = {}
    """The looks without an answer."""
    answers: list[tuple[Asked, tuple[Grip, ...]]] = []
    """The answers that have not been weighed, each with its look."""
    unseen: set[Place] = set()
    """Where the next looks go: others hold the objects there, as the answers say."""
    counted: dict[Place, set[ForkId]] = {}
    """For each place, the forks that the owner counts for it."""
    owned: dict[RRefId, WorkerId] = {}
    """The owners that have answered for their objects."""
    leads: dict[RRefId, list[RRefId]] = {}
    """The edges: for each object, the objects that it leads to."""
    live: set[RRefId] = set()
    """The objects that may be alive."""
    silent: set[WorkerId] = set()
    """The endpoints that have not answered in time."""
    judged: bool = False
    """Whether all looks are over. What `cutting` and `found` name is garbage for good."""
    cutting: list[tuple[WorkerId, Cut]] = []
    """The cuts to make, each with the owner of its object."""
    found: list[Garbage] = []
    """The findings to report."""

    def weigh(self) -> None:
        """Evaluate the answers. Then `asks` has the next looks, or the garbage is `judged`.

        Does nothing if they are not all there, or have been weighed before.
        """
        if self.asked or not self.answers:
            return
        for (worker, rrefs), grips in self.answers:
            self.see(worker, rrefs, grips)
        self.answers.clear()
        while not self.again:
            places = self.ahead()
            if len(self.first) + len(places) > MAX_SET:
                self.enliven(rref for _, rref in places)
                places = []
            if not places:
                self.compare_forks()
                places = self.begin_again()
            self._ask(places)
            if self.asks:
                return
        self._judge()

    def _ask(self, places: Iterable[Place]) -> None:
        """Look at *places* next. Endpoints that will not answer keep the objects."""
        by_worker: dict[WorkerId, list[RRefId]] = {}
        for worker, rref in places:
            by_worker.setdefault(worker, []).append(rref)
        for worker, rrefs in by_worker.items():
            if worker in self.silent:
                self.enliven(rrefs)
                continue
            most = len(rrefs) if worker == self.me else MAX_ASKED
            for first in range(0, len(rrefs), most):
                self.asks.append((worker, tuple(rrefs[first : first + most])))

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
            if not self.again and place not in self.first and len(self.first) < MAX_SET:
                self._add(place, grip)
            elif self.first.get(place) != grip:
                self.enliven([grip.rref])  # it has changed meanwhile, or there are too many
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
        for holder in self.leads.keys() - self.owned.keys():  # no correct peer leaves it out
            self.enliven([holder])

    def begin_again(self) -> list[Place]:
        """The places of the second looks: all those of objects that may be garbage."""
        self.again = True
        return sorted(place for place in self.first if place[1] not in self.live)

    # ---- the judgement

    def _judge(self) -> None:
        """What no look has seen alive is garbage: find its connected sets, and cuts for them."""
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
        met = set[RRefId]()
        for rref in dead:
            if rref not in met:
                reached = set[RRefId]()
                spread(reached, [rref], beside)
                met |= reached
                together = sorted(reached)
                cuts = self._cuts(together, edges)
                ring = _ring(cuts[0], edges) if cuts else ()
                if self.cuts:
                    self.cutting += map(self._cut, cuts)
                cut = len(cuts) if self.cuts else 0
                self.found.append(Garbage(tuple(together), ring, cut))
        self.judged = True

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

    def _cut(self, rref: RRefId) -> tuple[WorkerId, Cut]:
        """The order to drop the value of *rref*, with the stamp that all looks saw at its owner."""
        owner = self.owned[rref]
        return owner, Cut(rref=rref, stamp=self.first[owner, rref].stamp)


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

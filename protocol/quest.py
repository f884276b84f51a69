"""The evidence of one search for garbage in cycles, and the judgement on it (see `cycles`).

The evidence is a set of *grips*: each tells how one endpoint holds one object. It is a graph of
objects. An edge leads from an object to each object whose handles are in its value, or for which it
stands as an alias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ids import RRefId, WorkerId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ids import ForkId
    from .messages import Grip

Place = tuple[WorkerId, RRefId]
"""An object, and an endpoint that holds it."""


class Quest:
    """A search that an endpoint makes for *start*, which lives there."""

    __slots__ = ("asked", "cuts", "first", "second", "start")

    def __init__(self, start: RRefId, *, cuts: bool) -> None:
        self.start = start
        self.cuts = cuts
        """Whether it is to free the garbage that it finds, or only to report it."""
        self.first: dict[Place, Grip] = {}
        """What the first looks saw."""
        self.second: dict[Place, Grip] | None = None
        """What the second looks have seen so far; None before they begin."""
        self.asked: dict[int, tuple[WorkerId, tuple[RRefId, ...]]] = {}
        """The looks without an answer: the endpoint that was asked, and the objects."""

    def see(self, worker: WorkerId, grips: Iterable[Grip]) -> None:
        """*worker* answers a look."""
        seen = self.first if self.second is None else self.second
        seen.update({(worker, grip.rref): grip for grip in grips})

    def unseen(self) -> dict[WorkerId, list[RRefId]]:
        """The objects to look at, by endpoint: others hold them there, as the answers say."""
        found: dict[WorkerId, list[RRefId]] = {}
        for worker, rref in sorted(self._counted().keys() - self.first.keys()):
            found.setdefault(worker, []).append(rref)
        return found

    def again(self, me: WorkerId) -> dict[WorkerId, list[RRefId]]:
        """The objects of the second looks, by endpoint: the same as in the first ones."""
        found: dict[WorkerId, list[RRefId]] = {me: [self.start]}
        for worker, rref in sorted(self._counted()):
            found.setdefault(worker, []).append(rref)
        return found

    @property
    def agrees(self) -> bool:
        """The owners count exactly the forks that the users have: no fork is on its way."""
        counted, owners = self._counted(), self.owners()
        return all(
            place[1] in owners and set(grip.forks) == counted.get(place, set())
            for place, grip in self.first.items()
        )

    def _counted(self) -> dict[Place, set[ForkId]]:
        """For each place, the forks that others list for it."""
        counted: dict[Place, set[ForkId]] = {}
        for (_, rref), grip in self.first.items():
            for fork, worker in grip.others:
                counted.setdefault((worker, rref), set()).add(fork)
        return counted

    # ---- the judgement

    def owners(self) -> dict[RRefId, tuple[WorkerId, Grip]]:
        """The objects of the set: the owner of each, and its grip."""
        return {rref: (who, grip) for (who, rref), grip in self.first.items() if grip.owned}

    def cuts_of_rings(self) -> list[RRefId]:
        """Objects such that every ring of the set passes through one of them.

        A walk goes along the edges as deep as it can. Where it meets its own way, a ring closes.
        """
        edges, aliases = self._edges()
        found: dict[RRefId, None] = {}
        done: set[RRefId] = set()
        for begin in (self.start, *sorted(edges)):
            way = {begin: iter(edges[begin])} if begin not in done else {}
            done.add(begin)
            while way:
                node = next(reversed(way))
                to = next(way[node], None)
                if to is None:
                    del way[node]
                elif to in way:
                    # An alias has no value to drop; its target has, and is in the same ring.
                    found[edges[to][0] if to in aliases else to] = None
                elif to not in done:
                    done.add(to)
                    way[to] = iter(edges[to])
        return list(found)

    def ring(self, begin: RRefId) -> tuple[RRefId, ...]:
        """A shortest ring, from *begin* edge by edge back to it; empty if there is none."""
        edges, _ = self._edges()
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

    def _edges(self) -> tuple[dict[RRefId, list[RRefId]], set[RRefId]]:
        """For each object, the objects that it leads to; and the aliases among the objects."""
        owners = self.owners()
        edges: dict[RRefId, list[RRefId]] = {rref: [] for rref in owners}
        for (_, held), grip in sorted(self.first.items()):
            for holder in grip.by:
                edges[holder].append(held)
        return edges, {rref for rref, (_, grip) in owners.items() if grip.alias}

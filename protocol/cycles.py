"""Cycles: objects that only hold each other, over any number of endpoints, found and freed.

Reference counts never free an object on A whose value holds a reference to an object on B whose
value holds one to the first. This machine does. It looks *back*, from objects that may be garbage
to their holders and on to theirs, and so it involves only the endpoints that hold these objects. It
costs nothing where nothing is suspected.

This module decides who is asked, and when. `holders` makes an endpoint's answers. `search` holds
the evidence of a search, and judges it.

**Looking back.** The shell of an owner suspects some objects (`Context.suspect_cycle`). A *look*
asks one endpoint: how do you hold these objects? The endpoint's shell searches the values of its
own objects for their handles (`Scan`). If nothing else there keeps an object, the endpoint answers
with its *grip* on it (`Holders`). A grip tells which objects of the endpoint hold the object in
their values, and which forks the endpoint counts for other endpoints. The objects that hold it are
looked at next: here in the same answer, elsewhere by the owner's next looks. So the owner gets a
set of objects with all their holders, until nothing new is found::

    owner of a (held on C, by c)        C (c is held on B, by b)        B (b is held on A, by a)
        | -- WhoHolds(a) -----------------> |                               |
        | <- Holders(a by c, c of B's) ---- |                               |
        | -- WhoHolds(c) -------------------------------------------------> |
        | <- Holders(c by b, b of A's) ------------------------------------ |
        |    the owner itself holds b by a: the set {a, c, b} is closed     |
        | -- the same looks again ----------------------------------------> |
        | -- Cut(one object of each ring)

One search takes all suspects of an endpoint at once. An object without a grip *lives*, and so does
everything that it leads to. Such objects leave the search, and the others stay in it. So a search
takes time in proportion to the edges that it meets, and the living cost no second look.

**Live, whenever in doubt.** Each of these keeps an object: a handle that is not in the value of an
object of the set, or in a value that something else reaches; a message that has not been handled; a
request, made or received; a loan; a pin; an unconfirmed fork; an alias that does not know its
canonical object (one that does is an edge). At the end each fork that an owner counts must be one
that its user has. Thus every reference that is on its way is seen at one end at least, by G2. A
dead endpoint does not answer for its forks and pins, and they are there until its grace is over. So
they keep the objects until each orphan has announced itself. An endpoint that does not answer in
time keeps the objects that it was asked for.

**Looking twice.** The looks happen at different times, and a reference may travel from a place that
has not been looked at to one that has. So when the set is closed, every look is made a second time.
Each entry counts the references and the requests that come to it and leave from it, and the forks
that it has listed (`Grip.stamp`). An object is garbage only if no entry of it has changed between
its two looks, and the same is true of everything that leads to it. All first looks are over before
the second ones begin. So take a moment between them:

* no reference to the object, and no request on it, is on its way. Each one pins an entry from
  before it leaves (G2), or is a request that an entry waits for. At the first look of this entry it
  was there, and the object lived; or it came later, and changed the stamp;
* every entry of the object has been looked at. It is among the forks that the owner or a table
  lists, and each further fork changes a stamp.

From this moment until its second look, an endpoint sends and gets nothing of these objects, or a
stamp changes. In a search that cuts the second look is exact (`Scan.exact`): values alone hold the
objects, and nothing reaches these values. So after its second look the endpoint can reach them only
by a message, and nobody can send the first one. (Its grips may be made a little later: see
`holders`.)
It does no harm that the first look misses a variable. (The stamp of an entry that went and came
again may be the same. But its forks are others.)

**Cutting once.** Garbage stays garbage. So it does no harm that `Cut` comes late, that an endpoint
dies before all cuts are made, or that two searches find one ring. The owner of an object drops its
value (`Collect`). The handles in the value go, and ordinary deletes do the rest. A cut goes to at
least one object in each ring. The user's code may run when a value is dropped, and may keep a
handle that was in it. If it has used another object of the set in the meantime, the stamp of that
object is another one, and its cut is ignored.

Invariants:

* no object is collected that a variable, a message or a request reaches, at any endpoint (G4);
* only the endpoint that searches remembers anything of the search. A death ends the search, if it
  has not been judged; the shell suspects the objects again later. So all garbage is found at last
  (G5);
* no step deals with more than `SOME` objects, or with one answer. `Search.weigh` takes longer, and
  needs no table;
* a ring of m endpoints takes 4 (m - 1) messages for the looks and at most one for the cut.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .effects import Collect, Effect, Looked, Scan, Send, Weigh
from .holders import SOME
from .ids import RRefId, WorkerId
from .messages import Cut, Grip, Holders, WhoHolds
from .search import Search
from .state import Tables


class CycleCollector(msgspec.Struct):
    """The searches of this endpoint for garbage in cycles, and its answers to others."""

    state: Tables

    # ---- calls of the shell

    def may_be_garbage(self, rref: RRefId) -> bool:
        """Whether an object here is worth a search, as far as the tables tell."""
        owner = self.state.owners.get(rref)
        return owner is not None and owner.at_rest

    def suspect(self, rrefs: Iterable[RRefId], *, cuts: bool) -> list[Effect]:
        """Begin a search from *rrefs*; without *cuts* it only reports. `Looked` ends it."""
        rrefs = tuple(rrefs)
        if not any(map(self.may_be_garbage, rrefs)):  # else the first look finds those that live
            return [Looked(rref) for rref in rrefs[:1]]
        search = Search(self.state.me, rrefs[0], [(self.state.me, rrefs)], cuts)
        self.state.searches[search.start] = search
        return self._look(search)

    def give_up(self, start: RRefId) -> list[Effect]:
        """In the search from *start*, wait no longer for other endpoints that have not answered."""
        search = self.state.searches.get(start)
        if search is None:
            return []
        for look, asked in list(search.asked.items()):
            if asked[0] != self.state.me:
                del search.asked[look]
                search.silent.add(asked[0])
                search.answers.append((asked, ()))
        return [] if search.asked else [Weigh(start)]

    def scanned(self, asker: WorkerId, look: int, grips: tuple[Grip, ...]) -> list[Effect]:
        """The answer to a `Scan`."""
        if asker == self.state.me:
            return self._answered(asker, look, grips)
        return [Send(asker, Holders(look=look, grips=grips))]

    def weigh(self, start: RRefId) -> list[Effect]:
        """The answer to a `Weigh`: look further back, or a second time, or cut."""
        search = self.state.searches.get(start)
        if search is None or search.asked:
            return []
        search.weigh()
        return self._conclude(search) if search.judged else self._look(search)

    # ---- at an endpoint that is looked at

    def receive_who_holds(self, sender: WorkerId, message: WhoHolds) -> list[Effect]:
        """*sender* asks how this endpoint holds some objects."""
        return [Scan(sender, message.look, message.rrefs, message.exact)]

    def receive_cut(self, _: WorkerId, message: Cut) -> list[Effect]:
        """A search has found that an object here is garbage."""
        owner = self.state.owners.get(message.rref)
        if owner is None or owner.stamp != message.stamp:
            return []
        return [Collect(owner.rref)]

    # ---- at the endpoint that searches

    def receive_holders(self, sender: WorkerId, message: Holders) -> list[Effect]:
        """*sender* answers a look, maybe one of a search that has been given up."""
        return self._answered(sender, message.look, message.grips)

    def _answered(self, worker: WorkerId, look: int, grips: tuple[Grip, ...]) -> list[Effect]:
        searches = self.state.searches.values()
        search = next((each for each in searches if look in each.asked), None)
        if search is None or search.asked[look][0] != worker:
            return []
        search.answers.append((search.asked.pop(look), grips))
        return [] if search.asked else [Weigh(search.start)]

    def _look(self, search: Search) -> list[Effect]:
        """Make the looks that are due."""
        effects: list[Effect] = []
        exact = search.again and search.cuts
        for worker, rrefs in search.asks:
            if worker in self.state.dead:  # it holds the objects until its grace is over
                search.answers.append(((worker, rrefs), ()))
                continue
            self.state.looks += 1
            look = self.state.looks
            search.asked[look] = worker, rrefs
            if worker == self.state.me:
                effects.append(Scan(worker, look, rrefs, exact))
            else:
                effects.append(Send(worker, WhoHolds(look=look, rrefs=rrefs, exact=exact)))
        search.asks.clear()
        return effects or [Weigh(search.start)]

    def _conclude(self, search: Search) -> list[Effect]:
        """Make the cuts and report the garbage, some at a time."""
        effects: list[Effect] = []
        for worker, cut in search.cutting[:SOME]:
            if worker == self.state.me:
                effects += self.receive_cut(self.state.me, cut)
            else:
                effects.append(Send(worker, cut))
        found = tuple(search.found[:SOME])
        del search.cutting[:SOME], search.found[:SOME]
        over = not search.cutting and not search.found
        if over:
            del self.state.searches[search.start]
        if found or over:
            effects.append(Looked(search.start, found, over))
        return effects if over else [*effects, Weigh(search.start)]

    def died(self) -> list[Effect]:
        """An endpoint has died: no answer may come, and what was seen may be wrong."""
        ended = [start for start, search in self.state.searches.items() if not search.judged]
        for start in ended:
            del self.state.searches[start]
        return [Looked(start) for start in ended]

"""Cycles: objects that only hold each other, over any number of endpoints, found and freed.

Reference counts never free an object on A whose value holds a reference to an object on B whose
value holds one to the first. This machine does. It looks *back*, from an object that may be garbage
to its holders and on to theirs, and so it involves only the endpoints that hold these objects. It
costs nothing where nothing is suspected.

**Looking back.** The shell of an owner suspects an object (`Context.suspect_cycle`). A *look* asks
one endpoint: how do you hold these objects? The endpoint's shell searches the values of its own
objects for their handles (`Scan`). If nothing else there keeps the objects, the endpoint answers
with its *grips* (`Holders`). A grip tells which objects of the endpoint hold the object in their
values, and which forks the endpoint counts for other endpoints. The objects that hold it are looked
at next: here in the same answer, elsewhere by the owner's next looks. So the owner gets a set of
objects with all their holders, until nothing new is found, or until something *lives*::

    owner of a (held on C, by c)        C (c is held on B, by b)        B (b is held on A, by a)
        | -- WhoHolds(a) -----------------> |                               |
        | <- Holders(a by c, c of B's) ---- |                               |
        | -- WhoHolds(c) -------------------------------------------------> |
        | <- Holders(c by b, b of A's) ------------------------------------ |
        |    the owner itself holds b by a: the set {a, c, b} is closed     |
        | -- the same looks again ----------------------------------------> |
        | -- Cut(one object of each ring)

**Live, whenever in doubt.** Each of these keeps an object: a handle that is not in the value of an
object of the set, or in a value that something else reaches; a message that has not been handled; a
request, made or received; a loan; a pin; an unconfirmed fork; an alias that does not know its
canonical object (one that does is an edge). At the end the forks that owners and tables list must
be exactly the ones that the users have. Thus every reference that is on its way is seen at one end
at least, by G2. A dead endpoint does not answer for its forks and pins, and they are there until
its grace is over. So they keep the objects until each orphan has announced itself.

**Looking twice.** The looks happen at different times, and a reference may travel from a place that
has not been looked at to one that has. So when the set is closed, every look is made a second time.
Each entry counts the references and the requests that come to it (`Grip.stamp`). Only these can end
the state in which values alone hold an object: no code that runs can reach the values, so it cannot
take a handle out of them. If every answer is the same as before, then no entry has changed between
its two looks. All first looks were over before the second ones began. So there is a moment at which
all that was seen held at once, and at that moment nothing reached the set. (The stamp of an entry
that went and came again may be the same. But its forks are others.)

**Cutting once.** Garbage stays garbage. So it does no harm that `Cut` comes late, or that two
searches find one ring. The owner of an object drops its value (`Collect`). The handles in the value
go, and ordinary deletes do the rest. A cut goes to at least one object in each ring. The user's
code may run when a value is dropped, and may keep a handle that was in it. If it has used another
object of the set in the meantime, the stamp of that object is another one, and its cut is ignored.

Invariants:

* no object is collected that a variable, a message or a request reaches, at any endpoint (G4);
* only the endpoint that searches remembers anything of the search. A death, or an endpoint that
  does not answer, ends the search; the shell suspects the object again later. So all garbage is
  found at last (G5);
* a ring of m endpoints takes 4 (m - 1) messages for the looks and at most one for the cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .effects import Collect, Looked, Scan, Send
from .errors import ProtocolError
from .messages import Cut, Holders, WhoHolds
from .quest import Quest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .aliases import Aliases
    from .effects import Effect
    from .entries import Entries
    from .ids import RRefId, WorkerId
    from .messages import Grip
    from .state import Tables

    Found = Mapping[RRefId, Mapping[RRefId, int]]
    """For each object: the objects here with handles of it in their values, and how many. A handle
    that anything else reaches is left out."""

MAX_SET = 10_000
"""The most objects that one search follows; a larger set counts as live."""


@dataclass(slots=True)
class Cycles:
    """The searches of this endpoint for garbage in cycles, and its answers to others."""

    state: Tables
    entries: Entries
    aliases: Aliases

    # ---- calls of the shell

    def may_be_garbage(self, rref: RRefId) -> bool:
        """Whether an object here is worth a search, as far as the tables tell."""
        owner = self.state.owners.get(rref)
        return owner is not None and owner.at_rest

    def suspect(self, rref: RRefId, *, cuts: bool) -> list[Effect]:
        """Begin a search from *rref*; without *cuts* it only reports. `Looked` ends it."""
        if not self.may_be_garbage(rref):
            return [Looked(rref)]
        quest = self.state.quests[rref] = Quest(rref, cuts=cuts)
        return self._look(quest, {self.state.me: [rref]})

    def give_up(self, rref: RRefId) -> list[Effect]:
        """End the search from *rref*: an endpoint does not answer."""
        return [Looked(rref)] if self.state.quests.pop(rref, None) is not None else []

    def scanned(
        self, asker: WorkerId, look: int, rrefs: Iterable[RRefId], found: Found | None
    ) -> list[Effect]:
        """The answer to a `Scan`; None if the shell cannot tell."""
        grips = self._grips(rrefs, found) if found is not None else ()
        if asker == self.state.me:
            return self._answered(asker, look, grips)
        return [Send(asker, Holders(look=look, grips=grips))]

    # ---- at an endpoint that is looked at

    def receive_who_holds(self, sender: WorkerId, message: WhoHolds) -> list[Effect]:
        """*sender* asks how this endpoint holds some objects."""
        return [Scan(sender, message.look, message.rrefs)]

    def _grips(self, rrefs: Iterable[RRefId], found: Found) -> tuple[Grip, ...]:
        """How this endpoint holds *rrefs*, and its own objects that lead to them; () if they live.

        All of it holds at this very moment.
        """
        grips: dict[RRefId, Grip] = {}
        ahead = list(rrefs)
        for rref in ahead:
            if rref in grips:
                continue
            entry = self.entries.find(rref)
            values, aliases = found.get(rref, {}), self.aliases.standing_for(rref)
            if entry is None or not entry.at_rest:
                return ()
            if entry.handles != sum(values.values()) + len(aliases) or len(grips) == MAX_SET:
                return ()
            by = sorted({*values, *aliases})
            grips[rref] = entry.grip(by)
            ahead += by
        return tuple(grips.values())

    def receive_cut(self, message: Cut) -> list[Effect]:
        """A search has found that an object here is garbage."""
        owner = self.state.owners.get(message.rref)
        if owner is None or owner.stamp != message.stamp:
            return []
        return [Collect(owner.rref)]

    # ---- at the endpoint that searches

    def receive_holders(self, sender: WorkerId, message: Holders) -> list[Effect]:
        """*sender* answers a look, maybe one of a search that has been given up."""
        owned = {grip.rref for grip in message.grips if grip.owned}
        if not owned.issuperset(holder for grip in message.grips for holder in grip.by):
            raise ProtocolError(f"{sender} names a holder and does not say how that is held")
        return self._answered(sender, message.look, message.grips)

    def _answered(self, worker: WorkerId, look: int, grips: tuple[Grip, ...]) -> list[Effect]:
        quests = self.state.quests.values()
        quest = next((each for each in quests if look in each.asked), None)
        if quest is None or quest.asked[look][0] != worker:
            return []
        _, rrefs = quest.asked.pop(look)
        quest.see(worker, grips)
        if not {grip.rref for grip in grips}.issuperset(rrefs) or len(quest.first) > MAX_SET:
            return self.give_up(quest.start)
        if quest.asked:
            return []
        if quest.second is not None:
            same = quest.second == quest.first
            return self._judge(quest) if same else self.give_up(quest.start)
        unseen = quest.unseen()
        if not unseen and quest.agrees:
            quest.second = {}
            unseen = quest.again(self.state.me)
        return self._look(quest, unseen)

    def _look(self, quest: Quest, places: Mapping[WorkerId, list[RRefId]]) -> list[Effect]:
        """Ask each endpoint of *places* for its grips on the objects."""
        if not places or any(worker in self.state.dead for worker in places):
            return self.give_up(quest.start)
        effects: list[Effect] = []
        for worker, rrefs in places.items():
            self.state.looks += 1
            look = self.state.looks
            quest.asked[look] = worker, tuple(rrefs)
            if worker == self.state.me:
                effects.append(Scan(worker, look, tuple(rrefs)))
            else:
                effects.append(Send(worker, WhoHolds(look=look, rrefs=tuple(rrefs))))
        return effects

    def _judge(self, quest: Quest) -> list[Effect]:
        """The objects of *quest* are garbage: cut each ring among them."""
        del self.state.quests[quest.start]
        owners, cuts = quest.owners(), quest.cuts_of_rings()
        effects: list[Effect] = []
        for rref in cuts if quest.cuts else ():
            worker, grip = owners[rref]
            cut = Cut(rref=rref, stamp=grip.stamp)
            if worker == self.state.me:
                effects += self.receive_cut(cut)
            else:
                effects.append(Send(worker, cut))
        ring = quest.ring(cuts[0]) if cuts else ()
        cut_off = len(cuts) if quest.cuts else 0
        return [*effects, Looked(quest.start, tuple(sorted(owners)), ring, cut_off)]

    def died(self) -> list[Effect]:
        """An endpoint has died: no answer may come, and what was seen may be wrong."""
        return [effect for rref in list(self.state.quests) for effect in self.give_up(rref)]

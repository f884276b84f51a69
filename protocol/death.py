"""The death of another endpoint, and its consequences here.

It comes in two steps. ``died`` at once fails everything that waits for the worker (G6). ``bury``,
an `orphan_grace` later, releases the worker's holds. In between, the endpoints that got references
from the worker, and are unknown to the owner, announce themselves.

A clock cannot say when they all have done so, since packets are lost. Therefore a death has a
third moment between the two. An endpoint has **settled** a death when each `ForkRequest` that was
outstanding at the news, or was sent for it, has been acknowledged (see ``uncounted``). The grace
ends nowhere before every living endpoint has heard of every death and has settled it. Then each
endpoint that got a reference from the dead is counted, or a counted one pins for it. A later
request needs no such care: its parent lives, as nobody believes the dead any more.

If the shell buries too early all the same, and an announcement comes too late, the owner
puts a placeholder in the place of the object, has it resolved to a `RefLostError` (`Lose`), and
counts the endpoint as usual. So the late endpoint gets an answer like any other, and learns of the
loss when it uses the reference (G6).

A death looks at all entries. An index by endpoint would avoid that, but each message would take
longer. A function is called only for the entries that the death may concern.

For one reference, the steps are `User.died`, `User.lose` (its owner died) and ``forget`` of `User`
and `Owner`; a discipline has its own in its two classes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .aliases import Aliases
from .borrowing import BorrowingUser
from .effects import Effect, Fail, Lose, Refusal, Refuse
from .entries import Entries
from .ids import ForkId, RRefId, WorkerId
from .loans import Loans
from .messages import Message, Reply, Returned
from .state import Tables


class Death(msgspec.Struct):
    """What a death changes in the tables."""

    state: Tables
    entries: Entries
    loans: Loans
    aliases: Aliases

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message]) -> list[Effect]:
        """Fail all waits for *worker*, and ignore its messages from now on (fencing).

        *unacknowledged* are the messages of this endpoint that *worker* may not have received.
        """
        state = self.state
        if worker in state.dead or worker == state.me:
            return []
        state.dead.add(worker)
        state.asked.pop(worker, None)
        effects: list[Effect] = []
        for call, waiting in list(state.waiting.items()):
            if waiting.to == worker:
                del state.waiting[call]
                relay = waiting.relay
                effects.append(
                    Fail(call, worker, waiting.rref, waiting.by)
                    if relay is None
                    else Refuse(relay.sender, relay.request, Refusal.LOST)
                )
        lost: set[RRefId] = set()
        for user in state.discipline.user.bereaved(worker, state.users.values()):
            if user.owner == worker:
                lost.add(user.rref)
                state.creating.pop(user.rref, None)
                effects += self.entries.lose(user)
            else:
                effects += self.entries.after(user, user.died(worker, self.entries.allocate_fork))
        effects += self.aliases.died(worker, lost)
        for message in unacknowledged:
            effects += self._take_back(message)
        return effects

    def _take_back(self, message: Message) -> list[Effect]:
        """Take back the tables in *message*: its dead receiver may not have passed them on."""
        effects: list[Effect] = []
        for report in message.loans if isinstance(message, Reply | Returned) else ():
            borrowers = self.loans.unburied(report.borrowers)
            if borrowers and report.owner not in self.state.dead:
                user = self.entries.use(report.rref, report.owner)
                if isinstance(user, BorrowingUser):
                    back = user.take_back(borrowers, self.entries.allocate_fork)
                    effects += self.entries.after(user, back)
        return effects

    def uncounted(self) -> frozenset[ForkId]:
        """The forks that owners were asked to count, without an acknowledgement so far.

        The fork of a creation by a method is not among them. Such a creation may be held back for
        as long as another function runs, and its creator needs no dead endpoint for it.
        """
        return frozenset(
            user.requested
            for user in self.state.users.values()
            if user.requested is not None and user.rref not in self.state.creating
        )

    def bury(self, worker: WorkerId) -> list[Effect]:
        """Release everything that the dead *worker* held, was sent, or was owed (G4 and G5)."""
        state = self.state
        state.buried.add(worker)
        effects: list[Effect] = []
        discipline = state.discipline
        for owner in discipline.owner.holding(worker, state.owners.values()):
            effects += self.entries.after(owner, owner.forget(worker))
            if not owner.created and owner.rref.creator == worker:
                # Its creation cannot arrive any more, so it will never have a value.
                effects.append(Lose(owner.rref))
        for user in discipline.user.holding(state.users.values()):
            effects += self.entries.after(user, user.forget(worker))
        state.seen.pop(worker, None)
        missed = {user.owner for user in state.users.values() if user.lost}
        for dead in [w for w in state.causes if w in state.buried and w not in missed]:
            del state.causes[dead]
        return effects

"""Borrowing: a task's reply says what it still holds, and the owner watches the borrowers.

This is the borrowing note's protocol, made safe. A callee that still holds a reference after its
call says so in the reply. With it the callee passes on its *table*: the endpoints that borrowed the
reference further (``borrowers``). The lender adds both to its own table, until, reply by reply,
they reach the owner. The owner asks each borrower once to report its end (`NotifyRefRemoved`). The
borrower answers when it has let go (`RefRemoved`), and hands its table over::

    nothing --a loan--> guarded --its call has run, still in use--> reported --notice--> known
                           |                                                               |
                           +--its call has run, not in use--> nothing  <--RefRemoved, not in use

The note's text leaves six points open. These answers keep the protocol right:

1. **One guardian.** An entry has at most one *guardian*: the loan that came while no other loan
   and no request covered the entry. Only the guardian reports "held" and carries the table. Later
   loans need not, because the guardian covers them. So endpoints that lend to each other in turn
   cannot keep only each other alive. If the owner counts the entry (by a fork, or by a loan with a
   notice), even the guardian reports nothing: the table goes to the owner when the entry ends.
2. **Epochs.** The key of a borrower in a table is the fork id of its loan. So a late answer ends
   one loan only, and not a newer loan to the same endpoint.
3. **Announcing.** When any endpoint dies, every borrower without a notice from the owner asks to be
   counted: its own lender may live while the lender's lender died.
4. **Taking back.** If a lender dies before it has acknowledged a reply, the callee takes back the
   table in that reply, and announces itself. An endpoint that holds only a table does so, too.
5. **In use** means handles, messages being handled, calls on the object, loans passed on, and
   unconfirmed children. A table counts only while its loan is outstanding. A notice waits until
   nothing uses the reference, later loans included. An unacknowledged announcement covers no other
   loan. But the owner is to get the table of an entry that has announced itself, so the entry gives
   no lender its table: the table may list that very lender.
6. **An announcement is a `ForkRequest`** with a fork of its own. It is acknowledged even after the
   object is gone: the `RefLostError` takes the object's place, and every use of the object gets
   that error (see `death`).

If a notice finds no entry, the borrower answers at once that it holds nothing. So a table may reach
the owner twice without harm. If a notice finds an entry that a newer loan made, the owner counts
this entry until its end. Then the answer names all forks by which the owner counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from .effects import Effect, Send
from .empty import EMPTY, Few, added, without
from .ids import ForkId, RRefId, WorkerId
from .lending import LendingOwner
from .messages import (
    Ack,
    Delete,
    Descriptor,
    ForkRequest,
    Grip,
    NotifyRefRemoved,
    Passing,
    RefRemoved,
    Report,
)
from .user import User

Borrowers = Iterable[tuple["ForkId", "WorkerId"]]


class BorrowingOwner(LendingOwner):
    """An owner's view of an object with watched borrowers."""

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """Merge first, then unpin."""
        if self.lent.get(fork) != sender or report is None:
            return super().loan_ended(sender, fork, report)
        effects = self._merge(report.borrowers)
        if report.held:
            effects.append(self._notify(fork, sender))
        return effects + super().loan_ended(sender, fork, report)

    def delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        """The sender's borrowers are counted before the sender goes."""
        self.check_delete(sender, message)
        return self._merge(message.borrowers) + super().delete(sender, message)

    def _merge(self, borrowers: Borrowers) -> list[Effect]:
        new = [(fork, worker) for fork, worker in borrowers if fork not in self.forks]
        self.forks = self.forks or {}
        self.forks.update(new)
        self.stamp += len(new)
        return [self._notify(fork, worker) for fork, worker in new]

    def _notify(self, fork: ForkId, worker: WorkerId) -> Effect:
        return Send(worker, NotifyRefRemoved(loans=((self.rref, fork),)))


class BorrowingUser(User):
    """A user's or a borrower's view of one reference."""

    guardian: ForkId | None = None
    """The loan that covers this endpoint until its call has run."""
    reported: Few = ()
    """Loans reported as held, of which the owner has not notified this endpoint yet."""
    borrowers: dict[ForkId, WorkerId] = EMPTY
    """The table: the endpoints that borrowed from here, or further down, and still hold the
    object."""
    announcing: bool = False
    """The outstanding request is an announcement: it pins no parent."""

    # ---- at the lender

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        children = self.children or {}
        children[fork] = to
        self.children = children
        return Passing.LOAN

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """Merge first, then unpin."""
        if self.children.get(fork) == sender:
            if report is not None:
                table = self.borrowers or {}
                table.update(report.borrowers)
                if report.held:
                    table[fork] = sender
                self.borrowers = table or EMPTY
            del self.children[fork]
            self.children = self.children or EMPTY
        return [] if self.handles else self.end_if_unused()

    # ---- at the borrower

    def borrow(self, descriptor: Descriptor) -> list[Effect]:
        if not self._covered:
            self.guardian = descriptor.fork
        return []

    @property
    def _covered(self) -> bool:
        """Another hold outlives this one loan and keeps the entry."""
        if self.guardian is not None:
            return True
        return bool(self.reported or self.requested) and not self.announcing

    def end_loan(self, fork: ForkId, *, replies: bool) -> tuple[Report | None, list[Effect]]:
        """Only the guardian has a report."""
        held, table = self._hold_on() if self.guardian == fork else (False, ())
        if held:
            self.reported = added(self.reported, fork)
        report = Report(rref=self.rref, fork=fork, owner=self.owner, held=held, borrowers=table)
        return report if held or table or not replies else None, []

    def _hold_on(self) -> tuple[bool, tuple[tuple[ForkId, WorkerId], ...]]:
        """The guardian's call has run: returns whether the entry is still in use, and its table."""
        self.guardian = None
        if self.known:
            return False, ()
        if self.announcing:
            return True, ()  # the owner is about to count this entry, and gets its table
        return self.in_use, self._take_table()

    def _take_table(self) -> tuple[tuple[ForkId, WorkerId], ...]:
        table, self.borrowers = tuple(sorted(self.borrowers.items())), EMPTY
        return table

    def notified(self, fork: ForkId) -> list[Effect]:
        """The owner counts the loan *fork*, and wants a report of this entry's end."""
        self.reported = without(self.reported, fork)
        return self._know(fork) + self.end_if_unused()

    def ack(self, sender: WorkerId, message: Ack) -> list[Effect]:
        if message.fork == self.requested:
            self.announcing = False
        return super().ack(sender, message)

    # ---- death and the end

    @staticmethod
    def bereaved(worker: WorkerId, users: Iterable[User]) -> list[User]:  # noqa: ARG004 - a borrower asks whoever died
        return list(users)

    def died(self, worker: WorkerId, allocate: Callable[[], ForkId]) -> list[Effect]:
        """Announce this entry: whoever died, the path from the owner to here may be broken."""
        if self.guardian is not None and self.guardian.parent == worker:
            self.guardian = None  # no lender will take its table; the announcement replaces it
        return self._announce(allocate)

    def take_back(self, borrowers: Borrowers, allocate: Callable[[], ForkId]) -> list[Effect]:
        """The lender that got this table has died, maybe before it could pass the table on."""
        table = self.borrowers or {}
        table.update(borrowers)
        self.borrowers = table or EMPTY
        self.stamp += 1
        return self._announce(allocate) + self.end_if_unused()

    def _announce(self, allocate: Callable[[], ForkId]) -> list[Effect]:
        if self.lost or self.known or self.requested is not None:
            return []
        self.announcing = True
        self.requested = allocate()
        return [Send(self.owner, ForkRequest(rref=self.rref, fork=self.requested))]

    @staticmethod
    def holding(users: Iterable[User]) -> list[User]:
        return list(users)  # each may have a table

    def forget(self, worker: WorkerId) -> list[Effect]:
        table = {fork: who for fork, who in self.borrowers.items() if who != worker}
        self.borrowers = table or EMPTY
        return super().forget(worker)

    def lose(self) -> None:
        super().lose()
        self.guardian = None
        self.reported = ()
        self.borrowers = EMPTY
        self.announcing = False

    @property
    def unused(self) -> bool:
        """Whether the entry can go.

        A table waits until it can be handed over, and a reported loan waits for its notice.
        Otherwise a long-lived lender would list a new entry of this endpoint for each loan that it
        kept.
        """
        waits = (self.reported or self.borrowers) and not self.known
        return not waits and super().unused

    def grip(self, by: Iterable[RRefId]) -> Grip:
        """A reported loan is a fork that the owner counts already, or will count."""
        forks = tuple(sorted({*self.known, *self.reported}))
        others = tuple(sorted(self.borrowers.items()))
        return replace(super().grip(by), forks=forks, others=others)

    def leave(self) -> list[Effect]:
        """A leaving endpoint hands its table over."""
        if self.lost or not self.known:
            return []
        known = tuple(sorted(self.known))
        gone = Delete(rref=self.rref, forks=known, borrowers=self._take_table())
        return [Send(self.owner, RefRemoved(removed=(gone,)))]


def removal(rref: RRefId, owner: WorkerId, fork: ForkId) -> Effect:
    """The answer to a notice: nothing holds *fork* here, or it is over."""
    return Send(owner, RefRemoved(removed=(Delete(rref=rref, forks=(fork,)),)))


def batched(effects: list[Effect]) -> list[Effect]:
    """The same effects, with at most one notice and one answer for each peer."""
    notices: dict[WorkerId, list[tuple[RRefId, ForkId]]] = {}
    answers: dict[WorkerId, list[Delete]] = {}
    others: list[Effect] = []
    for effect in effects:
        match effect:
            case Send(to, NotifyRefRemoved(loans=loans)):
                notices.setdefault(to, []).extend(loans)
            case Send(to, RefRemoved(removed=removed)):
                answers.setdefault(to, []).extend(removed)
            case _:
                others.append(effect)
    return [
        *others,
        *(Send(to, NotifyRefRemoved(loans=tuple(loans))) for to, loans in notices.items()),
        *(Send(to, RefRemoved(removed=tuple(removed))) for to, removed in answers.items()),
    ]

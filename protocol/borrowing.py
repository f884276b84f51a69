"""Borrowing: reference counts settle on a task's reply, and the owner watches the borrowers.

The borrowing note's protocol, made safe. A callee that still holds a reference when its
call has run says so in the reply, and passes on the *table* of those who borrowed it further
(``borrowers``). The lender adds both to its own table, until, reply by reply, they reach the
owner; the owner asks each borrower once to be told of its end (`NotifyRefRemoved`), and the
borrower answers when it has let go (`RefRemoved`), handing over its table::

    nothing --a loan--> guarded --its call has run, still in use--> reported --notice--> known
                           |                                                               |
                           +--its call has run, not in use--> nothing  <--RefRemoved, not in use

What the note's text leaves open, and what keeps it right here:

1. **One guardian.** Only the loan that came while the endpoint held nothing reports "held" and
   carries the table; loans that come later are covered by it. So endpoints that lend to each
   other in turn are not kept by each other alone. An entry that the owner counts (a fork, or a
   loan it was notified of) reports nothing: its table goes to the owner when it ends.
2. **Epochs.** A borrower's entry in a table is the fork id of its loan, so that a late answer
   removes the borrow that it is about, and not a newer one of the same endpoint.
3. **Announcing.** On any endpoint's death every borrower that the owner has not notified asks
   to be counted: its own lender may live while the lender's lender died.
4. **Taking back.** A table that was handed over to a lender who died before it acknowledged
   the reply is taken back, and announced; so does an endpoint that holds nothing but a table.
5. **In use** means handles, messages being handled, calls on the object, loans passed on, and
   unconfirmed children. A table counts for nothing unless its loan is outstanding; a notice
   waits until nothing uses the reference, later loans included; an announcement that is not
   acknowledged yet covers no other loan, but it has promised the table to the owner, so that
   none goes to a lender who may stand in it.
6. **An announcement is a `ForkRequest`** with a fork of its own, and one that comes after the
   object is gone is acknowledged all the same: the object's place is taken by the
   `RefLostError` that every use of it then gets (see `Context`).

A notice that finds no entry is answered at once. So a table that reaches the owner twice does
no harm: the second time its borrower denies it. One that finds a newer loan's entry counts that
one until it ends; its answer names all that the owner counts of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .effects import Effect, Send
from .lending import LendingOwner
from .messages import Delete, ForkRequest, NotifyRefRemoved, Passing, RefRemoved, Report
from .user import User

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ids import ForkId, RRefId, WorkerId
    from .messages import Ack, Descriptor

Borrowers = Iterable[tuple["ForkId", "WorkerId"]]


class BorrowingOwner(LendingOwner):
    """An owner's view of an object whose borrowers it watches."""

    __slots__ = ()

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
        self.forks.update(new)
        return [self._notify(fork, worker) for fork, worker in new]

    def _notify(self, fork: ForkId, worker: WorkerId) -> Effect:
        return Send(worker, NotifyRefRemoved(loans=((self.rref, fork),)))


class BorrowingUser(User):
    """A user's or a borrower's view of one reference."""

    __slots__ = ("announcing", "borrowers", "guardian", "reported")

    def __init__(self, rref: RRefId, owner: WorkerId) -> None:
        super().__init__(rref, owner)
        self.guardian: ForkId | None = None
        """The loan that covers this endpoint until its call has run."""
        self.reported: set[ForkId] = set()
        """Loans reported as held, of which the owner has not notified this endpoint yet."""
        self.borrowers: dict[ForkId, WorkerId] = {}
        """The table: who borrowed it from here, or further down, and holds it still."""
        self.announcing = False
        """The outstanding request is an announcement, for which no parent is pinned."""

    # ---- at the lender

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        self.fork(fork, to)
        return Passing.LOAN

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """Merge first, then unpin."""
        if self.children.get(fork) == sender:
            if report is not None:
                self.borrowers.update(report.borrowers)
                if report.held:
                    self.borrowers[fork] = sender
            del self.children[fork]
        return self.settle()

    # ---- at the borrower

    def borrow(self, descriptor: Descriptor) -> list[Effect]:
        if not self._covered:
            self.guardian = descriptor.fork
        return []

    @property
    def _covered(self) -> bool:
        """Something keeps this entry that outlives this one loan."""
        if self.guardian is not None:
            return True
        return bool(self.reported or self.requested) and not self.announcing

    def end_loan(self, fork: ForkId, *, replies: bool) -> tuple[Report | None, list[Effect]]:
        """Only the guardian has anything to report."""
        held, table = self._hold_on() if self.guardian == fork else (False, ())
        if held:
            self.reported.add(fork)
        report = Report(rref=self.rref, fork=fork, owner=self.owner, held=held, borrowers=table)
        return report if held or table or not replies else None, []

    def _hold_on(self) -> tuple[bool, tuple[tuple[ForkId, WorkerId], ...]]:
        """The guardian's call has run: whether the entry is still in use, and its table."""
        self.guardian = None
        if self.known:
            return False, ()
        if self.announcing:
            return True, ()  # the owner is about to count this entry, and gets its table
        return self.in_use, self._take_table()

    def _take_table(self) -> tuple[tuple[ForkId, WorkerId], ...]:
        table, self.borrowers = tuple(sorted(self.borrowers.items())), {}
        return table

    def notified(self, fork: ForkId) -> list[Effect]:
        """The owner counts the loan *fork*, and wants to be told of this entry's end."""
        self.reported.discard(fork)
        return self._know(fork) + self.settle()

    def ack(self, sender: WorkerId, message: Ack) -> list[Effect]:
        if message.fork == self.requested:
            self.announcing = False
        return super().ack(sender, message)

    # ---- death and the end

    def died(self, worker: WorkerId, mint: Callable[[], ForkId]) -> list[Effect]:
        """Whoever it was, the way from the owner to here may be broken."""
        if self.guardian is not None and self.guardian.parent == worker:
            self.guardian = None  # nobody will take its table; the announcement stands in for it
        return self._announce(mint)

    def take_back(self, borrowers: Borrowers, mint: Callable[[], ForkId]) -> list[Effect]:
        """The lender to whom this table went died, maybe before it could pass it on."""
        self.borrowers.update(borrowers)
        return self._announce(mint) + self.settle()

    def _announce(self, mint: Callable[[], ForkId]) -> list[Effect]:
        if self.lost or self.known or self.requested is not None:
            return []
        self.announcing = True
        self.requested = mint()
        return [Send(self.owner, ForkRequest(rref=self.rref, fork=self.requested))]

    def forget(self, worker: WorkerId) -> list[Effect]:
        self.borrowers = {fork: who for fork, who in self.borrowers.items() if who != worker}
        return super().forget(worker)

    def lose(self) -> None:
        super().lose()
        self.guardian = None
        self.reported.clear()
        self.borrowers.clear()
        self.announcing = False

    @property
    def unused(self) -> bool:
        """Whether it can go.

        A table waits for somebody to hand it over to, and a reported loan for its notice: else a
        lender who lives long would have a new entry of this endpoint for each loan that it kept.
        """
        waits = (self.reported or self.borrowers) and not self.known
        return not waits and super().unused

    def settle(self) -> list[Effect]:
        """Whoever leaves hands its table over."""
        if not self.unused or self.lost or not self.known:
            return []
        known = tuple(sorted(self.known))
        gone = Delete(rref=self.rref, forks=known, borrowers=self._take_table())
        return [Send(self.owner, RefRemoved(removed=(gone,)))]


def removal(rref: RRefId, owner: WorkerId, fork: ForkId) -> Effect:
    """The answer to a notice: nothing here is held by *fork* (any more)."""
    return Send(owner, RefRemoved(removed=(Delete(rref=rref, forks=(fork,)),)))


def batched(effects: list[Effect]) -> list[Effect]:
    """The same effects, with one notice and one answer for each peer, however many references."""
    if len(effects) < 2:
        return effects
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

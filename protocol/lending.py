"""Lending: a loan for a call is a fork that asks the owner only if the callee keeps it.

The lender pins the loan as it would pin a child; the callee and the owner exchange no message. When
the call has run, the callee has four cases (`states.LoanState` has the states of a loan)::

    not needed there any more                     the reply returns the loan; no message
    in use, and the owner counts the callee       the same: the entry needs this loan no more
    in use, and covered by another loan, from     the same: that lender stays counted, and
      a lender that the owner counts                pins until the call of its own loan has run
    in use otherwise: *held*                      `ForkRequest` now; `ChildAck` as for a fork

A loan by the owner itself is registered with it when it is lent. So the callee is counted from the
start, and a held loan needs no request. Any other lender unpins when it has the reply. If the
loan is held, the lender needs the `ChildAck` as well; the two come in any order. A creation has no
reply: a `Returned` brings back its loans. It does not name a held loan: here the `ChildAck` is
enough. The owner never lends for a creation; it forks, which costs less.

If its lender dies, a borrower sends its `ForkRequest` at once, under the fork of the loan.

Why nothing is freed early (G4): follow the loans from any borrower to their lenders. The path ends
at a lender that the owner counts. One loan covers another only if its lender was counted when it
lent. A counted lender stays counted while a child pins it: an entry in use does not give up its
last known fork at the end of a loan. So two endpoints can never keep only each other alive. An
entry with an outstanding `ForkRequest` keeps its last known fork, too: because of this fork it may
have sent a `ChildAck` to the parent of the requested one.
"""

from __future__ import annotations

from collections.abc import Callable

from .effects import Effect, Send
from .empty import EMPTY, without
from .errors import ProtocolError
from .ids import ForkId, WorkerId
from .messages import ChildAck, Descriptor, ForkRequest, Passing, Report
from .owner import Owner
from .user import Loan, User

_FORK, _LOAN = Passing.FORK, Passing.LOAN
"""An attribute of an `Enum` takes as long as a call, and there may be very many references."""


class LendingOwner(Owner):
    """An owner's view of an object that it also lends."""

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        self.fork(fork, to)
        if not replies:
            return _FORK
        self.lent = self.lent or {}
        self.lent[fork] = to
        return _LOAN

    def abandon(self, fork: ForkId) -> list[Effect]:
        self.lent.pop(fork, None)
        self.lent = self.lent or EMPTY
        return super().abandon(fork)

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """A held loan is a known fork by now, or even deleted."""
        if self.lent.get(fork) == sender:
            del self.lent[fork]
            self.lent = self.lent or EMPTY
            if report is None or not report.held:
                self.forks.pop(fork, None)
                self.forks = self.forks or EMPTY
        return [] if self.handles else self.end_if_unused()

    def forget(self, worker: WorkerId) -> list[Effect]:
        self.lent = {fork: to for fork, to in self.lent.items() if to != worker} or EMPTY
        return super().forget(worker)


class LendingUser(User):
    """A user's view of a reference that it borrows, lends, or both."""

    made: bool = False
    """This endpoint created the object, so the owner counts it as soon as it knows of the
    object."""

    def create(self, fork: ForkId) -> None:
        super().create(fork)
        self.made = True

    # ---- at the lender

    @property
    def counted(self) -> bool:
        return self.made or bool(self.known)

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        self.fork(fork, to)
        if replies:
            self.lent = self.lent or {}
            self.lent[fork] = False
        return _LOAN

    def abandon(self, fork: ForkId) -> list[Effect]:
        self.lent.pop(fork, None)
        self.lent = self.lent or EMPTY
        return super().abandon(fork)

    def child_ack(self, sender: WorkerId, message: ChildAck) -> list[Effect]:
        """A loan stays pinned: the reply may give it back."""
        fork = message.fork
        if fork not in self.lent:
            return super().child_ack(sender, message)
        if self.children.get(fork) != sender or self.lent[fork]:
            raise ProtocolError(f"{sender} acknowledged loan {fork} of {self.rref} wrongly")
        self.lent[fork] = True
        return []

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """A held loan stays pinned until its `ChildAck`, unless that came first."""
        children, lent = self.children, self.lent
        if children.get(fork) == sender:
            acknowledged = lent.pop(fork, False)
            if not lent:
                self.lent = EMPTY
            if acknowledged or report is None or not report.held:
                del children[fork]
                if not children:
                    self.children = EMPTY
        return [] if self.handles else self.end_if_unused()

    # ---- at the borrower

    def borrow(self, descriptor: Descriptor) -> list[Effect]:
        fork, lender = descriptor.fork, descriptor.parent
        if fork in self.children:
            # Lent to itself: its own pin would look like use and make it ask the owner.
            return []
        by_owner = lender == self.owner
        self.loans = self.loans or {}
        self.loans[fork] = Loan(lender, by_owner or descriptor.counted)
        return self._know(fork) if by_owner else []

    def end_loan(self, fork: ForkId, *, replies: bool) -> tuple[Report | None, list[Effect]]:
        loan = self.loans.pop(fork, None)
        if not self.loans:
            self.loans = EMPTY
        held, effects = self._hold_on(fork, loan) if loan is not None else (False, [])
        # A reply returns all loans that it does not name; without one, a held loan's `ChildAck`
        # follows.
        report = (
            Report(rref=self.rref, fork=fork, owner=self.owner, held=held)
            if held == replies
            else None
        )
        return report, effects

    def _hold_on(self, fork: ForkId, loan: Loan) -> tuple[bool, list[Effect]]:
        """Whether the entry still needs the ending loan, and the request to send then."""
        if loan.lender == self.owner:
            if self.known == (fork,) and (self.in_use or self.requested is not None):
                return True, []
            self.known = without(self.known, fork)
            return False, []
        if not self.in_use or loan.lender is None:
            return False, []
        covered = self.known or any(other.counted for other in self.loans.values())
        if covered:
            return False, []
        self.owed = self.owed or {}
        self.owed[fork] = loan.lender
        return True, self._ask(fork)

    def _ask(self, fork: ForkId) -> list[Effect]:
        if self.requested is not None:
            return []
        self.requested = fork
        return [Send(self.owner, ForkRequest(rref=self.rref, fork=fork))]

    # ---- death and the end

    def died(self, worker: WorkerId, allocate: Callable[[], ForkId]) -> list[Effect]:
        """If the lender died, ask the owner at once."""
        effects: list[Effect] = []
        for fork, loan in self.loans.items():
            if loan.lender == worker:
                self.loans[fork] = Loan(None, counted=False)
                if not self.confirmed:
                    effects += self._ask(fork)
        return effects

    def forget(self, worker: WorkerId) -> list[Effect]:
        mine = {fork: ack for fork, ack in self.lent.items() if self.children[fork] != worker}
        self.lent = mine or EMPTY
        return super().forget(worker)

    def lose(self) -> None:
        super().lose()
        self.lent = EMPTY
        self.loans = EMPTY

"""Lending: a loan for a call is a fork whose request waits for the reply, and is mostly spared.

The lender pins the loan as it would a child; the callee and the owner say nothing to each
other. What happens when the call has run, at the callee::

    nothing there needs the reference             the reply returns the loan; no message
    it is still used, and the owner counts it     the same: the entry needs this loan no more
    it is used, and another loan keeps it,        the same: that lender stays counted and
      whose lender the owner counts                 pinned until its own call has run
    it is used otherwise: *held*                  `ForkRequest` now; `ChildAck` as for a fork

A loan of the owner's own is registered with it when it is lent, so the callee is counted from
the start and a held one needs no request. The lender unpins when it has the reply, and for a
held loan the `ChildAck` too, whichever comes first. A creation has no reply: its loans come
back in a `Returned`, except that a held one's `ChildAck` says enough, and the owner does not
lend at all but forks, which then costs less.

A borrower whose lender dies asks at once, under the fork of the loan.

Why nothing is freed early (G4): follow from any borrower the loans to their lenders. The
path ends at a lender that the owner counts, since a loan is covered by another one only if
*that* lender was counted when it lent, and whoever is counted stays so while a child pins
it: an entry in use gives up its last known fork to no loan. So no two endpoints can be kept
by each other alone. Nor does an entry that has asked to be counted and waits for the answer:
it may have told the parent for whom it asked that it is counted by another fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .effects import Effect, Send
from .errors import ProtocolError
from .messages import ForkRequest, Passing, Report
from .owner import Owner
from .user import User

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ids import ForkId, RRefId, WorkerId
    from .messages import ChildAck, Descriptor


class LendingOwner(Owner):
    """An owner's view of an object that it also lends."""

    __slots__ = ("lent",)

    def __init__(self, rref: RRefId) -> None:
        super().__init__(rref)
        self.lent: dict[ForkId, WorkerId] = {}
        """Loans for calls that have not been answered."""

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        self.fork(fork, to)
        if not replies:
            return Passing.FORK
        self.lent[fork] = to
        return Passing.LOAN

    def abandon(self, fork: ForkId) -> list[Effect]:
        self.lent.pop(fork, None)
        return super().abandon(fork)

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """A held loan is a known fork by now, or even deleted."""
        if self.lent.get(fork) == sender:
            del self.lent[fork]
            if report is None or not report.held:
                self.forks.pop(fork, None)
        return self.settle()

    def forget(self, worker: WorkerId) -> list[Effect]:
        self.lent = {fork: to for fork, to in self.lent.items() if to != worker}
        return super().forget(worker)

    @property
    def unused(self) -> bool:
        return not self.lent and super().unused


class Loan(NamedTuple):
    """A loan to this endpoint, for a call that runs here."""

    lender: WorkerId | None
    """None once it died."""
    counted: bool
    """The owner counts the lender until the loan ends."""


class LendingUser(User):
    """A user's view of a reference that it borrows, lends, or both."""

    __slots__ = ("lent", "loans", "made")

    def __init__(self, rref: RRefId, owner: WorkerId) -> None:
        super().__init__(rref, owner)
        self.made = False
        """This endpoint created the object, so the owner counts it as soon as it knows of it."""
        self.lent: dict[ForkId, bool] = {}
        """Children that are loans for unanswered calls, and whether the `ChildAck` was first."""
        self.loans: dict[ForkId, Loan] = {}
        """Loans that brought the reference here, for calls that still run."""

    def create(self, fork: ForkId) -> None:
        super().create(fork)
        self.made = True

    # ---- at the lender

    @property
    def counted(self) -> bool:
        return self.made or self.confirmed

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        self.fork(fork, to)
        if replies:
            self.lent[fork] = False
        return Passing.LOAN

    def abandon(self, fork: ForkId) -> list[Effect]:
        self.lent.pop(fork, None)
        return super().abandon(fork)

    def child_ack(self, sender: WorkerId, message: ChildAck) -> list[Effect]:
        """What is lent stays pinned: the reply may give it back."""
        fork = message.fork
        if fork not in self.lent:
            return super().child_ack(sender, message)
        if self.children.get(fork) != sender or self.lent[fork]:
            raise ProtocolError(f"{sender} acknowledged loan {fork} of {self.rref} out of turn")
        self.lent[fork] = True
        return []

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """A held loan waits for its `ChildAck` unless that was first."""
        if self.children.get(fork) == sender:
            acknowledged = self.lent.pop(fork, False)
            if acknowledged or report is None or not report.held:
                del self.children[fork]
        return self.settle()

    # ---- at the borrower

    def borrow(self, descriptor: Descriptor) -> list[Effect]:
        fork, lender = descriptor.fork, descriptor.parent
        if fork in self.children:
            return []  # lent to itself: its own pin would look like use, and have it ask
        by_owner = lender == self.owner
        self.loans[fork] = Loan(lender, by_owner or descriptor.counted)
        return self._know(fork) if by_owner else []

    def end_loan(self, fork: ForkId, *, replies: bool) -> tuple[Report | None, list[Effect]]:
        loan = self.loans.pop(fork, None)
        held, effects = self._hold_on(fork, loan) if loan is not None else (False, [])
        # A reply returns what it does not name; without one, a held loan's `ChildAck` follows.
        report = (
            Report(rref=self.rref, fork=fork, owner=self.owner, held=held)
            if held == replies
            else None
        )
        return report, effects + self.settle()

    def _hold_on(self, fork: ForkId, loan: Loan) -> tuple[bool, list[Effect]]:
        """Whether the entry cannot do without the ending loan, and what must be asked then."""
        if loan.lender == self.owner:
            if self.known == {fork} and (self.in_use or self.requested is not None):
                return True, []
            self.known.discard(fork)
            return False, []
        covered = self.confirmed or any(other.counted for other in self.loans.values())
        if not self.in_use or covered or loan.lender is None:
            return False, []
        self.owed[fork] = loan.lender
        return True, self._ask(fork)

    def _ask(self, fork: ForkId) -> list[Effect]:
        if self.requested is not None:
            return []
        self.requested = fork
        return [Send(self.owner, ForkRequest(rref=self.rref, fork=fork))]

    # ---- death and the end

    def died(self, worker: WorkerId, mint: Callable[[], ForkId]) -> list[Effect]:
        """The borrower of a dead lender asks at once."""
        effects: list[Effect] = []
        for fork, loan in self.loans.items():
            if loan.lender == worker:
                self.loans[fork] = Loan(None, counted=False)
                if not self.confirmed:
                    effects += self._ask(fork)
        return effects

    def forget(self, worker: WorkerId) -> list[Effect]:
        self.lent = {fork: ack for fork, ack in self.lent.items() if self.children[fork] != worker}
        return super().forget(worker)

    def lose(self) -> None:
        super().lose()
        self.lent.clear()
        self.loans.clear()

    @property
    def unused(self) -> bool:
        return not self.loans and super().unused

    def settle(self) -> list[Effect]:
        """Without a known fork there is nobody to tell."""
        return super().settle() if self.known else []

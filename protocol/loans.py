"""The loans of one endpoint: those it gave with its calls, those that came with others'.

The disciplines decide what a loan costs (see `sharing`); here is when they are asked. At the
callee a loan ends when its request has been handled: the message lets go of its references,
each discipline says what is left to report, and the report rides on the reply. At the lender
it ends when that reply has been taken: after the references in it, so that one which comes
back finds the lender's own pin still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .borrowing import BorrowingUser, removal
from .errors import ProtocolError
from .messages import Reply, Report, Returned
from .tables import Tables, loans_among

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .effects import Effect
    from .ids import CallId, ForkId, RRefId, WorkerId
    from .messages import Delete, Descriptor, Message
    from .sharing import Sharing


class Loans(Tables):
    """The tables, and what happens to loans in them."""

    def __init__(self, me: WorkerId, sharing: Sharing = "lend") -> None:
        super().__init__(me, sharing)
        self._serving: dict[CallId, tuple[Descriptor, ...]] = {}
        """Requests that run or wait here: the references in each."""

    # ---- at the callee

    def borrowed(self) -> dict[RRefId, list[ForkId]]:
        """The loans to this endpoint for calls that wait or run here, by object."""
        found: dict[RRefId, list[ForkId]] = {}
        for descriptors in self._serving.values():
            for loan in loans_among(descriptors):
                found.setdefault(loan.rref, []).append(loan.fork)
        return found

    def served(self, rref: RRefId) -> list[CallId]:
        """The requests that wait or run here and brought *rref*."""
        return [
            call
            for call, descriptors in self._serving.items()
            if any(each.rref == rref for each in descriptors)
        ]

    def _loan(self, rref: RRefId, call: CallId) -> Descriptor | None:
        """The loan of *rref* for *call*, which runs here."""
        for loan in loans_among(self._serving.get(call, ())):
            if loan.rref == rref:
                return loan
        return None

    def _end(self, call: CallId, *, replies: bool) -> tuple[tuple[Report, ...], list[Effect]]:
        """A request has been handled: let go of its references, and settle the loans in it."""
        descriptors = self._serving.pop(call, ())
        effects = self._release(descriptors)
        reports: list[Report] = []
        for loan in loans_among(descriptors):
            user = self.users.get(loan.rref)
            if user is not None:
                report, settled = user.end_loan(loan.fork, replies=replies)
                effects += self._after(user, settled)
            else:  # it came home, its owner died, or nothing here needs it any more
                back = Report(rref=loan.rref, fork=loan.fork, owner=loan.owner, held=False)
                report = None if replies else back
            if report is not None:
                reports.append(report)
        return tuple(reports), effects

    def _release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        effects: list[Effect] = []
        for descriptor in descriptors:
            entry = self._entry(descriptor.rref)
            effects += self._after(entry, entry.release())
        return effects

    # ---- at the lender

    def _loan_ended(
        self, sender: WorkerId, rref: RRefId, fork: ForkId, report: Report | None
    ) -> list[Effect]:
        entry = self._find(rref)
        if entry is None:
            return []  # its owner died
        if report is not None:
            report = replace(report, borrowers=self._unburied(report.borrowers))
        return self._after(entry, entry.loan_ended(sender, fork, report))

    # ---- between the owner and those who borrow

    def _delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        owner = self._owner(message.rref)
        message = replace(message, borrowers=self._unburied(message.borrowers))
        return self._after(owner, owner.delete(sender, message))

    def _check_removed(self, sender: WorkerId, removed: tuple[Delete, ...]) -> None:
        """All of them are right, before the first is taken."""
        forks = [fork for each in removed for fork in each.forks]
        if len(set(forks)) < len(forks):
            raise ProtocolError(f"{sender} removed one fork twice")
        for each in removed:
            self._owner(each.rref).check_delete(sender, each)

    def _check_notices(self, sender: WorkerId, notices: tuple[tuple[RRefId, ForkId], ...]) -> None:
        for rref, _ in notices:
            user = self.users.get(rref)
            if user is not None and user.owner != sender:
                raise ProtocolError(f"{sender} counts {rref}, which {user.owner} owns")

    def _notified(self, sender: WorkerId, rref: RRefId, fork: ForkId) -> list[Effect]:
        user = self.users.get(rref)
        if not isinstance(user, BorrowingUser):
            return [removal(rref, sender, fork)]
        return self._after(user, user.notified(fork))

    def _take_back(self, message: Message) -> list[Effect]:
        """The receiver of *message* died, and nobody knows whether it had passed the tables on."""
        effects: list[Effect] = []
        for report in message.loans if isinstance(message, Reply | Returned) else ():
            borrowers = self._unburied(report.borrowers)
            if borrowers and report.owner not in self.dead:
                user = self._use(report.rref, report.owner)
                if isinstance(user, BorrowingUser):
                    effects += self._after(user, user.take_back(borrowers, self._mint_fork))
        return effects

    def _unburied(
        self, borrowers: tuple[tuple[ForkId, WorkerId], ...]
    ) -> tuple[tuple[ForkId, WorkerId], ...]:
        """Who counts: the dead do until their orphans had time to announce (G4)."""
        return tuple(each for each in borrowers if each[1] not in self.buried)

"""The loans of one endpoint: the loans in its own calls, and the loans in calls to it.

The disciplines decide the cost of a loan (see `sharing`); this module decides when to ask them. At
the callee a loan ends when its request has been handled: the message releases its references, each
discipline says what is left to report, and the report rides on the reply. At the lender the loan
ends after the lender has taken the references in that reply. So a reference that comes back finds
the lender's own pin still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from . import plain_loan
from .borrowing import BorrowingUser, removal
from .columns import MANY
from .effects import Send
from .errors import ProtocolError
from .messages import Passing, Report, Returned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .effects import Effect
    from .entries import Entries
    from .ids import CallId, ForkId, RRefId, WorkerId
    from .messages import Delete, Descriptor
    from .owner import Owner
    from .state import Tables
    from .user import User


def loans_among(descriptors: Iterable[Descriptor]) -> tuple[Descriptor, ...]:
    """The descriptors that are lent for a call."""
    loan = Passing.LOAN
    return tuple([each for each in descriptors if each.passing is loan])


class Loans(msgspec.Struct):
    """The beginnings and ends of loans."""

    state: Tables
    entries: Entries

    # ---- at the callee

    def borrowed(self) -> dict[RRefId, list[ForkId]]:
        """The loans to this endpoint for calls that wait or run here, by object."""
        found: dict[RRefId, list[ForkId]] = {}
        for descriptors in self.state.serving.values():
            for loan in loans_among(descriptors):
                found.setdefault(loan.rref, []).append(loan.fork)
        return found

    def served(self, rref: RRefId) -> list[CallId]:
        """The requests that wait or run here and brought *rref*."""
        return [
            call
            for call, descriptors in self.state.serving.items()
            if any(each.rref == rref for each in descriptors)
        ]

    def lent_for(self, call: CallId) -> dict[RRefId, Descriptor]:
        """The loans for *call*, which runs here, by their objects; the first of each."""
        descriptors = self.state.serving.get(call, ())
        return {loan.rref: loan for loan in reversed(loans_among(descriptors))}

    def end(self, call: CallId, *, replies: bool) -> tuple[tuple[Report, ...], list[Effect]]:
        """A request has been handled: release its references, and settle the loans in it."""
        many = len(self.state.serving.get(call, ())) >= MANY
        if many and replies and plain_loan.given_back(self.state, call):
            return (), []
        descriptors = self.state.serving.pop(call, ())
        if not descriptors:
            return (), []
        state, entries = self.state, self.entries
        effects = entries.release(descriptors)
        reports: list[Report] = []
        for loan in loans_among(descriptors):
            user = state.users.get(loan.rref)
            if user is not None:
                report, settled = user.end_loan(loan.fork, replies=replies)
                if settled:
                    effects += entries.sendable(settled)
                if not (user.handles or user.messages):
                    effects += entries.settle(user)
            else:  # it came home, its owner died, or this endpoint does not need it any more
                back = Report(rref=loan.rref, fork=loan.fork, owner=loan.owner, held=False)
                report = None if replies else back
            if report is not None:
                reports.append(report)
        return tuple(reports), effects

    def made(self, rref: RRefId) -> list[Effect]:
        """The function that makes *rref* has run: settle the loans for it."""
        call = self.state.making.pop(rref, None)
        if call is None:
            return []
        loans, effects = self.end(call, replies=False)
        return [*effects, Send(call.caller, Returned(loans=loans))] if loans else effects

    # ---- at the lender

    def ended(
        self, sender: WorkerId, loans: Sequence[Descriptor | Report], reports: Sequence[Report]
    ) -> list[Effect]:
        """The call for which *loans* were made to *sender* has run, and *reports* some of them."""
        state, entries = self.state, self.entries
        if len(loans) >= MANY and not reports and plain_loan.regained(state, sender, loans):
            return []
        told = {report.fork: report for report in reports}
        effects: list[Effect] = []
        for loan in loans:
            fork, rref = loan.fork, loan.rref
            entry: Owner | User | None = state.users.get(rref) or state.owners.get(rref)
            if entry is None:
                continue  # its owner died
            report = told.get(fork) if told else None
            if report is not None and report.borrowers:
                report = replace(report, borrowers=self.unburied(report.borrowers))
            more = entry.loan_ended(sender, fork, report)
            if more or not entry.handles:
                effects += entries.after(entry, more)
        return effects

    # ---- between the owner and the borrowers

    def delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        """*sender* no longer uses an object here; if it returns, it is told of an alias anew."""
        alias = self.state.aliases.get(message.rref)
        if alias is not None:
            alias.told.discard(sender)
        owner = self.entries.owner(message.rref)
        if message.borrowers:
            message = replace(message, borrowers=self.unburied(message.borrowers))
        effects = owner.delete(sender, message)
        return self.entries.after(owner, effects) if effects or not owner.forks else []

    def removed(self, sender: WorkerId, removed: tuple[Delete, ...]) -> list[Effect]:
        """*sender* has let go. All removals are checked before the first is carried out."""
        forks = [fork for each in removed for fork in each.forks]
        if len(set(forks)) < len(forks):
            raise ProtocolError(f"{sender} removed one fork twice")
        for each in removed:
            self.entries.owner(each.rref).check_delete(sender, each)
        return [effect for each in removed for effect in self.delete(sender, each)]

    def notified(
        self, sender: WorkerId, notices: tuple[tuple[RRefId, ForkId], ...]
    ) -> list[Effect]:
        """*sender*, the owner, counts these loans to this endpoint."""
        users = self.state.users
        for rref, _ in notices:
            user = users.get(rref)
            if user is not None and user.owner != sender:
                raise ProtocolError(f"{sender} counts {rref}, which {user.owner} owns")
        return [e for rref, fork in notices for e in self._notified(sender, rref, fork)]

    def _notified(self, sender: WorkerId, rref: RRefId, fork: ForkId) -> list[Effect]:
        user = self.state.users.get(rref)
        if not isinstance(user, BorrowingUser):
            return [removal(rref, sender, fork)]
        return self.entries.after(user, user.notified(fork))

    def unburied(
        self, borrowers: tuple[tuple[ForkId, WorkerId], ...]
    ) -> tuple[tuple[ForkId, WorkerId], ...]:
        """The borrowers that count: a dead one until its orphans had time to announce (G4)."""
        buried = self.state.buried
        return tuple([each for each in borrowers if each[1] not in buried])

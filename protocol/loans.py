"""The loans of one endpoint: the loans in its own calls, and the loans in calls to it.

The disciplines decide the cost of a loan (see `sharing`); this module decides when to ask them. At
the callee a loan ends when its request has been handled: the message releases its references, each
discipline says what is left to report, and the report rides on the reply. At the lender the loan
ends after the lender has taken the references in that reply. So a reference that comes back finds
the lender's own pin still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from .borrowing import BorrowingUser, removal
from .effects import Effect, Free, Send
from .empty import EMPTY
from .entries import Entries
from .errors import ProtocolError
from .ids import CallId, ForkId, RRefId, WorkerId
from .messages import Delete, Descriptor, NotifyRefRemoved, Passing, RefRemoved, Report, Returned
from .owner import Owner
from .state import Tables
from .user import User

_LOAN = Passing.LOAN
"""An attribute of an `Enum` takes as long as a call, and there may be very many references."""


def loans_among(descriptors: Iterable[Descriptor]) -> tuple[Descriptor, ...]:
    """The descriptors that are lent for a call."""
    return tuple([each for each in descriptors if each.passing is _LOAN])


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
        """A request has been handled: release its references, and end the loans in it."""
        descriptors = self.state.serving.pop(call, ())
        if not descriptors:
            return (), []
        state, entries, users = self.state, self.entries, self.state.users
        pins = replies and state.discipline.pins
        effects = entries.release(descriptors)
        reports: list[Report] = []
        for each in descriptors:
            rref, fork = each.rref, each.fork
            user = users.get(rref)
            if user is None:  # it came home, its owner died, or nothing here needs it any more
                if each.passing is _LOAN and not replies:
                    reports.append(Report(rref=rref, fork=fork, owner=each.owner, held=False))
                continue
            if (
                pins
                and not (user.handles or user.messages or user.pending or user.children)
                and user.requested is None
                and user.known == ((fork,) if user.loans[fork].lender == user.owner else ())
            ):  # exit: nothing needs it here any more
                del users[rref]
                continue
            if each.passing is not _LOAN:
                continue
            report, requests = user.end_loan(fork, replies=replies)
            if requests:
                effects += entries.sendable(requests)
            if not (user.handles or user.messages):
                effects += entries.end_if_unused(user)
            if report is not None:
                reports.append(report)
        return tuple(reports), effects

    def made(self, rref: RRefId) -> list[Effect]:
        """The function that makes *rref* has run: end the loans for it."""
        call = self.state.making.pop(rref, None)
        if call is None:
            return []
        loans, effects = self.end(call, replies=False)
        return [*effects, Send(call.caller, Returned(loans=loans))] if loans else effects

    # ---- at the lender

    def returned(self, sender: WorkerId, message: Returned) -> list[Effect]:
        """The creation for which these loans were made to *sender* has run."""
        return self.ended(sender, message.loans, message.loans)

    def ended(
        self, sender: WorkerId, loans: Sequence[Descriptor | Report], reports: Sequence[Report]
    ) -> list[Effect]:
        """The call for which *loans* were made to *sender* has run, and *reports* some of them."""
        entries, users, owners = self.entries, self.state.users, self.state.owners
        pins = self.state.discipline.pins and not reports
        told = {report.fork: report for report in reports}
        effects: list[Effect] = []
        for loan in loans:
            fork, rref = loan.fork, loan.rref
            user = users.get(rref)
            entry: Owner | User | None = user or owners.get(rref)
            if entry is None:
                continue  # its owner died
            if (
                pins and user is not None and user.handles and user.children == {fork: sender}
            ):  # exit: its only child was this loan
                user.children = user.lent = EMPTY
                continue
            report = told.get(fork)
            if report is not None and report.borrowers:
                report = replace(report, borrowers=self.unburied(report.borrowers))
            more = entry.loan_ended(sender, fork, report)
            if more or not entry.handles:
                effects += entries.after(entry, more)
        return effects

    # ---- between the owner and the borrowers

    def delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        """*sender* no longer uses an object here; if it returns, it is told of an alias anew."""
        state, rref, forks = self.state, message.rref, message.forks
        owner = state.owners.get(rref)
        if (
            owner is not None
            and len(forks) == 1 == len(owner.forks)
            and owner.forks.get(forks[0]) == sender
            and owner.alias is None
            and not (owner.handles or message.borrowers)
            and owner.at_rest
        ):  # exit: the last holder lets go of it
            del state.owners[rref]
            return [Free(rref)]
        alias = state.aliases.get(rref)
        if alias is not None:
            alias.told.discard(sender)
        owner = self.entries.owner(rref)
        if message.borrowers:
            message = replace(message, borrowers=self.unburied(message.borrowers))
        effects = owner.delete(sender, message)
        return self.entries.after(owner, effects) if effects or not owner.forks else []

    def removed(self, sender: WorkerId, message: RefRemoved) -> list[Effect]:
        """*sender* has let go. All removals are checked before the first is carried out."""
        removed = message.removed
        forks = [fork for each in removed for fork in each.forks]
        if len(set(forks)) < len(forks):
            raise ProtocolError(f"{sender} removed one fork twice")
        for each in removed:
            self.entries.owner(each.rref).check_delete(sender, each)
        return [effect for each in removed for effect in self.delete(sender, each)]

    def notified(self, sender: WorkerId, message: NotifyRefRemoved) -> list[Effect]:
        """*sender*, the owner, counts these loans to this endpoint."""
        users, notices = self.state.users, message.loans
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

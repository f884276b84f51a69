"""References in messages: leaving and arriving.

A reference that leaves is forked for good, lent for a call, or given back to its lender.

A receiver takes the references of a message over before it unpickles the message. Each descriptor
beside a payload makes the message hold the entry here, until the message has been handled. The
receiver refuses any descriptor that no correct peer sends, before anything has changed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from .errors import ProtocolError
from .messages import Cargo, Descriptor, Passing
from .owner import Owner
from .user import User

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .effects import Effect
    from .entries import Entries
    from .ids import CallId, ForkId, RRefId, WorkerId
    from .loans import Loans
    from .names import Names
    from .state import Tables

_NOTHING_LENT: Mapping[ForkId, RRefId] = MappingProxyType({})


class References(msgspec.Struct):
    """The descriptors of references in messages, and the checks on them."""

    state: Tables
    entries: Entries
    loans: Loans
    names: Names

    # ---- how they leave

    def fork(self, rref: RRefId, to: WorkerId, *, lost: bool = False) -> Descriptor:
        """Fork a child for *to*; the parent is pinned until it is confirmed (G2).

        With *lost* a reference with a dead owner is passed on, too. Nobody will confirm that child,
        so it is not pinned.
        """
        entry = self._shareable(rref, to, lost=lost)
        entry.stamp += 1
        fork = self.entries.mint_fork()
        if not (lost and self.entries.is_lost(entry.rref)):
            entry.fork(fork, to)
        return self._descriptor(rref, entry, fork)

    def lend(self, rref: RRefId, to: WorkerId, *, replies: bool) -> Descriptor:
        """Share for a call on *to*, as the discipline says; a creation has no reply."""
        entry = self._shareable(rref, to)
        entry.stamp += 1
        fork = self.entries.mint_fork()
        counted = isinstance(entry, User) and entry.counted
        passing = entry.lend(fork, to, replies=replies)
        return self._descriptor(rref, entry, fork, passing, counted=counted)

    def _shareable(self, rref: RRefId, to: WorkerId, *, lost: bool = False) -> Owner | User:
        self.entries.check_alive(to)
        found = self.names.whereabouts(rref)
        return self.entries.entry(found) if lost else self.entries.living(found)

    def _descriptor(
        self,
        rref: RRefId,
        entry: Owner | User,
        fork: ForkId,
        passing: Passing = Passing.FORK,
        *,
        counted: bool = False,
    ) -> Descriptor:
        me = self.state.me
        return Descriptor(
            rref=entry.rref,
            fork=fork,
            owner=me if isinstance(entry, Owner) else entry.owner,
            parent=me,
            passing=passing,
            counted=counted,
            name=None if entry.rref == rref else rref,
        )

    def give_back(self, rref: RRefId, call: CallId) -> Descriptor | None:
        """The descriptor of *rref* in the reply to *call*, if it was lent for that very call."""
        found = self.names.whereabouts(rref)
        loan = self.loans.find(found, call)
        if loan is None:
            return None
        return replace(loan, passing=Passing.BACK, name=None if found == rref else rref)

    def lend_on(self, cargo: Cargo, to: WorkerId, *, replies: bool) -> Cargo:
        """Lend *to* all references in *cargo*, which came here with a call that is passed on."""
        lent = tuple(
            replace(self.lend(each.rref, to, replies=replies), name=each.name)
            for each in cargo.descriptors
        )
        return Cargo(payload=cargo.payload, descriptors=lent)

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """Undo forks whose message could not be pickled, or never left."""
        effects: list[Effect] = []
        for descriptor in descriptors:
            entry = self.entries.find(descriptor.rref)
            children = entry.forks if isinstance(entry, Owner) else entry.children if entry else {}
            back = descriptor.passing is Passing.BACK  # the fork is the lender's, not ours
            if entry is not None and descriptor.fork in children and not back:
                effects += self.entries.after(entry, entry.abandon(descriptor.fork))
        return effects

    # ---- how they arrive

    def accept_request(self, sender: WorkerId, call: CallId, cargo: Cargo) -> list[Effect]:
        """Take over every reference in *cargo* and hold them until *call* has been handled."""
        if not cargo.descriptors:
            return []
        effects = self.accept(sender, cargo, lendable=True)
        self.state.serving[call] = cargo.descriptors
        return effects

    def accept(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> list[Effect]:
        """Take over every reference in *cargo*; the message holds each once from now on."""
        self.check(sender, cargo, lendable=lendable, lent=lent)
        effects: list[Effect] = []
        for descriptor in cargo.descriptors:
            if descriptor.owner == self.state.me:
                home, lost = self.entries.own_or_await(descriptor.rref)
                arrived = home.arrive(descriptor, self.state.me)
                effects += [*self.entries.sendable(arrived), *lost]
            else:
                user = self.entries.use(descriptor.rref, descriptor.owner)
                effects += self.entries.sendable(user.arrive(descriptor))
        return effects

    def check(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> None:
        """Check *cargo* of a request (*lendable*), or of a reply to a call that lent *lent*."""
        me, owners, users = self.state.me, self.state.owners, self.state.users
        # A loan comes back once for each handle of it in the reply.
        new = [each.fork for each in cargo.descriptors if each.passing is not Passing.BACK]
        if len(set(new)) < len(new):
            raise ProtocolError(f"{sender} sent one fork twice")
        for descriptor in cargo.descriptors:
            back = descriptor.passing is Passing.BACK
            parent = me if back else sender
            if descriptor.parent != parent or descriptor.fork.parent != parent:
                raise ProtocolError(f"{sender} sent {descriptor.rref} with a fork not its own")
            if back and lent.get(descriptor.fork) != descriptor.rref:
                raise ProtocolError(f"{sender} gives {descriptor.rref} back without a loan of it")
            if descriptor.passing is Passing.LOAN and not lendable:
                raise ProtocolError(f"{sender} lent {descriptor.rref}, but not for a call")
            if descriptor.passing is Passing.LOAN and not self.state.discipline.lends:
                raise ProtocolError(f"{sender} lent {descriptor.rref}; this system forks in calls")
            user = users.get(descriptor.rref)
            if user is not None and user.owner != descriptor.owner:
                raise ProtocolError(f"{sender} names a wrong owner of {descriptor.rref}")
            if descriptor.rref in owners and descriptor.owner != me:
                raise ProtocolError(f"{sender} names another owner of {descriptor.rref}")
            if descriptor.owner == me:
                self.entries.check_mine(descriptor.rref)
                mine = owners.get(descriptor.rref)
                if sender == me and (mine is None or descriptor.fork not in mine.forks):
                    raise ProtocolError(f"{sender} sent itself fork {descriptor.fork} twice")

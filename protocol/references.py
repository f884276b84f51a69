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
    from collections.abc import Iterable, Mapping, Sequence

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

    def fork(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, lost: bool = False
    ) -> tuple[Descriptor, ...]:
        """Fork a child of each for *to*; the parent is pinned until it is confirmed (G2).

        With *lost* a reference with a dead owner is passed on, too. Nobody will confirm that child,
        so it is not pinned. Without, such a one raises `OwnerDiedError`, and none is forked.
        """
        found = self._shareable(rrefs, to, lost=lost)
        made: list[Descriptor] = []
        for rref, entry in zip(rrefs, found, strict=True):
            entry.stamp += 1
            fork = self.entries.mint_fork()
            if not (lost and self.entries.is_lost(entry.rref)):
                entry.fork(fork, to)
            made.append(self._descriptor(rref, entry, fork, Passing.FORK, False))
        return tuple(made)

    def lend(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, replies: bool
    ) -> tuple[Descriptor, ...]:
        """Share each for a call on *to*, as the discipline says; a creation has no reply.

        Raises `OwnerDiedError` if one is lost. Then none is shared.
        """
        found = self._shareable(rrefs, to)
        made: list[Descriptor] = []
        for rref, entry in zip(rrefs, found, strict=True):
            entry.stamp += 1
            fork = self.entries.mint_fork()
            counted = isinstance(entry, User) and entry.counted
            passing = entry.lend(fork, to, replies=replies)
            made.append(self._descriptor(rref, entry, fork, passing, counted))
        return tuple(made)

    def _shareable(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, lost: bool = False
    ) -> list[Owner | User]:
        """The entry behind each of *rrefs*."""
        state = self.state
        if rrefs and state.dead.firsts:  # a message without any is no matter of this machine
            self.entries.check_alive(to)
        found: list[Owner | User] = []
        for rref in rrefs:
            entry = state.users.get(rref)
            if entry is None or entry.lost or rref in state.names:  # an object here, or a rare case
                where = self.names.whereabouts(rref)
                found.append(self.entries.entry(where) if lost else self.entries.living(where))
            else:
                found.append(entry)
        return found

    def _descriptor(
        self, rref: RRefId, entry: Owner | User, fork: ForkId, passing: Passing, counted: bool
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

    def give(self, rrefs: Sequence[RRefId], call: CallId) -> tuple[Descriptor, ...]:
        """The descriptors of *rrefs* in the reply to *call*.

        A reference that was lent for that very call is given back, and any other one is forked.
        """
        lent = self.loans.lent_for(call)
        back: dict[RRefId, Descriptor] = {}
        for rref in rrefs if lent else ():
            found = self.names.whereabouts(rref)
            loan = lent.get(found)
            if loan is not None:
                name = None if found == rref else rref
                back[rref] = replace(loan, passing=Passing.BACK, name=name)
        others = [each for each in rrefs if each not in back] if back else rrefs
        forked = self.fork(others, call.caller, lost=True)
        if not back:
            return forked
        forks = iter(forked)
        return tuple([back[each] if each in back else next(forks) for each in rrefs])

    def lend_on(self, cargo: Cargo, to: WorkerId, *, replies: bool) -> Cargo:
        """Lend *to* all references in *cargo*, which came here with a call that is passed on."""
        lent = self.lend([each.rref for each in cargo.descriptors], to, replies=replies)
        named = [replace(a, name=b.name) for a, b in zip(lent, cargo.descriptors, strict=True)]
        return Cargo(payload=cargo.payload, descriptors=tuple(named))

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
        me, users = self.state.me, self.state.users
        effects: list[Effect] = []
        for descriptor in cargo.descriptors:
            if descriptor.owner == me:
                home, lost = self.entries.own_or_await(descriptor.rref)
                effects += home.arrive(descriptor, me)
                effects += lost
            else:
                user = users.get(descriptor.rref)
                if user is None:
                    user = self.entries.use(descriptor.rref, descriptor.owner)
                effects += user.arrive(descriptor)
        return self.entries.sendable(effects)

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
        lends = self.state.discipline.lends
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
            if descriptor.passing is Passing.LOAN and not lends:
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

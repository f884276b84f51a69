"""References in messages: leaving and arriving.

A reference that leaves is forked for good, lent for a call, or given back to its lender.

A receiver takes the references of a message over before it unpickles the message. Each descriptor
beside a payload makes the message hold the entry here, until the message has been handled. The
receiver refuses any descriptor that no correct peer sends, before anything has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from .effects import Effect
from .entries import Entries
from .errors import ProtocolError
from .ids import CallId, ForkId, RRefId, WorkerId
from .loans import Loans
from .messages import Cargo, Descriptor, Passing
from .names import Names
from .owner import Owner
from .state import Tables
from .user import Loan, User

_FORK, _LOAN, _BACK = Passing.FORK, Passing.LOAN, Passing.BACK
"""An attribute of an `Enum` takes as long as a call; the loops here are for many references."""
_NOTHING_LENT: Mapping[ForkId, RRefId] = MappingProxyType({})


class References(msgspec.Struct):
    """The descriptors of references in messages, and the checks on them."""

    state: Tables
    entries: Entries
    loans: Loans
    names: Names

    # ---- how they leave

    def share(
        self,
        rrefs: Sequence[RRefId],
        to: WorkerId,
        *,
        replies: bool | None = None,
        lost: bool = False,
    ) -> tuple[Descriptor, ...]:
        """Fork a child of each for *to*; the parent is pinned until it is confirmed (G2).

        If *replies* is given, each is shared for a call on *to*, as the discipline says; *replies*
        is false for a creation, which has no reply. With *lost* a reference with a dead owner is
        passed on, too. Nobody will confirm that child, so it is not pinned. Without *lost* such a
        reference raises `OwnerDiedError`, and nothing is shared.
        """
        state, found = self.state, self._shareable(rrefs, to, lost=lost)
        me, number, pins = state.me, state.forks, replies and state.discipline.pins
        made: list[Descriptor] = []
        for rref, entry in zip(rrefs, found, strict=True):  # there may be many
            entry.stamp += 1
            number += 1
            fork = ForkId(me, number)
            owner, passing, counted = me, _FORK, False
            if isinstance(entry, User):
                owner = entry.owner
                if replies is not None:
                    counted = bool(entry.known) or entry.counted
            if pins and isinstance(entry, User) and not entry.children:  # exit
                entry.children, entry.lent = {fork: to}, {fork: False}
                passing = _LOAN
            elif replies is not None:
                passing = entry.lend(fork, to, replies=replies)
            elif isinstance(entry, Owner) or not entry.lost:  # a lost one's child is not pinned
                entry.fork(fork, to)
            name = None if entry.rref == rref else rref
            made.append(
                Descriptor(
                    rref=entry.rref,
                    fork=fork,
                    owner=owner,
                    parent=me,
                    passing=passing,
                    counted=counted,
                    name=name,
                )
            )
        state.forks = number
        return tuple(made)

    def _shareable(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, lost: bool
    ) -> list[Owner | User]:
        """The entry behind each of *rrefs*."""
        state = self.state
        if rrefs and state.dead.firsts:  # a message without references is checked elsewhere
            self.entries.check_alive(to)
        found: list[Owner | User] = []
        for rref in rrefs:
            user = state.users.get(rref)
            if user is not None and not user.lost and rref not in state.names:
                found.append(user)
                continue
            owner = state.owners.get(rref)
            if owner is not None and owner.alias is None:
                found.append(owner)
                continue
            where = self.names.whereabouts(rref)  # rare: an alias, or a lost object
            found.append(self.entries.used(where) if lost else self.entries.living(where))
        return found

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
                back[rref] = replace(loan, passing=_BACK, name=name)
        others = [each for each in rrefs if each not in back] if back else rrefs
        forked = self.share(others, call.caller, lost=True)
        if not back:
            return forked
        forks = iter(forked)
        return tuple([back[each] if each in back else next(forks) for each in rrefs])

    def lend_on(self, cargo: Cargo, to: WorkerId, *, replies: bool) -> Cargo:
        """Lend *to* all references in *cargo*, which came here with a call that is passed on."""
        lent = self.share([each.rref for each in cargo.descriptors], to, replies=replies)
        named = [
            replace(a, name=b.name or a.name) for a, b in zip(lent, cargo.descriptors, strict=True)
        ]
        return Cargo(payload=cargo.payload, descriptors=tuple(named))

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """Undo forks whose message could not be pickled, or never left."""
        effects: list[Effect] = []
        for descriptor in descriptors:
            entry = self.entries.find(descriptor.rref)
            children = entry.forks if isinstance(entry, Owner) else entry.children if entry else {}
            back = descriptor.passing is _BACK  # the fork is the lender's, not ours
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
        state = self.state
        me, users, owners, make = state.me, state.users, state.owners, state.discipline.user
        pins = lendable and state.discipline.pins and not state.dead.firsts
        counted, uncounted = Loan(sender, counted=True), Loan(sender, counted=False)
        effects: list[Effect] = []
        for descriptor in cargo.descriptors:
            rref, owner, passing = descriptor.rref, descriptor.owner, descriptor.passing
            if owner == me:
                home = owners.get(rref)
                if home is not None and passing is not _FORK:  # exit: its lender keeps the pin
                    home.messages += 1
                    home.stamp += 1
                    continue
                home, more = self.entries.own_or_await(rref)
                effects += home.arrive(descriptor, me)
                effects += more
                continue
            user = users.get(rref)
            if user is None:
                if pins and passing is _LOAN and owner != sender:  # exit: it is new here
                    loan = {descriptor.fork: counted if descriptor.counted else uncounted}
                    users[rref] = make(rref, owner, state.now, messages=1, loans=loan)
                    continue
                lost = bool(state.dead.firsts) and owner in state.dead
                user = users[rref] = make(rref, owner, state.now, lost)
            user.messages += 1
            if user.lost or passing is _BACK:
                continue
            if passing is _LOAN:
                effects += user.borrow(descriptor)
            else:
                effects += user.arrive(descriptor)
        return self.entries.sendable(effects) if state.dead.firsts else effects

    def check(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> None:
        """Check *cargo* of a request (*lendable*), or of a reply to a call that lent *lent*."""
        state = self.state
        me, owners, users, lends = state.me, state.owners, state.users, state.discipline.lends
        descriptors = cargo.descriptors
        # A loan comes back once for each handle of it in the reply.
        new = [each.fork for each in descriptors if each.passing is not _BACK]
        if len(set(new)) < len(new):
            raise ProtocolError(f"{sender} sent one fork twice")
        for descriptor in descriptors:
            rref, fork, passing = descriptor.rref, descriptor.fork, descriptor.passing
            parent = me if passing is _BACK else sender
            if descriptor.parent != parent or fork.parent != parent:
                raise ProtocolError(f"{sender} sent {rref} with a fork not its own")
            if passing is _LOAN:
                if not lendable:
                    raise ProtocolError(f"{sender} lent {rref}, but not for a call")
                if not lends:
                    raise ProtocolError(f"{sender} lent {rref}; this system forks in calls")
            elif passing is _BACK and lent.get(fork) != rref:
                raise ProtocolError(f"{sender} gives {rref} back without a loan of it")
            owner, user = descriptor.owner, users.get(rref)
            if user is not None and user.owner != owner:
                raise ProtocolError(f"{sender} names a wrong owner of {rref}")
            if owner != me:
                if rref in owners:
                    raise ProtocolError(f"{sender} names another owner of {rref}")
                continue
            mine = owners.get(rref)
            if mine is None:
                self.entries.check_mine(rref)
            if sender == me and (mine is None or fork not in mine.forks):
                raise ProtocolError(f"{sender} sent itself fork {fork} twice")

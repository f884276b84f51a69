"""The moves of plain calls that lend references, each in one function (see `plain`).

A plain call of this kind lends a few references, and its callee keeps none that it would have to
ask the owner for. So the call and its reply are all the messages. This is so by the discipline
"lend" only (`lending`).

======================  ==================================================
here                    as
======================  ==================================================
`lend`                  `Context.lend_all` and `Context.call`
`lent`                  `Context.take` of a `Call` with loans
`returned`              `Context.drop` of handles and `Context.reply`
`regained`              the end of loans in `Context.take` of a `Reply`
======================  ==================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .empty import EMPTY
from .ids import CallId, ForkId
from .lending import LendingUser
from .messages import Call, Cargo, Descriptor, Passing, Reply
from .state import Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ids import RRefId, WorkerId
    from .owner import Owner
    from .state import Tables
    from .user import User

_LOAN = Passing.LOAN


def lend(state: Tables, to: WorkerId, rrefs: Sequence[RRefId], payload: object) -> Call | None:
    """Run *payload* on *to*, and lend it *rrefs*, which differ: the message to send."""
    if to == state.me or state.discipline.user is not LendingUser:
        return None
    if state.dead.firsts and to in state.dead:
        return None
    found: list[Owner | User] = []
    for rref in rrefs:
        user = state.users.get(rref)
        if user is not None:
            if user.lost or rref in state.names:
                return None
            found.append(user)
            continue
        mine = state.owners.get(rref)
        if mine is None or mine.alias is not None:
            return None
        found.append(mine)
    me, number, made = state.me, state.forks, []
    for entry in found:
        entry.stamp += 1
        number += 1
        fork, owner, counted = ForkId(me, number), me, False
        if type(entry) is LendingUser:
            owner, counted = entry.owner, entry.made or bool(entry.known)
        entry.lend(fork, to, replies=True)
        made.append(
            Descriptor(
                rref=entry.rref, fork=fork, owner=owner, parent=me, passing=_LOAN, counted=counted
            )
        )
    state.forks = number
    state.calls += 1
    call, loans = CallId(me, state.calls), tuple(made)
    state.waiting[call] = Waiting(to, None, loans)
    return Call(call=call, cargo=Cargo(payload=payload, descriptors=loans))


def lent(state: Tables, sender: WorkerId, message: Call) -> bool:
    """Whether *message* lends only what can be borrowed at once; it is to be run."""
    me, owners, users, call = state.me, state.owners, state.users, message.call
    loans = message.cargo.descriptors
    if (
        call.caller != sender
        or sender == me
        or (state.dead.firsts and _are_dead(state, sender, loans))
        or state.discipline.user is not LendingUser
        or (len(loans) > 1 and not _differ(loans))
    ):
        return False
    for each in loans:
        rref, owner, mine = each.rref, each.owner, owners.get(each.rref)
        if (
            each.passing is not _LOAN
            or each.parent != sender
            or each.fork.parent != sender
            or each.name is not None
            or (mine is not None) != (owner == me)
        ):
            return False
        user = users.get(rref)
        if user is not None and (user.owner != owner or (user.owed and owner == sender)):
            return False
    for each in loans:
        rref, mine = each.rref, owners.get(each.rref)
        if mine is not None:
            mine.messages += 1
            mine.stamp += 1
            continue
        user = users.get(rref)
        if user is None:
            user = users[rref] = state.discipline.user(rref, each.owner, state.now)
        user.messages += 1
        user.borrow(each)
    state.serving[call] = loans
    return True


def _are_dead(state: Tables, sender: WorkerId, loans: Sequence[Descriptor]) -> bool:
    """Whether *sender*, or the owner of a reference in *loans*, is dead."""
    return sender in state.dead or any(each.owner in state.dead for each in loans)


def _differ(loans: Sequence[Descriptor]) -> bool:
    """Whether *loans* are of different objects, under different forks."""
    number = len(loans)
    return len({each.rref for each in loans}) == number == len({each.fork for each in loans})


def returned(
    state: Tables, cargo: Cargo, call: CallId, gone: Sequence[RRefId] = ()
) -> Reply | None:
    """Handles of *gone* are gone; answer *call* by *cargo*, and give its loans back."""
    loans = state.serving.get(call)
    if not loans or state.held or call.caller == state.me:
        return None
    if state.dead.firsts and call.caller in state.dead:
        return None
    if len(loans) > 1 and not _differ(loans):
        return None
    users, ends, others = state.users, [], len(gone)
    for each in loans:
        rref, less, user = each.rref, gone.count(each.rref), users.get(each.rref)
        others -= less
        if user is not None:
            if user.handles < less or rref in state.names or not _returns(user, each, less):
                return None
            ends.append((user, each.fork, less))
            continue
        mine = state.owners.get(rref)
        if mine is None or mine.handles < less or not (mine.handles > less or mine.forks):
            return None
    if others:
        return None
    for each in loans:
        mine = state.owners.get(each.rref)
        if mine is not None:
            mine.handles -= gone.count(each.rref)
            mine.messages -= 1
    for user, fork, less in ends:
        user.handles -= less
        user.messages -= 1
        del user.loans[fork]
        if not user.loans:
            user.loans = EMPTY
            if not (user.handles or user.messages or user.pending or user.children):
                del users[user.rref]
    del state.serving[call]
    return Reply(call=call, cargo=cargo)


def _returns(user: User, loan: Descriptor, less: int) -> bool:
    """Whether *loan* ends without a message if *less* handles of *user* are gone."""
    fork, loans = loan.fork, user.loans
    mine = loans.get(fork)
    if mine is None or type(user) is not LendingUser:  # none: the owner is dead
        return False
    if user.handles > less or user.messages > 1 or user.pending or user.children:  # it is kept
        if mine.lender == user.owner:
            return False
        return bool(user.known) or any(loans[other].counted for other in loans if other != fork)
    if len(loans) > 1 or user.requested is not None:
        return False
    return not user.known or (user.known == (fork,) and mine.lender == user.owner)


def regained(state: Tables, sender: WorkerId, loans: Sequence[Descriptor]) -> bool:
    """Whether *loans* to *sender*, of which it has kept none, end here without a message."""
    users, owners = state.users, state.owners
    found: list[Owner | User] = []
    for each in loans:
        entry = users.get(each.rref) or owners.get(each.rref)
        if entry is None or not entry.handles:
            return False
        found.append(entry)
    for entry, each in zip(found, loans, strict=True):
        entry.loan_ended(sender, each.fork, None)
    return True

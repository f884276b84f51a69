"""The moves of plain calls that lend references, each in one function (see `plain`).

A plain call of this kind lends references, and its callee keeps none that it would have to ask the
owner for. So the call and its reply are all the messages. This is so by the discipline "lend" only
(`lending`).

Calls with few references go straight by these moves. A call with many goes the general way, but the
general machine makes these moves for its references: a move deals with all of them in one loop, and
nearly always calls no function for each. Such a move that is not plain is made in the general way.

======================  ==================================================
here                    as
======================  ==================================================
`lend`                  `Context.lend_all` and `Context.call`
`loans`                 `Context.lend_all`
`lent`                  `Context.take` of a `Call` with loans
`returned`              `Context.drop` of handles and `Context.reply`
`given_back`            the end of loans in `Context.reply`
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
from .user import Loan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .effects import Effect
    from .ids import RRefId, WorkerId
    from .messages import Report
    from .owner import Owner
    from .state import Tables
    from .user import User

_LOAN = Passing.LOAN


def lend(state: Tables, to: WorkerId, rrefs: Sequence[RRefId], payload: object) -> Call | None:
    """Run *payload* on *to*, and lend it *rrefs*: the message to send."""
    made = loans(state, to, rrefs)
    if made is None:
        return None
    state.calls += 1
    call = CallId(state.me, state.calls)
    state.waiting[call] = Waiting(to, None, made)
    return Call(call=call, cargo=Cargo(payload=payload, descriptors=made))


def loans(state: Tables, to: WorkerId, rrefs: Sequence[RRefId]) -> tuple[Descriptor, ...] | None:
    """Lend *rrefs* to *to* for a call that replies."""
    if to == state.me or state.discipline.user is not LendingUser:
        return None
    if state.dead.firsts and to in state.dead:
        return None
    users, owners, names = state.users, state.owners, state.names
    found: list[Owner | User] = []
    for rref in rrefs:
        user = users.get(rref)
        if user is not None:
            if user.lost or (names and rref in names):
                return None
            found.append(user)
            continue
        mine = owners.get(rref)
        if mine is None or mine.alias is not None:
            return None
        found.append(mine)
    me, number = state.me, state.forks
    made: list[Descriptor] = []
    for entry in found:
        entry.stamp += 1
        number += 1
        fork, owner, counted = ForkId(me, number), me, False
        if type(entry) is LendingUser:
            owner, counted = entry.owner, entry.made or bool(entry.known)
            if entry.children:
                entry.lend(fork, to, replies=True)
            else:  # nearly always
                entry.children, entry.lent = {fork: to}, {fork: False}
        else:
            entry.lend(fork, to, replies=True)
        made.append(
            Descriptor(
                rref=entry.rref, fork=fork, owner=owner, parent=me, passing=_LOAN, counted=counted
            )
        )
    state.forks = number
    return tuple(made)


def lent(
    state: Tables, sender: WorkerId, call: CallId, loans: tuple[Descriptor, ...]
) -> list[Effect] | None:
    """Take over *loans*, which came with *call*; it is to be run after the effects.

    None if one of *loans* can not be borrowed at once.
    """
    me, owners, users = state.me, state.owners, state.users
    if (
        call.caller != sender
        or sender == me
        or (state.dead.firsts and _are_dead(state, sender, loans))
        or state.discipline.user is not LendingUser
    ):
        return None
    make, now, last = state.discipline.user, state.now, -1
    counted, uncounted = Loan(sender, counted=True), Loan(sender, counted=False)
    new: dict[RRefId, User] = {}
    known: list[Descriptor] = []
    for each in loans:
        rref, fork, owner = each.rref, each.fork, each.owner
        if (
            each.passing is not _LOAN
            or each.parent != sender
            or fork.parent != sender
            or fork.number <= last  # so no fork comes twice
            or each.name is not None
            or (bool(owners) and rref in owners) != (owner == me)
        ):
            return None
        last = fork.number
        user = users.get(rref)
        if user is None and owner not in (me, sender):  # nearly always, if there are many
            loan = {fork: counted if each.counted else uncounted}
            new[rref] = make(rref, owner, now, messages=1, loans=loan)
            continue
        if user is not None and (user.owner != owner or (user.owed and owner == sender)):
            return None
        known.append(each)
    if len(new) + len(known) < len(loans):
        return None  # an object comes twice
    effects: list[Effect] = []
    users.update(new)
    for each in known:
        rref, mine = each.rref, owners.get(each.rref)
        if mine is not None:
            mine.messages += 1
            mine.stamp += 1
            continue
        user = users.get(rref)
        if user is None:
            user = users[rref] = make(rref, each.owner, now)
        user.messages += 1
        effects += user.borrow(each)
    state.serving[call] = loans
    return effects


def _are_dead(state: Tables, sender: WorkerId, loans: Sequence[Descriptor]) -> bool:
    """Whether *sender*, or the owner of a reference in *loans*, is dead."""
    return sender in state.dead or any(each.owner in state.dead for each in loans)


def returned(
    state: Tables, cargo: Cargo, call: CallId, gone: Sequence[RRefId] = ()
) -> Reply | None:
    """Handles of *gone* are gone; answer *call* by *cargo*, and give its loans back."""
    if not given_back(state, call, gone):
        return None
    return Reply(call=call, cargo=cargo)


def given_back(state: Tables, call: CallId, gone: Sequence[RRefId] = ()) -> bool:
    """Handles of *gone* are gone; whether the loans of *call*, which has run, end without words."""
    loans = state.serving.get(call)
    if not loans:
        return False
    if state.dead.firsts and call.caller in state.dead:
        return False
    users, owners = state.users, state.owners
    kept: list[tuple[User, ForkId, int]] = []
    mine: list[tuple[Owner, int]] = []
    others, less = len(gone), 0
    over: list[RRefId] = []
    for each in loans:
        rref, fork = each.rref, each.fork
        if gone:
            less = gone.count(rref)
            others -= less
        user = users.get(rref)
        if user is None:
            owner = owners[rref]  # the message of the call holds it
            if owner.handles < less or not (owner.handles > less or owner.forks):
                return False
            mine.append((owner, less))
            continue
        if user.handles < less:  # maybe it is an alias: its handles count for another object
            return False
        loan = user.loans.get(fork)
        if loan is None:  # the owner is dead; or this system forks, or borrows
            return False
        if user.handles > less or user.messages > 1 or user.pending or user.children:
            if not _covered(user, fork, loan):
                return False
            kept.append((user, fork, less))
        elif user.requested is not None or (user.known and user.known != (fork,)):
            return False
        else:
            over.append(rref)
    if others or ((kept or mine) and not _differ(loans)):
        return False
    for owner, less in mine:
        owner.handles -= less
        owner.messages -= 1
    for user, fork, less in kept:
        user.handles -= less
        user.messages -= 1
        del user.loans[fork]
        if not user.loans:
            user.loans = EMPTY
    for rref in over:
        del users[rref]
    del state.serving[call]
    return True


def _differ(loans: Sequence[Descriptor]) -> bool:
    """Whether *loans* are of different objects."""
    return len(loans) == 1 or len({each.rref for each in loans}) == len(loans)


def _covered(user: User, fork: ForkId, loan: Loan) -> bool:
    """Whether *user*, which is still in use, needs the ending *loan* no more."""
    if loan.lender == user.owner:
        return False
    return bool(user.known) or any(user.loans[it].counted for it in user.loans if it != fork)


def regained(state: Tables, sender: WorkerId, loans: Sequence[Descriptor | Report]) -> bool:
    """Whether *loans* to *sender* end here without a message. It has kept none of them."""
    users, owners = state.users, state.owners
    found: list[Owner | User] = []
    for each in loans:
        entry = users.get(each.rref) or owners.get(each.rref)
        if entry is None or not entry.handles:
            return False
        found.append(entry)
    for entry, each in zip(found, loans, strict=True):
        fork = each.fork
        if (
            type(entry) is LendingUser
            and len(entry.children) == 1
            and entry.children.get(fork) == sender
        ):
            entry.children = entry.lent = EMPTY  # nearly always: this loan was the only child
        else:
            entry.loan_ended(sender, fork, None)
    return True

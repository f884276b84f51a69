"""More negative properties: what a simple world of loans would keep (see `never`)."""

from __future__ import annotations

from collections.abc import Iterator

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.lending import LendingOwner, LendingUser
from farref.protocol.messages import (
    Call,
    ChildAck,
    Create,
    ForkRequest,
    Invoke,
    NotifyRefRemoved,
    Passing,
    Reply,
    Returned,
)
from farref.protocol.user import User

from .always import View, deletes_in
from .endpoint import Endpoint
from .never import NEVER_STATE, NEVER_STEP, arriving, claim, delivered
from .steps import Act, Notice
from .world import Taken

__all__ = ["NEVER_STATE", "NEVER_STEP"]


def borrowers(endpoint: Endpoint) -> Iterator[BorrowingUser]:
    """Its entries, where they are a borrowing endpoint's."""
    return (it for it in endpoint.context.users.values() if isinstance(it, BorrowingUser))


def loans_of(user: User) -> set[object]:
    """The loans for calls that run at *user*."""
    return set(user.loans) if isinstance(user, LendingUser | BorrowingUser) else set()


def ended(taken: Taken) -> Iterator[tuple[User, User | None]]:
    """The entries of which a loan ends in this step, before and after it."""
    if isinstance(taken.step, Act):
        for rref, user in taken.before.context.users.items():
            after = taken.after.context.users.get(rref)
            if loans_of(user) - (loans_of(after) if after else set()):
                yield user, after


# ---- at the lender


@claim(NEVER_STEP, "no ChildAck overtakes the reply of its loan")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case ChildAck(rref=rref, fork=fork):
            user = taken.before.context.users.get(rref)
            return isinstance(user, LendingUser) and fork in user.lent
        case _:
            return False


@claim(NEVER_STEP, "no delete overtakes the reply of its loan")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    for delete in deletes_in(message) if message is not None else ():
        owner = taken.before.context.owners.get(delete.rref)
        if isinstance(owner, LendingOwner) and any(fork in owner.lent for fork in delete.forks):
            return True
    return False


@claim(NEVER_STEP, "no reply says that a loan is held")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    return isinstance(message, Reply) and any(each.held for each in message.loans)


@claim(NEVER_STEP, "no creation returns its loans")
def _(taken: Taken) -> bool:
    return isinstance(delivered(taken), Returned)


@claim(NEVER_STEP, "nothing is given back")
def _(taken: Taken) -> bool:
    return any(each.passing is Passing.BACK for each in arriving(taken))


@claim(NEVER_STEP, "nobody lends before he is confirmed")
def _(taken: Taken) -> bool:
    return any(
        each.passing is Passing.LOAN
        and each.owner != taken.before.me
        and not taken.after.context.users[each.rref].known
        for it in taken.sent
        if isinstance(it.message, Call | Invoke | Create)
        for each in it.message.cargo.descriptors
    )


# ---- at the borrower


@claim(NEVER_STEP, "no loan comes home")
def _(taken: Taken) -> bool:
    return any(
        each.passing is Passing.LOAN and each.owner == taken.before.me for each in arriving(taken)
    )


@claim(NEVER_STEP, "no loan is covered by another loan")
def _(taken: Taken) -> bool:
    return any(
        after is not None and loans_of(after) and not after.known and not after.requested
        for _, after in ended(taken)
    )


@claim(NEVER_STEP, "no loan of the owner's is kept while another one is")
def _(taken: Taken) -> bool:
    return any(
        isinstance(user, LendingUser)
        and after is not None
        and 0 < len(after.known) < len(user.known)
        for user, after in ended(taken)
    )


@claim(NEVER_STEP, "no loan ends while its entry waits for an acknowledgement")
def _(taken: Taken) -> bool:
    return any(
        user.requested and after is not None and not after.in_use for user, after in ended(taken)
    )


@claim(NEVER_STEP, "no notice comes during a later loan")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case NotifyRefRemoved(loans=loans):
            users = taken.before.context.users
            return any(
                rref in users and loans_of(users[rref]) and fork not in loans_of(users[rref])
                for rref, fork in loans
            )
        case _:
            return False


@claim(NEVER_STEP, "no notice is denied")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case NotifyRefRemoved(loans=loans):
            held = {fork for user in borrowers(taken.before) for fork in user.reported}
            return any(fork not in held for _, fork in loans)
        case _:
            return False


@claim(NEVER_STEP, "no reply hands a table over")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    return isinstance(message, Reply) and any(each.borrowers for each in message.loans)


@claim(NEVER_STEP, "no delete hands a table over")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    return message is not None and any(each.borrowers for each in deletes_in(message))


# ---- death


@claim(NEVER_STEP, "no announcement is sent")
def _(taken: Taken) -> bool:
    return any(
        isinstance(it.message, ForkRequest) and it.message.fork.parent == taken.before.me
        for it in taken.sent
    )


@claim(NEVER_STEP, "no loan outlives its lender")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Notice) and any(
        getattr(fork, "parent", None) == taken.step.worker
        for user in taken.before.context.users.values()
        for fork in loans_of(user)
    )


@claim(NEVER_STEP, "nobody has a reply for a dead lender")
def _(taken: Taken) -> bool:
    return any(
        getattr(fork, "parent", None) in taken.before.context.dead
        for user, after in ended(taken)
        for fork in loans_of(user) - (loans_of(after) if after else set())
    )


@claim(NEVER_STEP, "no table is taken back")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Notice) and bool(taken.step.unacknowledged)


@claim(NEVER_STEP, "no table of the dead is passed on")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    tables = [*deletes_in(message), *getattr(message, "loans", ())] if message else []
    return any(
        worker in taken.before.context.dead
        for each in tables
        for _, worker in getattr(each, "borrowers", ())
    )


@claim(NEVER_STEP, "no loan comes while an announcement is under way")
def _(taken: Taken) -> bool:
    users = taken.before.context.users
    for each in arriving(taken):
        user = users.get(each.rref)
        if each.passing is Passing.LOAN and isinstance(user, BorrowingUser) and user.announcing:
            return True
    return False


@claim(NEVER_STATE, "nobody comes too late")
def _(view: View) -> bool:
    return any(facts.late for facts in view.living.values())

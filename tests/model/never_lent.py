"""More negative properties: claims that would hold in a simple world of loans (see `never`)."""

from __future__ import annotations

from collections.abc import Iterator

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.ids import ForkId, RRefId
from farref.protocol.lending import LendingOwner, LendingUser
from farref.protocol.loans import loans_among
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
from .endpoint import ScriptedEndpoint
from .never import NEVER_STATE, NEVER_STEP, arriving, claim, delivered
from .steps import Act, Notice
from .world import Taken

__all__ = ["NEVER_STATE", "NEVER_STEP"]


def loans_of(endpoint: ScriptedEndpoint, rref: RRefId) -> set[ForkId]:
    """The loans of *rref* for calls that run at *endpoint*."""
    serving = endpoint.context.state.serving.values()
    return {it.fork for each in serving for it in loans_among(each) if it.rref == rref}


def ended(taken: Taken) -> Iterator[tuple[User, User | None]]:
    """The entries that lose a loan in this step, before and after it."""
    if isinstance(taken.step, Act):
        for rref, user in taken.before.context.users.items():
            if loans_of(taken.before, rref) - loans_of(taken.after, rref):
                yield user, taken.after.context.users.get(rref)


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
        after is not None
        and loans_of(taken.after, after.rref)
        and not after.known
        and not after.requested
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
            return any(loans_of(taken.before, rref) - {fork} for rref, fork in loans)
        case _:
            return False


@claim(NEVER_STEP, "nobody waits for a notice of what he does not use")
def _(taken: Taken) -> bool:
    return any(
        isinstance(user, BorrowingUser)
        and user.reported
        and not (user.in_use or user.borrowers or user.requested)
        for user in taken.after.context.users.values()
    )


@claim(NEVER_STEP, "no notice is denied")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case NotifyRefRemoved(loans=loans):
            return any(rref not in taken.before.context.users for rref, _ in loans)
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
        fork.parent == taken.step.worker
        for rref in taken.before.context.users
        for fork in loans_of(taken.before, rref)
    )


@claim(NEVER_STEP, "nobody has a reply for a dead lender")
def _(taken: Taken) -> bool:
    return any(
        fork.parent in taken.before.context.dead
        for user, _ in ended(taken)
        for fork in loans_of(taken.before, user.rref) - loans_of(taken.after, user.rref)
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

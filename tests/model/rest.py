"""Properties of a world at rest: `eventually` everything is settled and freed."""

from __future__ import annotations

from collections.abc import Callable

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.lending import LendingOwner, LendingUser
from farref.protocol.user import User

from .always import rule
from .endpoint import ScriptedEndpoint

Living = dict[WorkerId, ScriptedEndpoint]
EVENTUALLY: dict[str, Callable[..., str | None]] = {}


@rule(EVENTUALLY, "every task ends")
def _(living: Living, *, deaths: bool) -> str | None:
    """Every script and every task ran to its end (a death may leave a script waiting)."""
    for endpoint in living.values():
        if endpoint.tasks:
            return f"{endpoint.me} still has {endpoint.tasks[0]}"
        if endpoint.script and not deaths:
            return f"{endpoint.me} still waits to do {endpoint.script[0]}"
    return None


@rule(EVENTUALLY, "every call settles (G6)")
def _(living: Living, *, deaths: bool) -> str | None:
    for endpoint in living.values():
        if endpoint.context.waiting:
            return f"{endpoint.me} waits for {endpoint.context.waiting}"
        if endpoint.context.state.looking:
            return f"{endpoint.me} asks its shell for {endpoint.context.state.looking}"
        if endpoint.context.state.searches:
            return f"{endpoint.me} still searches from {endpoint.context.state.searches}"
        if endpoint.context.state.creating:
            return f"{endpoint.me} still creates {endpoint.context.state.creating}"
    return None


@rule(EVENTUALLY, "the users' tables are exact")
def _(living: Living, *, deaths: bool) -> str | None:
    """A holder of handles has one confirmed entry and nothing outstanding; others have no entry."""
    for endpoint in living.values():
        held = endpoint.holds()
        for user in endpoint.context.users.values():
            if _awaits_notice(user, living):
                continue
            if user.rref not in held:
                return f"{endpoint.me} keeps an entry of {user.rref}, which it does not hold"
            if user.children or user.owed or user.pending or user.requested:
                return f"{endpoint.me} has something outstanding for {user.rref}"
            if user.lost != (user.owner not in living):
                return f"{endpoint.me} is wrong about the owner of {user.rref}"
            if not user.lost and not user.known:
                return f"{endpoint.me} was never confirmed as a user of {user.rref}"
    return None


def _awaits_notice(user: User, living: Living) -> bool:
    """A counted endpoint has *user* in its table: the owner learns of *user* from that endpoint."""
    if not isinstance(user, BorrowingUser) or user.known:
        return False
    others = [each.context.users.get(user.rref) for each in living.values()]
    return any(
        isinstance(other, BorrowingUser) and other.borrowers.keys() & user.reported
        for other in others
    )


@rule(EVENTUALLY, "no loan is outstanding")
def _(living: Living, *, deaths: bool) -> str | None:
    for endpoint in living.values():
        context = endpoint.context
        state = context.state
        for number, table in enumerate((state.serving, state.making, state.asked)):
            if table:
                return f"{endpoint.me} keeps {table} in table {number}"
        if any(who not in living for who in state.seen):
            return f"{endpoint.me} keeps what it has seen of the dead"
        for owner in context.owners.values():
            if isinstance(owner, LendingOwner) and owner.lent:
                return f"{endpoint.me} still lends {owner.lent} of {owner.rref}"
        for user in context.users.values():
            if isinstance(user, LendingUser) and (user.lent or user.loans):
                return f"{endpoint.me} still lends {user.lent} and borrows {user.loans}"
            if isinstance(user, BorrowingUser):
                if user.guardian or user.announcing:
                    return f"{endpoint.me} still borrows {user.guardian}"
                if any(who not in living for who in user.borrowers.values()):
                    return f"{endpoint.me} believes that the dead borrow {user.rref}"
                if user.borrowers and not user.known:
                    return f"{endpoint.me} is not counted, and has a table of {user.rref}"
    return None


@rule(EVENTUALLY, "note 4: the owner's borrowers list empties")
def _(living: Living, *, deaths: bool) -> str | None:
    """An owner counts all users that exist, and no others."""
    for endpoint in living.values():
        for owner in endpoint.context.owners.values():
            users = [other.context.users.get(owner.rref) for other in living.values()]
            known = {fork for user in users if user is not None for fork in user.known}
            if set(owner.forks) != known:
                return f"{owner.rref} counts {sorted(owner.forks)}, the users {sorted(known)}"
            if owner.queue or owner.running or owner.pending or not owner.located:
                return f"{owner.rref} has something outstanding"
    return None


@rule(EVENTUALLY, "freed when nobody holds (G5)")
def _(living: Living, *, deaths: bool) -> str | None:
    """G5: an object without holders is freed; G4: an object with a holder exists."""
    held: set[RRefId] = set()
    for endpoint in living.values():
        held |= endpoint.holds().keys()
    for endpoint in living.values():
        for rref in endpoint.context.owners:
            if rref not in held:
                return f"nobody holds {rref}, and it was not freed"
        if endpoint.inside.keys() - endpoint.context.owners.keys():
            return f"{endpoint.me} keeps values of objects that are gone"
    return None


@rule(EVENTUALLY, "aliases are settled")
def _(living: Living, *, deaths: bool) -> str | None:
    """Every alias knows its canonical object; nothing is held back, asked or on its way."""
    for endpoint in living.values():
        context, state = endpoint.context, endpoint.context.state
        for number, table in enumerate((state.asking, state.held, state.fetching, state.passed_on)):
            if table:
                return f"{endpoint.me} keeps {table} in table {number} of aliases"
        owners = {owner.rref for owner in context.owners.values() if owner.alias}
        if owners != state.aliases.keys():
            return f"{endpoint.me} owns the aliases {owners}, and remembers {state.aliases}"
        for alias in state.aliases.values():
            if alias.canonical is None or alias.asked or alias.early:
                return f"{endpoint.me} does not know what {alias.rref} stands for"
    return None


@rule(EVENTUALLY, "the reverse map is exact")
def _(living: Living, *, deaths: bool) -> str | None:
    """Each object knows the aliases that stand for it, and no others."""
    stand: dict[RRefId, dict[RRefId, WorkerId]] = {}
    for endpoint in living.values():
        for alias in endpoint.context.state.aliases.values():
            if alias.canonical is not None:
                stand.setdefault(alias.canonical, {})[alias.rref] = endpoint.me
    for endpoint in living.values():
        for owner in endpoint.context.owners.values():
            if owner.aliases != stand.get(owner.rref, {}) or owner.asking:
                return f"{owner.rref} knows the aliases {owner.aliases}, not {stand}"
    return None

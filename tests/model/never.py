"""Negative properties: claims that are false, and that the explorer must prove false.

A property that always holds proves little if the exploration never reaches a state that could break
it. Each claim below would hold in a simple world; the protocol exists because the real world is not
so simple. The suite fails if a claim is never violated. Beside each claim is what violates it: in
`NEVER_STEP` a step of one endpoint, in `NEVER_STATE` a state of the world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.effects import Resume
from farref.protocol.ids import ForkId, RRefId
from farref.protocol.lending import LendingOwner, LendingUser
from farref.protocol.loans import loans_among
from farref.protocol.messages import (
    Ack,
    Call,
    Cancel,
    CancelRefused,
    ChildAck,
    Create,
    Cut,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Holders,
    Invoke,
    Message,
    NotifyRefRemoved,
    Passing,
    Probe,
    Reply,
    Returned,
)
from farref.protocol.owner import Owner
from farref.protocol.user import User

from . import script as do
from .always import View, deletes_in
from .endpoint import ScriptedEndpoint
from .steps import Act, Arrival, Bury, Notice
from .task import Stage
from .world import Taken

# ---- creations and forks


def _uncreated(taken: Taken, rref: RRefId | None) -> bool:
    return rref is not None and (rref not in taken.owners or not taken.owners[rref].created)


def _overtakes_creation(kind: type[Message], taken: Taken) -> bool:
    message = taken.message
    about = message.target if isinstance(message, Create) else getattr(message, "rref", None)
    return isinstance(message, kind) and _uncreated(taken, about)


def _arriving(taken: Taken) -> tuple[Descriptor, ...]:
    """The references in the delivered message."""
    cargo = getattr(taken.message, "cargo", None)
    return () if cargo is None else tuple(cargo.descriptors)


def _again(taken: Taken) -> Iterator[tuple[bool, bool]]:
    """For each delivered reference to an object that the receiver uses already.

    They tell whether the receiver knows that it is counted, and whether the owner sent it.
    """
    for each in _arriving(taken):
        if user := taken.users.get(each.rref):
            yield bool(user.known), each.parent == user.owner


def _sharing(taken: Taken) -> Iterator[User]:
    """The users that share their object in this step."""
    for rref, user in taken.after.context.users.items():
        if rref in taken.users and user.children.keys() - taken.users[rref].children.keys():
            yield user


def _freed(taken: Taken) -> set[RRefId]:
    return taken.after.freed - taken.before.freed


def _dropped(taken: Taken) -> Iterator[User]:
    """The users that lose their last handle."""
    after = taken.after.context.users
    for rref, user in taken.users.items():
        if user.handles and (rref not in after or not after[rref].handles):
            yield user


FORKS: dict[str, Callable[[Taken], bool]] = {
    **{
        f"no {what} overtakes the creation of its object": partial(_overtakes_creation, kind)
        for what, kind in (
            ("fork request", ForkRequest),
            ("delete", Delete),
            ("fetch", Fetch),
            ("method call", Invoke),
            ("creation by a method", Create),
        )
    },
    "no reference comes home before its creation": lambda taken: any(
        each.owner == taken.before.me and _uncreated(taken, each.rref) for each in _arriving(taken)
    ),
    "every object is still used when its value comes": lambda taken: any(
        rref in taken.owners and not taken.owners[rref].resolved for rref in _freed(taken)
    ),
    "no second fork arrives from a user while unconfirmed": lambda taken: (
        (False, False) in _again(taken)
    ),
    "no second fork arrives from the owner while unconfirmed": lambda taken: (
        (False, True) in _again(taken)
    ),
    "no second fork arrives from a user while confirmed": lambda taken: (
        (True, False) in _again(taken)
    ),
    "no second fork arrives from the owner while confirmed": lambda taken: (
        (True, True) in _again(taken)
    ),
    "the acknowledgement always comes before another confirmation": lambda taken: (
        isinstance(taken.message, Ack)
        and taken.message.rref in taken.users
        and bool(taken.users[taken.message.rref].known)
    ),
    "nobody shares what is still being created": lambda taken: any(
        user.requested is not None and user.requested.parent == taken.before.me
        for user in _sharing(taken)
    ),
    "nobody shares a reference before it is confirmed": lambda taken: any(
        user.owed for user in _sharing(taken)
    ),
    "the owner never shares with itself": lambda taken: any(
        each.parent == each.owner == taken.before.me for each in _arriving(taken)
    ),
    "a user never shares with itself": lambda taken: any(
        each.parent == taken.before.me != each.owner for each in _arriving(taken)
    ),
    "every fork that is pickled leaves": lambda taken: (
        isinstance(taken.step, Act) and taken.before.script[:1] == (do.Abandon(),)
    ),
    "every message can be unpickled": lambda taken: (
        isinstance(taken.step, Act)
        and taken.step.task is not None
        and taken.step.task.stage is Stage.BEGUN
        and not taken.step.task.code.readable
    ),
    "no last handle goes while unconfirmed": lambda taken: any(
        not user.known for user in _dropped(taken)
    ),
    "no last handle goes while the acknowledgement is outstanding": lambda taken: any(
        user.known and user.requested for user in _dropped(taken)
    ),
    "no last handle goes while a child is unconfirmed": lambda taken: any(
        user.children for user in _dropped(taken)
    ),
    "no last handle goes while a request is unanswered": lambda taken: any(
        user.pending for user in _dropped(taken)
    ),
    "no delete names more than one fork": lambda taken: any(
        len(each.forks) > 1 for it in taken.sent for each in deletes_in(it.message)
    ),
    "no value holds another object": lambda taken: (
        len(_freed(taken)) > 1 or any(taken.before.inside.get(rref) for rref in _freed(taken))
    ),
}

# ---- requests


def _owners(taken: Taken) -> list[Owner]:
    """The endpoint's own objects after the step."""
    return list(taken.after.context.owners.values())


def _queued(endpoint: ScriptedEndpoint, call: object) -> bool:
    return any(call in owner.queue for owner in endpoint.context.owners.values())


REQUESTS: dict[str, Callable[[Taken], bool]] = {
    "no request waits for another": lambda taken: any(
        owner.running and owner.queue for owner in _owners(taken)
    ),
    "no request begins while another awaits": lambda taken: any(
        owner.running and owner.aside for owner in _owners(taken)
    ),
    "no request has to wait before it goes on": lambda taken: any(
        task.stage is Stage.IN_LINE for task in taken.after.tasks
    ),
    "no request that can go on lines up behind a new one": lambda taken: any(
        isinstance(later, Resume) and not isinstance(earlier, Resume)
        for owner in _owners(taken)
        for (_, earlier), (_, later) in pairwise(owner.queue.values())
    ),
    "no request awaits on an object that nobody else holds": lambda taken: any(
        owner.aside and not (owner.handles or owner.forks or owner.messages or owner.pending)
        for owner in _owners(taken)
    ),
    "no two requests run beside each other": lambda taken: any(
        len(owner.aside) > 1 and not owner.serial for owner in _owners(taken)
    ),
    "no cancel overtakes its call": lambda taken: (
        isinstance(taken.message, Cancel)
        and taken.message.call not in taken.before.handed
        and not _queued(taken.before, taken.message.call)
    ),
    "no call comes cancelled": lambda taken: (
        isinstance(taken.message, Invoke | Fetch) and taken.message.cancelled
    ),
    "no cancel comes in time": lambda taken: (
        isinstance(taken.message, Cancel)
        and taken.message.rref is not None
        and _queued(taken.before, taken.message.call)
        and not _queued(taken.after, taken.message.call)
    ),
    "no cancel stops a call that waits for a thread": lambda taken: (
        isinstance(taken.message, Cancel)
        and any(
            task.refused and isinstance(task.message, Call) and task.message.call == call
            for task in taken.after.tasks
            for call in (taken.message.call,)
        )
    ),
    "no cancel is refused": lambda taken: any(
        isinstance(envelope.message, CancelRefused) for envelope in taken.sent
    ),
    "no refusal of a cancel comes after the reply": lambda taken: (
        isinstance(taken.message, CancelRefused)
        and taken.message.call not in taken.before.context.waiting
    ),
    "no method that awaits is cancelled": lambda taken: any(
        task.cancelled and task.stage in {Stage.ASIDE, Stage.IN_LINE} for task in taken.after.tasks
    ),
    "no cancelled task cancels what it waits for": lambda taken: (
        any(isinstance(envelope.message, Cancel) for envelope in taken.sent)
        and any(task.cancelled for task in taken.after.tasks)
    ),
    "no call waits for itself": lambda taken: (
        isinstance(taken.message, Invoke | Fetch)
        and bool(taken.message.chain)
        and any(task.refused for task in taken.after.tasks)
    ),
}

# ---- death

DEATH: dict[str, Callable[[Taken], bool]] = {
    "the dead do not speak": lambda taken: (
        isinstance(taken.step, Arrival) and taken.step.sender in taken.before.context.dead
    ),
    "the dead held nothing": lambda taken: (
        isinstance(taken.step, Bury)
        and any(
            rref not in taken.after.context.owners
            or owner.forks != taken.after.context.owners[rref].forks
            for rref, owner in taken.owners.items()
        )
    ),
    "nobody is pinned for the dead": lambda taken: (
        isinstance(taken.step, Bury)
        and any(
            rref not in taken.after.context.users
            or user.children != taken.after.context.users[rref].children
            for rref, user in taken.users.items()
        )
    ),
    "nobody dies before his creation arrives": lambda taken: (
        isinstance(taken.step, Bury)
        and any(
            not owner.created and owner.rref.creator == taken.step.worker
            for owner in taken.owners.values()
        )
    ),
    "nobody waits for the dead": lambda taken: (
        isinstance(taken.step, Notice)
        and any(it.to == taken.step.worker for it in taken.before.context.waiting.values())
    ),
    "nobody is sent a reference whose owner he knows to be dead": lambda taken: any(
        each.owner in taken.before.context.dead for each in _arriving(taken)
    ),
    "nobody answers with a reference that is lost": lambda taken: any(
        each.owner in taken.before.context.dead
        for envelope in taken.sent
        if isinstance(envelope.message, Reply)
        for each in envelope.message.cargo.descriptors
    ),
    "an owner's death leaves no fork outstanding": lambda taken: (
        isinstance(taken.step, Notice)
        and any(
            user.owner == taken.step.worker and (user.children or user.owed)
            for user in taken.users.values()
        )
    ),
}

# ---- rings of waits, and garbage in rings


def _ended(taken: Taken) -> bool:
    """A search ends here, and nothing is cut."""
    before, after = taken.before.context.state.searches, taken.after.context.state.searches
    cut = any(isinstance(it.message, Cut) for it in taken.sent)
    collected = taken.after.collected - taken.before.collected
    return bool(before.keys() - after.keys()) and not cut and not collected


RINGS: dict[str, Callable[[Taken], bool]] = {
    "no ring is broken": lambda taken: bool(taken.after.victims - taken.before.victims),
    "no probe begins anew": lambda taken: (
        isinstance(taken.message, Probe)
        and any(
            isinstance(it.message, Probe) and it.message.start > taken.message.start
            for it in taken.sent
        )
    ),
    "no probe ends where nobody waits": lambda taken: (
        isinstance(taken.message, Probe) and not taken.sent
    ),
    "no second lap meets other waits": lambda taken: (
        isinstance(taken.message, Probe)
        and len(taken.message.path) == len(taken.message.before) > 0
        and taken.message.path != taken.message.before
    ),
    "each second lap begins in a ring that is there": lambda taken: (
        False in taken.before.laps.values()
    ),
    "no look finds anything alive": lambda taken: any(
        isinstance(it.message, Holders) and not it.message.grips for it in taken.sent
    ),
    "a closed set is garbage": lambda taken: (
        _ended(taken)
        and any(search.again for search in taken.before.context.state.searches.values())
    ),
    "no death ends a search": lambda taken: isinstance(taken.step, Notice) and _ended(taken),
    "no answer comes after the end of its search": lambda taken: (
        isinstance(taken.message, Holders)
        and not any(
            taken.message.look in search.asked
            for search in taken.before.context.state.searches.values()
        )
    ),
    "no two searches find one ring": lambda taken: (
        isinstance(taken.message, Cut) and taken.message.rref not in taken.before.inside
    ),
}

# ---- loans


def _loans_of(endpoint: ScriptedEndpoint, rref: RRefId) -> set[ForkId]:
    """The loans of *rref* for calls that run at *endpoint*."""
    serving = endpoint.context.state.serving.values()
    return {it.fork for each in serving for it in loans_among(each) if it.rref == rref}


def _returned(taken: Taken) -> Iterator[tuple[User, User | None, set[ForkId]]]:
    """The entries that lose loans in this step, before and after it, and these loans."""
    if isinstance(taken.step, Act):
        for rref, user in taken.users.items():
            if loans := _loans_of(taken.before, rref) - _loans_of(taken.after, rref):
                yield user, taken.after.context.users.get(rref), loans


def _notified(message: object) -> tuple[tuple[RRefId, ForkId], ...]:
    """The loans that a notice is about."""
    return message.loans if isinstance(message, NotifyRefRemoved) else ()


def _deletes(taken: Taken) -> tuple[Delete, ...]:
    return () if taken.message is None else deletes_in(taken.message)


LOANS: dict[str, Callable[[Taken], bool]] = {
    "no ChildAck overtakes the reply of its loan": lambda taken: (
        isinstance(taken.message, ChildAck)
        and isinstance(user := taken.users.get(taken.message.rref), LendingUser)
        and taken.message.fork in user.lent
    ),
    "no delete overtakes the reply of its loan": lambda taken: any(
        isinstance(owner := taken.owners.get(delete.rref), LendingOwner)
        and any(fork in owner.lent for fork in delete.forks)
        for delete in _deletes(taken)
    ),
    "no reply says that a loan is held": lambda taken: (
        isinstance(taken.message, Reply) and any(each.held for each in taken.message.loans)
    ),
    "no creation returns its loans": lambda taken: isinstance(taken.message, Returned),
    "nothing is given back": lambda taken: any(
        each.passing is Passing.BACK for each in _arriving(taken)
    ),
    "nobody lends before he is confirmed": lambda taken: any(
        each.passing is Passing.LOAN
        and each.owner != taken.before.me
        and not taken.after.context.users[each.rref].known
        for it in taken.sent
        if isinstance(it.message, Call | Invoke | Create)
        for each in it.message.cargo.descriptors
    ),
    "no loan comes home": lambda taken: any(
        each.passing is Passing.LOAN and each.owner == taken.before.me for each in _arriving(taken)
    ),
    "no loan is covered by another loan": lambda taken: any(
        after is not None
        and _loans_of(taken.after, after.rref)
        and not after.known
        and not after.requested
        for _, after, _ in _returned(taken)
    ),
    "no loan of the owner's is kept while another one is": lambda taken: any(
        isinstance(user, LendingUser)
        and after is not None
        and 0 < len(after.known) < len(user.known)
        for user, after, _ in _returned(taken)
    ),
    "no loan ends while its entry waits for an acknowledgement": lambda taken: any(
        user.requested and after is not None and not after.in_use
        for user, after, _ in _returned(taken)
    ),
    "no notice comes during a later loan": lambda taken: any(
        _loans_of(taken.before, rref) - {fork} for rref, fork in _notified(taken.message)
    ),
    "nobody waits for a notice of what he does not use": lambda taken: any(
        isinstance(user, BorrowingUser)
        and user.reported
        and not (user.in_use or user.borrowers or user.requested)
        for user in taken.after.context.users.values()
    ),
    "no notice is denied": lambda taken: any(
        rref not in taken.users for rref, _ in _notified(taken.message)
    ),
    "no reply hands a table over": lambda taken: (
        isinstance(taken.message, Reply) and any(each.borrowers for each in taken.message.loans)
    ),
    "no delete hands a table over": lambda taken: any(each.borrowers for each in _deletes(taken)),
    "no announcement is sent": lambda taken: any(
        isinstance(it.message, ForkRequest) and it.message.fork.parent == taken.before.me
        for it in taken.sent
    ),
    "no loan outlives its lender": lambda taken: (
        isinstance(taken.step, Notice)
        and any(
            fork.parent == taken.step.worker
            for rref in taken.users
            for fork in _loans_of(taken.before, rref)
        )
    ),
    "nobody has a reply for a dead lender": lambda taken: any(
        fork.parent in taken.before.context.dead for *_, loans in _returned(taken) for fork in loans
    ),
    "no table is taken back": lambda taken: (
        isinstance(taken.step, Notice) and bool(taken.step.unacknowledged)
    ),
    "no table of the dead is passed on": lambda taken: any(
        worker in taken.before.context.dead
        for each in (*_deletes(taken), *getattr(taken.message, "loans", ()))
        for _, worker in getattr(each, "borrowers", ())
    ),
    "no loan comes while an announcement is under way": lambda taken: any(
        each.passing is Passing.LOAN
        and isinstance(user := taken.users.get(each.rref), BorrowingUser)
        and bool(user.announcing)
        for each in _arriving(taken)
    ),
}

NEVER_STEP = FORKS | REQUESTS | DEATH | RINGS | LOANS

# ---- the world


def _deletes_early(view: View) -> bool:
    for envelope in view.flying:
        for delete in deletes_in(envelope.message):
            parents = (view.living.get(fork.parent) for fork in delete.forks)
            if any(facts is not None and delete.rref in facts.unconfirmed for facts in parents):
                return True
    return False


def _gets_what_it_deletes(view: View) -> bool:
    deletes = {(it.sender, each.rref) for it in view.flying for each in deletes_in(it.message)}
    return any((envelope.to, each.rref) in deletes for envelope, each in view.descriptors)


def _has_unknown_parent(view: View) -> bool:
    for facts in view.living.values():
        for rref, fork in facts.owed:
            parent = view.living.get(fork.parent)
            if parent is not None and parent.me != facts.me and rref in parent.unconfirmed:
                return True
    return False


NEVER_STATE: dict[str, Callable[[View], bool]] = {
    "the owner knows every fork": lambda view: any(it.unconfirmed for it in view.living.values()),
    "nobody deletes before the owner heard of its parent": _deletes_early,
    "nobody deletes what is on its way to him again": _gets_what_it_deletes,
    "every parent is known when its child is not": _has_unknown_parent,
    "nobody comes too late": lambda view: any(facts.late for facts in view.living.values()),
}

"""Negative properties: claims that are false, and that the explorer must prove false.

A property that always holds proves little if the exploration never reaches a state that could break
it. Each claim below would hold in a simple world; the protocol exists because the real world is not
so simple. The suite fails if a claim is never violated. `NEVER_STEP` are claims about steps of one
endpoint, `NEVER_STATE` claims about the world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

from farref.protocol.effects import Resume
from farref.protocol.messages import (
    Ack,
    Call,
    Cancel,
    Create,
    Cut,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Holders,
    Invoke,
    Message,
    Probe,
    Reply,
)
from farref.protocol.user import User

from . import script as do
from .always import View, deletes_in
from .endpoint import ScriptedEndpoint
from .steps import Act, Arrival, Bury, Notice
from .task import Stage, Task
from .world import Taken

Seen = TypeVar("Seen", Taken, View)
Happens = Callable[[Seen], bool]

NEVER_STEP: dict[str, Happens[Taken]] = {}
NEVER_STATE: dict[str, Happens[View]] = {}


def claim(table: dict[str, Happens[Seen]], claim: str) -> Callable[[Happens[Seen]], None]:
    def register(happens: Happens[Seen]) -> None:
        table[claim] = happens

    return register


def delivered(taken: Taken) -> Message | None:
    """The delivered message, if its sender is not known to be dead."""
    match taken.step:
        case Arrival(sender=sender, message=message) if sender not in taken.before.context.dead:
            return message
        case _:
            return None


def _uncreated(taken: Taken, kind: type[Message]) -> bool:
    """The delivered message is of *kind*, and its object is not created yet."""
    match delivered(taken):
        case Create(target=target) as message:
            rref = target
        case ForkRequest(rref=rref) | Delete(rref=rref) | Fetch(rref=rref) as message:
            pass
        case Invoke(rref=rref) as message:
            pass
        case _:
            return False
    owner = None if rref is None else taken.before.context.owners.get(rref)
    return isinstance(message, kind) and rref is not None and (owner is None or not owner.created)


def arriving(taken: Taken) -> tuple[Descriptor, ...]:
    """The references in the delivered message."""
    match delivered(taken):
        case None | ForkRequest() | Fetch():
            return ()
        case message:
            cargo = getattr(message, "cargo", None)
            return () if cargo is None else tuple(cargo.descriptors)


def _again(taken: Taken) -> Iterator[tuple[Descriptor, User]]:
    """The delivered references to objects that the receiver has an entry of already."""
    users = taken.before.context.users
    return ((each, users[each.rref]) for each in arriving(taken) if each.rref in users)


def _dropped(taken: Taken) -> Iterator[User]:
    """The users that lose their last handle."""
    after = taken.after.context.users
    for rref, user in taken.before.context.users.items():
        if user.handles and (rref not in after or not after[rref].handles):
            yield user


# ---- the creation is overtaken

for _kind, _what in (
    (ForkRequest, "fork request"),
    (Delete, "delete"),
    (Fetch, "fetch"),
    (Invoke, "method call"),
    (Create, "creation by a method"),
):

    def _overtakes(taken: Taken, kind: type[Message] = _kind) -> bool:
        return _uncreated(taken, kind)

    NEVER_STEP[f"no {_what} overtakes the creation of its object"] = _overtakes


@claim(NEVER_STEP, "no reference comes home before its creation")
def _(taken: Taken) -> bool:
    owners = taken.before.context.owners
    return any(
        each.owner == taken.before.me and (each.rref not in owners or not owners[each.rref].created)
        for each in arriving(taken)
    )


@claim(NEVER_STEP, "every object is still used when its value comes")
def _(taken: Taken) -> bool:
    return any(
        rref in taken.before.context.owners and not taken.before.context.owners[rref].resolved
        for rref in taken.after.freed - taken.before.freed
    )


# ---- forks


@claim(NEVER_STEP, "no second fork arrives from a user while unconfirmed")
def _(taken: Taken) -> bool:
    return any(not user.known and each.parent != user.owner for each, user in _again(taken))


@claim(NEVER_STEP, "no second fork arrives from the owner while unconfirmed")
def _(taken: Taken) -> bool:
    return any(not user.known and each.parent == user.owner for each, user in _again(taken))


@claim(NEVER_STEP, "no second fork arrives from a user while confirmed")
def _(taken: Taken) -> bool:
    return any(user.known and each.parent != user.owner for each, user in _again(taken))


@claim(NEVER_STEP, "no second fork arrives from the owner while confirmed")
def _(taken: Taken) -> bool:
    return any(user.known and each.parent == user.owner for each, user in _again(taken))


@claim(NEVER_STEP, "the acknowledgement always comes before another confirmation")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case Ack(rref=rref):
            user = taken.before.context.users.get(rref)
            return user is not None and bool(user.known)
        case _:
            return False


@claim(NEVER_STEP, "nobody shares what is still being created")
def _(taken: Taken) -> bool:
    return any(
        user.requested is not None
        and user.requested.parent == taken.before.me
        and user.children.keys() - taken.before.context.users[rref].children.keys()
        for rref, user in taken.after.context.users.items()
        if rref in taken.before.context.users
    )


@claim(NEVER_STEP, "nobody shares a reference before it is confirmed")
def _(taken: Taken) -> bool:
    return any(
        user.owed and user.children.keys() - taken.before.context.users[rref].children.keys()
        for rref, user in taken.after.context.users.items()
        if rref in taken.before.context.users
    )


@claim(NEVER_STEP, "the owner never shares with itself")
def _(taken: Taken) -> bool:
    return any(each.parent == each.owner == taken.before.me for each in arriving(taken))


@claim(NEVER_STEP, "a user never shares with itself")
def _(taken: Taken) -> bool:
    return any(each.parent == taken.before.me != each.owner for each in arriving(taken))


@claim(NEVER_STEP, "every fork that is pickled leaves")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Act) and any(
        isinstance(action, do.Abandon) for action in taken.before.script[:1]
    )


@claim(NEVER_STEP, "every message can be unpickled")
def _(taken: Taken) -> bool:
    match taken.step:
        case Act(task=Task(stage=Stage.BEGUN) as task):
            return not task.code.readable
        case _:
            return False


# ---- the end of a reference


@claim(NEVER_STEP, "no last handle goes while unconfirmed")
def _(taken: Taken) -> bool:
    return any(not user.known for user in _dropped(taken))


@claim(NEVER_STEP, "no last handle goes while the acknowledgement is outstanding")
def _(taken: Taken) -> bool:
    return any(user.known and user.requested for user in _dropped(taken))


@claim(NEVER_STEP, "no last handle goes while a child is unconfirmed")
def _(taken: Taken) -> bool:
    return any(user.children for user in _dropped(taken))


@claim(NEVER_STEP, "no last handle goes while a request is unanswered")
def _(taken: Taken) -> bool:
    return any(user.pending for user in _dropped(taken))


@claim(NEVER_STEP, "no delete names more than one fork")
def _(taken: Taken) -> bool:
    return any(len(each.forks) > 1 for it in taken.sent for each in deletes_in(it.message))


@claim(NEVER_STEP, "no value holds another object")
def _(taken: Taken) -> bool:
    return len(taken.after.freed - taken.before.freed) > 1 or any(
        taken.before.inside.get(rref) for rref in taken.after.freed - taken.before.freed
    )


# ---- requests


@claim(NEVER_STEP, "no request waits for another")
def _(taken: Taken) -> bool:
    return any(owner.running and owner.queue for owner in taken.after.context.owners.values())


@claim(NEVER_STEP, "no request begins while another awaits")
def _(taken: Taken) -> bool:
    return any(owner.running and owner.aside for owner in taken.after.context.owners.values())


@claim(NEVER_STEP, "no request has to wait before it goes on")
def _(taken: Taken) -> bool:
    stages = [task.stage for task in taken.after.tasks]
    return Stage.IN_LINE in stages


@claim(NEVER_STEP, "no request that can go on lines up behind a new one")
def _(taken: Taken) -> bool:
    owners = taken.after.context.owners.values()
    lines = [[request for _, request in owner.queue.values()] for owner in owners]
    return any(
        isinstance(later, Resume) and not isinstance(earlier, Resume)
        for line in lines
        for earlier, later in pairwise(line)
    )


@claim(NEVER_STEP, "no request awaits on an object that nobody else holds")
def _(taken: Taken) -> bool:
    return any(
        owner.aside and not (owner.handles or owner.forks or owner.messages or owner.pending)
        for owner in taken.after.context.owners.values()
    )


@claim(NEVER_STEP, "no two requests run beside each other")
def _(taken: Taken) -> bool:
    return any(
        len(owner.aside) > 1 and not owner.serial for owner in taken.after.context.owners.values()
    )


@claim(NEVER_STEP, "no cancel overtakes its call")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case Cancel(call=call):
            return call not in taken.before.handed and not _queued(taken.before, call)
        case _:
            return False


@claim(NEVER_STEP, "no call comes cancelled")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    return isinstance(message, Invoke | Fetch) and message.cancelled


@claim(NEVER_STEP, "no cancel comes in time")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case Cancel(call=call, rref=rref) if rref is not None:
            return _queued(taken.before, call) and not _queued(taken.after, call)
        case _:
            return False


@claim(NEVER_STEP, "no cancel stops a call that waits for a thread")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case Cancel(call=call):
            return any(
                task.refused and isinstance(task.message, Call) and task.message.call == call
                for task in taken.after.tasks
            )
        case _:
            return False


def _queued(endpoint: ScriptedEndpoint, call: object) -> bool:
    return any(call in owner.queue for owner in endpoint.context.owners.values())


@claim(NEVER_STEP, "no call waits for itself")
def _(taken: Taken) -> bool:
    match delivered(taken):
        case (Invoke() | Fetch()) as request if request.chain:
            return any(task.refused for task in taken.after.tasks)
        case _:
            return False


# ---- death


@claim(NEVER_STEP, "the dead do not speak")
def _(taken: Taken) -> bool:
    match taken.step:
        case Arrival(sender=sender):
            return sender in taken.before.context.dead
        case _:
            return False


@claim(NEVER_STEP, "the dead held nothing")
def _(taken: Taken) -> bool:
    before, after = taken.before.context.owners, taken.after.context.owners
    return isinstance(taken.step, Bury) and any(
        rref not in after or owner.forks != after[rref].forks for rref, owner in before.items()
    )


@claim(NEVER_STEP, "nobody is pinned for the dead")
def _(taken: Taken) -> bool:
    before, after = taken.before.context.users, taken.after.context.users
    return isinstance(taken.step, Bury) and any(
        rref not in after or user.children != after[rref].children for rref, user in before.items()
    )


@claim(NEVER_STEP, "nobody dies before his creation arrives")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Bury) and any(
        not owner.created and owner.rref.creator == taken.step.worker
        for owner in taken.before.context.owners.values()
    )


@claim(NEVER_STEP, "nobody waits for the dead")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Notice) and any(
        waiting.to == taken.step.worker for waiting in taken.before.context.waiting.values()
    )


@claim(NEVER_STEP, "nobody is sent a reference whose owner he knows to be dead")
def _(taken: Taken) -> bool:
    return any(each.owner in taken.before.context.dead for each in arriving(taken))


@claim(NEVER_STEP, "nobody answers with a reference that is lost")
def _(taken: Taken) -> bool:
    return any(
        each.owner in taken.before.context.dead
        for envelope in taken.sent
        if isinstance(envelope.message, Reply)
        for each in envelope.message.cargo.descriptors
    )


@claim(NEVER_STEP, "an owner's death leaves no fork outstanding")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Notice) and any(
        user.owner == taken.step.worker and (user.children or user.owed)
        for user in taken.before.context.users.values()
    )


# ---- the world


@claim(NEVER_STATE, "the owner knows every fork")
def _(view: View) -> bool:
    return any(facts.unconfirmed for facts in view.living.values())


@claim(NEVER_STATE, "nobody deletes before the owner heard of its parent")
def _(view: View) -> bool:
    for envelope in view.flying:
        for delete in deletes_in(envelope.message):
            parents = (view.living.get(fork.parent) for fork in delete.forks)
            if any(facts is not None and delete.rref in facts.unconfirmed for facts in parents):
                return True
    return False


@claim(NEVER_STATE, "nobody deletes what is on its way to him again")
def _(view: View) -> bool:
    deletes = {
        (envelope.sender, delete.rref)
        for envelope in view.flying
        for delete in deletes_in(envelope.message)
    }
    return bool(deletes) and any(
        (envelope.to, each.rref) in deletes for envelope, each in view.descriptors
    )


@claim(NEVER_STATE, "every parent is known when its child is not")
def _(view: View) -> bool:
    for facts in view.living.values():
        for rref, fork in facts.owed:
            parent = view.living.get(fork.parent)
            if parent is not None and parent.me != facts.me and rref in parent.unconfirmed:
                return True
    return False


# ---- rings


@claim(NEVER_STEP, "no ring is broken")
def _(taken: Taken) -> bool:
    return bool(taken.after.victims - taken.before.victims)


@claim(NEVER_STEP, "no probe begins anew")
def _(taken: Taken) -> bool:
    came = delivered(taken)
    return isinstance(came, Probe) and any(
        isinstance(it.message, Probe) and it.message.start > came.start for it in taken.sent
    )


@claim(NEVER_STEP, "no probe ends where nobody waits")
def _(taken: Taken) -> bool:
    return isinstance(delivered(taken), Probe) and not taken.sent


@claim(NEVER_STEP, "no second lap meets other waits")
def _(taken: Taken) -> bool:
    came = delivered(taken)
    return (
        isinstance(came, Probe)
        and bool(came.before)
        and len(came.path) == len(came.before)
        and came.path != came.before
    )


@claim(NEVER_STEP, "each second lap begins in a ring that is there")
def _(taken: Taken) -> bool:
    return False in taken.before.laps.values()


# ---- garbage in cycles


def _ended(taken: Taken) -> bool:
    """A search ends here, and nothing is cut."""
    before, after = taken.before.context.state.searches, taken.after.context.state.searches
    cut = any(isinstance(it.message, Cut) for it in taken.sent)
    collected = taken.after.collected - taken.before.collected
    return bool(before.keys() - after.keys()) and not cut and not collected


@claim(NEVER_STEP, "no look finds anything alive")
def _(taken: Taken) -> bool:
    return any(isinstance(it.message, Holders) and not it.message.grips for it in taken.sent)


@claim(NEVER_STEP, "a closed set is garbage")
def _(taken: Taken) -> bool:
    searches = taken.before.context.state.searches.values()
    return _ended(taken) and any(search.again for search in searches)


@claim(NEVER_STEP, "no death ends a search")
def _(taken: Taken) -> bool:
    return isinstance(taken.step, Notice) and _ended(taken)


@claim(NEVER_STEP, "no answer comes after the end of its search")
def _(taken: Taken) -> bool:
    state = taken.before.context.state
    looks = {look for search in state.searches.values() for look in search.asked}
    message = delivered(taken)
    return isinstance(message, Holders) and message.look not in looks


@claim(NEVER_STEP, "no two searches find one ring")
def _(taken: Taken) -> bool:
    message = delivered(taken)
    return isinstance(message, Cut) and message.rref not in taken.before.inside

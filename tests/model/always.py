"""What holds in every state: of one endpoint, of one step, and of the whole world.

Each property is a function that returns what is wrong, or None. `ALWAYS_HERE` judges an
endpoint, `ALWAYS_STEP` a step of one, `ALWAYS` a state of the world; the name under which
each is listed is what reports and mutants quote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Reply,
    Tell,
)

from .endpoint import Endpoint
from .facts import Facts
from .world import Envelope, Taken


@dataclass(frozen=True, slots=True)
class View:
    """A state of the world, as the properties see it."""

    living: dict[WorkerId, Facts]
    flying: list[Envelope]

    def descriptors(self) -> Iterator[tuple[Envelope, Descriptor]]:
        """The references on their way to somebody who will accept them."""
        for envelope in self.flying:
            receiver = self.living.get(envelope.to)
            if receiver is not None and envelope.sender not in receiver.dead:
                cargo = getattr(envelope.message, "cargo", None)
                if cargo is not None:
                    for descriptor in cargo.descriptors:
                        yield envelope, descriptor


# ---- one endpoint


def counts_are_right(endpoint: Endpoint) -> str | None:
    """The machines' counts of handles are those of the shell's own books."""
    context = endpoint.context
    handles = {owner.rref: owner.handles for owner in context.owners.values()}
    handles |= {user.rref: user.handles for user in context.users.values()}
    counted = {rref: number for rref, number in handles.items() if number}
    held = dict(endpoint.holds())
    return None if counted == held else f"the machines count {counted}, the books {held}"


def one_request_runs(endpoint: Endpoint) -> str | None:
    """At most one request runs per object, and the object knows."""
    running = Counter(task.occupies for task in endpoint.tasks if task.occupies is not None)
    for rref, number in running.items():
        if number > 1:
            return f"{number} requests run on {rref}"
        if rref not in endpoint.context.owners or not endpoint.context.owners[rref].resolved:
            return f"a request runs on {rref}, which has no value"
    return None


def one_role(endpoint: Endpoint) -> str | None:
    """An endpoint is the owner of an object or a user of it."""
    both = endpoint.context.owners.keys() & endpoint.context.users.keys()
    return f"{endpoint.me} owns and uses {both}" if both else None


def nothing_idle_is_kept(endpoint: Endpoint) -> str | None:
    """An entry that nothing uses is gone."""
    context = endpoint.context
    idle = [owner.rref for owner in context.owners.values() if owner.unused]
    idle += [user.rref for user in context.users.values() if user.unused]
    return f"{endpoint.me} keeps an idle entry of {idle[0]}" if idle else None


ALWAYS_HERE: dict[str, Callable[[Endpoint], str | None]] = {
    "counts are right": counts_are_right,
    "one request runs per object": one_request_runs,
    "owner or user": one_role,
    "nothing idle is kept": nothing_idle_is_kept,
}

# ---- one step


def confirmed_asks_nothing(taken: Taken) -> str | None:
    """A further fork of what is held confirmed, or requested, costs no fork request."""
    for _, _, message in taken.sent:
        if isinstance(message, ForkRequest):
            user = taken.before.context.users.get(message.rref)
            if user is not None and (user.known or user.requested):
                return f"{taken.before.me} asked for fork {message.fork} without need"
    return None


def delete_is_earned(taken: Taken) -> str | None:
    """G2: a delete leaves only a confirmed user without pinned children, and names forks."""
    for _, _, message in taken.sent:
        if isinstance(message, Delete):
            if not message.forks:
                return f"{taken.before.me} deleted no fork of {message.rref}"
            if message.rref in taken.after.context.users:
                return f"{taken.before.me} deleted {message.rref} and kept it"
    return None


def the_dead_are_left_alone(taken: Taken) -> str | None:
    """Nothing is sent to those who are known to be dead."""
    for _, to, message in taken.sent:
        if to in taken.after.context.dead:
            return f"{taken.before.me} sent {message} to {to}, which is dead"
    return None


ALWAYS_STEP: dict[str, Callable[[Taken], str | None]] = {
    "no needless fork request": confirmed_asks_nothing,
    "deletes are earned": delete_is_earned,
    "nothing is sent to the known dead": the_dead_are_left_alone,
}

# ---- the world


def not_freed_while_held(view: View) -> str | None:
    """G4: no object is freed while anybody holds it, is sent it, or asked something of it."""
    freed = {rref for facts in view.living.values() for rref in facts.freed}
    if not freed:
        return None
    for facts in view.living.values():
        held = freed & facts.held
        if held:
            return f"{held.pop()} is freed, and {facts.me} holds it"
    for envelope, descriptor in view.descriptors():
        if descriptor.rref in freed:
            return f"{descriptor.rref} is freed, and on its way to {envelope.to}"
    for sender, to, message in view.flying:
        match message:
            case Invoke(rref=rref) | Fetch(rref=rref) | Create(target=RRefId() as rref):
                if rref in freed and sender not in view.living[to].dead:
                    return f"{rref} is freed, and a request for it on its way"
            case _:
                pass
    return None


def children_are_pinned(view: View) -> str | None:
    """G2: the parent of every unconfirmed child is pinned, as long as both live."""
    for _, descriptor in view.descriptors():
        flaw = _unpinned(view, descriptor.rref, descriptor.fork, descriptor.owner)
        if flaw:
            return flaw
    for facts in view.living.values():
        for rref, fork in facts.owed:
            flaw = _unpinned(view, rref, fork, facts.homes[rref])
            if flaw:
                return flaw
    return None


def _unpinned(view: View, rref: RRefId, fork: ForkId, home: WorkerId) -> str | None:
    parent = view.living.get(fork.parent)
    if parent is None or home not in view.living or home in parent.dead or fork in parent.pins:
        return None
    return f"fork {fork} of {rref} is unconfirmed, and {parent.me} does not pin it"


def an_ancestor_is_known(view: View) -> str | None:
    """G2: above every unconfirmed child there is one whom the owner counts, or the creation."""
    for facts in view.living.values():
        for rref in facts.unconfirmed:
            flaw = _unknown(view, rref, facts)
            if flaw:
                return flaw
    return None


def _unknown(view: View, rref: RRefId, facts: Facts) -> str | None:
    home, child, passed = facts.homes[rref], facts, {facts.me}
    while True:
        fork = child.unconfirmed.get(rref)
        if fork is None or fork.parent in {child.me, home}:
            return None  # confirmed, asked for by itself, or shared by the owner
        parent = view.living.get(fork.parent)
        if parent is None or home not in view.living or home in parent.dead:
            return None
        if fork in view.living[home].counted:
            return None
        if parent.me in passed:
            return f"the fork graph of {rref} has a cycle through {parent.me}"
        if rref not in parent.homes:
            return f"{facts.me} is unconfirmed, and above it {parent.me} has let go of {rref}"
        passed.add(parent.me)
        child = parent


def confirmed_means_counted(view: View) -> str | None:
    """Whoever was told that it is counted is counted."""
    for facts in view.living.values():
        for fork, rref in facts.confirmed.items():
            owner = view.living.get(facts.homes[rref])
            if owner is not None and fork not in owner.counted:
                return f"{facts.me} believes that fork {fork} is counted"
    return None


def forks_form_a_tree(view: View) -> str | None:
    """A fork has one child: it is at one endpoint, or on its way to one."""
    places = Counter(fork for facts in view.living.values() for fork in facts.children)
    places.update(descriptor.fork for _, descriptor in view.descriptors())
    twice = [fork for fork, number in places.items() if number > 1]
    return f"fork {twice[0]} is in two places" if twice else None


def sent_once(view: View) -> str | None:
    """No reply and no one-way message is in flight twice."""
    twice = Counter(it for it in view.flying if isinstance(it.message, Tell | Reply))
    return next((f"{it.message} is sent twice" for it, n in twice.items() if n > 1), None)


ALWAYS: dict[str, Callable[[View], str | None]] = {
    "no free while held or in flight (G4)": not_freed_while_held,
    "unconfirmed children are pinned (G2)": children_are_pinned,
    "an ancestor is known (G2)": an_ancestor_is_known,
    "confirmed means counted": confirmed_means_counted,
    "the fork graph is a tree": forks_form_a_tree,
    "everything is sent once": sent_once,
}

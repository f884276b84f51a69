"""Properties that hold in every state: of one endpoint, of one step, and of the whole world.

Each property is a function that returns a description of the fault, or None. `ALWAYS_HERE` judges
an endpoint, `ALWAYS_STEP` a step of an endpoint, `ALWAYS` a state of the world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.effects import Loss, Resume
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.lending import LendingUser
from farref.protocol.messages import (
    Call,
    Cancel,
    CancelRefused,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    NotifyRefRemoved,
    Passing,
    RefRemoved,
    Reply,
    Returned,
    Tell,
)
from farref.protocol.messages import Report as MessageReport
from farref.protocol.owner import Owner
from farref.protocol.user import User

from .endpoint import ScriptedEndpoint
from .facts import Facts
from .reach import reached, references_in, requested
from .steps import Act, Arrival, Notice
from .task import Stage
from .world import InFlight, Taken

Property = TypeVar("Property", bound=Callable[..., str | None])


def rule(table: dict[str, Property], name: str) -> Callable[[Property], None]:
    """List the decorated property in *table* as *name*."""

    def listed(wrong: Property) -> None:
        table[name] = wrong

    return listed


@dataclass(frozen=True)
class View:
    """A state of the world, prepared for the properties."""

    living: dict[WorkerId, Facts]
    flying: list[InFlight]
    deaths: bool = False

    @cached_property
    def descriptors(self) -> list[tuple[InFlight, Descriptor]]:
        """The references on their way to an endpoint that will accept them."""
        return [
            (envelope, descriptor)
            for envelope in self.flying
            if (receiver := self.living.get(envelope.to)) is not None
            and envelope.sender not in receiver.dead
            for descriptor in references_in(envelope.message)
        ]


def deletes_in(message: Message) -> tuple[Delete, ...]:
    """The deletes in *message*; maybe it is one itself."""
    match message:
        case Delete():
            return (message,)
        case RefRemoved(removed=removed):
            return removed
        case _:
            return ()


# ---- one endpoint

ALWAYS_HERE: dict[str, Callable[[ScriptedEndpoint], str | None]] = {}


@rule(ALWAYS_HERE, "counts are right")
def _(endpoint: ScriptedEndpoint) -> str | None:
    """The machines' counts of handles and messages agree with the shell's own books."""
    entries: list[Owner | User] = [
        *endpoint.context.owners.values(),
        *endpoint.context.users.values(),
    ]
    for what, held in (("handles", endpoint.handles()), ("messages", endpoint.messages())):
        counted = Counter({each.rref: getattr(each, what) for each in entries})
        if +counted != held:
            return f"the machines count the {what} {dict(+counted)}, the books {dict(held)}"
    return None


@rule(ALWAYS_HERE, "one request runs per object")
def _(endpoint: ScriptedEndpoint) -> str | None:
    running = Counter(task.occupies for task in endpoint.tasks if task.occupies is not None)
    for rref, number in running.items():
        owner = endpoint.context.owners.get(rref)
        if owner is None or not owner.resolved:
            return f"a request runs on {rref}, which has no value"
        if number > 1 and owner.serial:
            return f"{number} requests run on {rref}"
    return None


@rule(ALWAYS_HERE, "who has begun is known")
def _(endpoint: ScriptedEndpoint) -> str | None:
    """An object knows the requests that have begun on it, and is there as long as they last."""
    aside: dict[RRefId, set[CallId]] = {}
    running: dict[RRefId, CallId] = {}
    owners = endpoint.context.owners
    for task in endpoint.tasks:
        if task.target is None or isinstance(task.message, Reply | Tell):
            continue
        if task.target not in owners:
            return f"{task.message.call} has begun on {task.target}, which is gone"
        if task.occupies and owners[task.target].serial:
            running[task.target] = task.message.call
        else:
            aside.setdefault(task.target, set()).add(task.message.call)
    for rref, owner in owners.items():
        if owner.aside != aside.get(rref, set()):
            return f"{owner.aside} stand aside on {rref}, and in truth {aside.get(rref)}"
        if owner.running != running.get(rref):
            return f"{owner.running} has the turn on {rref}, and in truth {running.get(rref)}"
    return None


@rule(ALWAYS_HERE, "owner or user")
def _(endpoint: ScriptedEndpoint) -> str | None:
    both = endpoint.context.owners.keys() & endpoint.context.users.keys()
    return f"{endpoint.me} owns and uses {both}" if both else None


@rule(ALWAYS_HERE, "nothing idle is kept")
def _(endpoint: ScriptedEndpoint) -> str | None:
    """An entry that nothing uses is gone, and so is the note of a loan that pins nothing."""
    context = endpoint.context
    idle = [owner.rref for owner in context.owners.values() if owner.unused]
    users = context.users.values()
    idle += [user.rref for user in users if user.unused]
    lent = [user for user in users if isinstance(user, LendingUser)]
    idle += [user.rref for user in lent if user.lent.keys() - user.children.keys()]
    return f"{endpoint.me} keeps an idle entry of {idle[0]}" if idle else None


@rule(ALWAYS_HERE, "names are right")
def _(endpoint: ScriptedEndpoint) -> str | None:
    """Each name counts its own handles and requests, and exists while it has any."""
    named, context = endpoint.named(), endpoint.context
    requests = Counter(context.state.named.values())
    if requests.keys() - context.state.names.keys():
        return f"{endpoint.me} remembers requests under the names {requests}, which have ended"
    for rref, name in context.state.names.items():
        if name.handles != named[rref]:
            return f"{endpoint.me} counts {name.handles} handles called {rref}, not {named[rref]}"
        if name.requests != requests[rref]:
            return f"{endpoint.me} counts {name.requests} requests on {rref}, not {requests[rref]}"
        if not (name.handles or name.requests):
            return f"{endpoint.me} keeps an idle name {rref}"
        entry = context.entries.find(name.canonical)
        if entry is None:
            return f"{endpoint.me} knows {rref} to be {name.canonical}, and holds no such thing"
        for call in (call for call, under in context.state.named.items() if under == rref):
            if call not in entry.pending:
                return f"{endpoint.me} keeps the name {rref} for {call}, which was answered"
    return None


@rule(ALWAYS_HERE, "notices end reports")
def _(endpoint: ScriptedEndpoint) -> str | None:
    """By borrowing, a loan that the owner has notified of is no longer awaited."""
    for user in endpoint.context.users.values():
        if isinstance(user, BorrowingUser) and {*user.reported} & {*user.known}:
            return f"{endpoint.me} waits for a notice of {user.reported}, and has {user.known}"
    return None


# ---- one step

ALWAYS_STEP: dict[str, Callable[[Taken], str | None]] = {}


@rule(ALWAYS_STEP, "nobody jumps the line")
def _(taken: Taken) -> str | None:
    """New requests, and those that can go on, line up at the end; the first one goes first."""
    for rref, owner in taken.after.context.owners.items():
        before = taken.owners.get(rref)
        if before is None or not before.queue:
            continue
        line, now = list(before.queue), list(owner.queue)
        left = [call for call in line if call in now]
        if now[: len(left)] != left:
            return f"the line on {rref} was {line}, and is {now}"
        if owner.running in line and owner.running != before.running:
            passed = [call for call in line[: line.index(owner.running)] if call in now]
            if passed:
                return f"{owner.running} jumped the line on {rref}, before {passed}"
    return None


def asked(taken: Taken) -> Iterator[ForkRequest]:
    return (it.message for it in taken.sent if isinstance(it.message, ForkRequest))


@rule(ALWAYS_STEP, "no needless fork request")
def _(taken: Taken) -> str | None:
    """A further fork of a confirmed or requested reference costs no fork request."""
    for request in asked(taken):
        user = taken.users.get(request.rref)
        if user is not None and (user.known or user.requested):
            return f"{taken.before.me} asked for fork {request.fork} without need"
    return None


@rule(ALWAYS_STEP, "a loan that is not kept costs nothing")
def _(taken: Taken) -> str | None:
    """By lending, a loan that is not kept costs no message besides the call and its reply.

    (A creation has no reply, and has one `Returned` for all its loans. A death costs more.)
    """
    task = taken.step.task if isinstance(taken.step, Act) else None
    if taken.before.context.dead or task is None or not isinstance(task.message, Call | Invoke):
        return None
    for rref, user in taken.users.items():
        if not isinstance(user, LendingUser) or user.requested or {*user.known} - user.loans.keys():
            continue
        after = taken.after.context.users.get(rref)
        if user.loans and (after is None or not after.in_use):
            for _, to, message in taken.sent:
                if isinstance(message, ForkRequest | ChildAck | Delete) and message.rref == rref:
                    return f"{taken.before.me} sent {message} to {to} for a loan it did not keep"
    return None


@rule(ALWAYS_STEP, "a covered loan asks nothing")
def _(taken: Taken) -> str | None:
    """By lending, an endpoint with another loan from a counted lender does not ask the owner.

    The creator is such a lender, even before it is confirmed. An endpoint that lent to itself does
    not ask, either.
    """
    if taken.before.context.dead or not isinstance(taken.step, Act):
        return None
    for request in asked(taken):
        user = taken.after.context.users.get(request.rref)
        if isinstance(user, LendingUser):
            lenders = {fork.parent for fork in user.loans if user.loans[fork].counted}
            lenders |= {fork.parent for fork in user.loans} & {request.rref.creator}
            if lenders or request.fork.parent == taken.before.me:
                return f"{taken.before.me} asked for fork {request.fork} without need"
    return None


@rule(ALWAYS_STEP, "a death concerns its borrowers")
def _(taken: Taken) -> str | None:
    """By lending, after a death exactly the borrowers of the dead lender ask the owner."""
    if isinstance(taken.step, Notice) and taken.before.sharing == "lend":
        for request in asked(taken):
            if request.fork.parent != taken.step.worker:
                return f"{taken.before.me} asked for {request.fork}, whose lender lives"
    return None


@rule(ALWAYS_STEP, "the counted report nothing")
def _(taken: Taken) -> str | None:
    """By borrowing, an endpoint that is counted, or that lent to itself, reports nothing."""
    for _, to, message in taken.sent:
        if isinstance(message, Reply | Returned):
            for report in message.loans:
                user = taken.users.get(report.rref)
                told = report.held or report.borrowers
                counted = user is not None and (user.known or to == taken.before.me)
                if told and counted and taken.before.sharing == "borrow":
                    return f"{taken.before.me} reported {report} without need"
    return None


@rule(ALWAYS_STEP, "who returns is in no table")
def _(taken: Taken) -> str | None:
    if isinstance(taken.step, Arrival) and isinstance(taken.step.message, Reply | Returned):
        for report in taken.step.message.loans:
            user = taken.after.context.users.get(report.rref)
            table = user.borrowers if isinstance(user, BorrowingUser) else {}
            if report.fork in table and not report.held:
                return f"{taken.before.me} believes that {report.fork} is still held"
    return None


@rule(ALWAYS_STEP, "deletes are earned")
def _(taken: Taken) -> str | None:
    """G2: a delete leaves only a confirmed user without pinned children, and names forks."""
    for _, _, message in taken.sent:
        for delete in deletes_in(message):
            if not delete.forks:
                return f"{taken.before.me} deleted no fork of {delete.rref}"
            user = taken.after.context.users.get(delete.rref)
            if user is not None and {*user.known} & {*delete.forks}:
                return f"{taken.before.me} deleted {delete.rref} and kept it"
    return None


@rule(ALWAYS_STEP, "note 5: a notice follows the deserialization")
def _(taken: Taken) -> str | None:
    """The owner notifies only of unpacked loans; otherwise the denial would come too early."""
    match taken.step:
        case Arrival(sender=sender, message=NotifyRefRemoved(loans=loans)):
            early = {fork for _, fork in loans} - taken.before.borrowed
            if early and sender not in taken.before.context.dead:
                return f"{taken.before.me} is notified of {early}, which it has not got yet"
        case _:
            pass
    return None


@rule(ALWAYS_STEP, "nothing is sent to the known dead")
def _(taken: Taken) -> str | None:
    for _, to, message in taken.sent:
        if to in taken.after.context.dead:
            return f"{taken.before.me} sent {message} to {to}, which is dead"
    return None


@rule(ALWAYS_STEP, "a cancel follows its call")
def _(taken: Taken) -> str | None:
    """A cancel never comes before its call: no endpoint would remember it, so it would be lost."""
    for _, _, message in taken.sent:
        if isinstance(message, Cancel) and message.call in taken.before.context.state.held_calls:
            return f"{taken.before.me} cancelled {message.call}, which it has not sent"
    return None


@rule(ALWAYS_STEP, "what is cancelled in the queue does not start")
def _(taken: Taken) -> str | None:
    """A request that waits for its turn when its cancel comes is refused in that very step."""
    if not isinstance(taken.message, Cancel):
        return None
    call = taken.message.call
    for rref, owner in taken.owners.items():
        sender, request = owner.queue.get(call, (None, None))
        if sender != call.caller or isinstance(request, Resume):
            continue
        refused = any(
            task.refused and getattr(task.message, "call", None) == call
            for task in taken.after.tasks
        )
        if not refused:
            return f"{taken.after.me} took the cancel of {call}, and keeps it on {rref}"
    return None


@rule(ALWAYS_STEP, "a cancel is refused only while a function runs")
def _(taken: Taken) -> str | None:
    """Who refuses to end a call runs it, or passes on the word of the one who does."""
    begun = {
        getattr(task.message, "call", None)
        for task in taken.before.tasks
        if task.stage is not Stage.ARRIVED
    }
    for _, _, message in taken.sent:
        if isinstance(message, CancelRefused) and message.call not in begun:
            relayed = isinstance(taken.message, CancelRefused)
            if not relayed or message.call not in taken.before.context.state.relayed:
                return f"{taken.before.me} refuses to end {message.call}, which it does not run"
    return None


@rule(ALWAYS_STEP, "what came cancelled is not run")
def _(taken: Taken) -> str | None:
    """A call that was cancelled before it left is answered, and never starts."""
    for task in taken.after.tasks:
        if isinstance(task.message, Invoke | Fetch) and task.message.cancelled and not task.refused:
            return f"{taken.after.me} runs {task.message.call}, which came cancelled"
    return None


# ---- the world

ALWAYS: dict[str, Callable[[View], str | None]] = {}
LATE = "nobody comes too late (G4)"
FREED = "no free while held or in flight (G4)"


@rule(ALWAYS, FREED)
def _(view: View) -> str | None:
    """G4: no object is freed while an endpoint holds it, is sent it, or waits for its answer."""
    freed = {rref for facts in view.living.values() for rref in facts.freed}
    if not freed:
        return None
    for facts in view.living.values():
        held = freed & facts.held
        if held:
            return f"{held.pop()} is freed, and {facts.me} holds it"
    for envelope, descriptor in view.descriptors:
        if descriptor.rref in freed:
            return f"{descriptor.rref} is freed, and on its way to {envelope.to}"
    for sender, to, message in view.flying:
        match message:
            case Invoke(rref=rref) | Fetch(rref=rref) | Create(target=RRefId() as rref):
                if rref in freed and to in view.living and sender not in view.living[to].dead:
                    return f"{rref} is freed, and a request for it on its way"
            case _:
                pass
    return None


@rule(ALWAYS, "no collection of what is reachable (G4)")
def _(view: View) -> str | None:
    """G4: no object is collected while a variable, a task, or a message on its way reaches it."""
    collected = {rref for facts in view.living.values() for rref in facts.collected}
    if not collected:
        return None
    roots = {rref for facts in view.living.values() for rref in facts.roots}
    roots.update(descriptor.rref for _, descriptor in view.descriptors)
    for sender, to, message in view.flying:
        if to in view.living and sender not in view.living[to].dead:
            roots.update(requested(message))
    edges = {it: to for facts in view.living.values() for it, to in facts.edges.items()}
    wrong = collected & reached(roots, lambda rref: edges.get(rref, ()))
    return f"{wrong.pop()} is collected, and the program can reach it" if wrong else None


@rule(ALWAYS, "unconfirmed children are pinned (G2)")
def _(view: View) -> str | None:
    """G2: the parent of every unconfirmed child is pinned, as long as both live."""
    for _, descriptor in view.descriptors:
        flaw = _unpinned(view, descriptor.rref, descriptor.fork, descriptor.owner)
        if flaw:
            return flaw
    for facts in view.living.values():
        for rref, fork in facts.owed:
            flaw = _unpinned(view, rref, fork, facts.homes[rref])
            if flaw:
                return flaw
        for fork, rref in facts.loans.items():
            flaw = _unpinned(view, rref, fork, facts.homes[rref])
            if flaw:
                return flaw
    return None


def _unpinned(view: View, rref: RRefId, fork: ForkId, home: WorkerId) -> str | None:
    parent = view.living.get(fork.parent)
    if parent is None or home not in view.living or home in parent.dead or fork in parent.pins:
        return None
    return f"fork {fork} of {rref} is unconfirmed, and {parent.me} does not pin it"


@rule(ALWAYS, "an ancestor is known (G2)")
def _(view: View) -> str | None:
    """G2: above every unconfirmed child is an endpoint that the owner counts, or the creation."""
    for facts in view.living.values():
        for rref in facts.unconfirmed:
            flaw = _unknown(view, rref, facts)
            if flaw:
                return flaw
    return None


def _unknown(view: View, rref: RRefId, facts: Facts) -> str | None:
    """Go up from child to parent and from borrower to lender, by every fork that keeps each."""
    home, above, passed = facts.homes[rref], [facts], set[WorkerId]()
    while above:
        child = above.pop()
        if child.me in passed:
            continue
        passed.add(child.me)
        forks = child.kept_by(rref)
        if rref not in child.unconfirmed and not forks:
            return None  # confirmed
        for fork in forks:
            parent = view.living.get(fork.parent)
            if fork.parent in {child.me, home} or parent is None or home not in view.living:
                return None  # asked for by itself, shared by the owner, or an endpoint died
            if home in parent.dead or fork in view.living[home].counted:
                return None
            if rref in parent.homes:
                above.append(parent)
    if any(view.living[who].dead for who in passed):
        return None  # its lender died: it asks for itself, and the grace outlasts its request
    return f"{facts.me} is unconfirmed, and nobody above it is counted for {rref}"


@rule(ALWAYS, "confirmed means counted")
def _(view: View) -> str | None:
    for facts in view.living.values():
        for fork, rref in facts.confirmed.items():
            owner = view.living.get(facts.homes[rref])
            if owner is not None and fork not in owner.counted:
                return f"{facts.me} believes that fork {fork} is counted"
    return None


@rule(ALWAYS, "the fork graph is a tree")
def _(view: View) -> str | None:
    """A fork has one child: it is at one endpoint, or on its way to one."""
    places = [fork for facts in view.living.values() for fork in facts.children]
    places += [
        descriptor.fork
        for _, descriptor in view.descriptors
        if descriptor.passing is not Passing.BACK
    ]
    if len(set(places)) == len(places):
        return None
    return f"fork {Counter(places).most_common(1)[0][0]} is in two places"


@rule(ALWAYS, "nothing is lost without a death (G4)")
def _(view: View) -> str | None:
    """G4: an object with a living creator gets its value (a late asker finds the object gone)."""
    for facts in view.living.values():
        for rref in facts.lost:
            if not view.deaths or (rref.creator in view.living and rref not in facts.late):
                return f"{rref} is lost, and its creator lives"
    return None


@rule(ALWAYS, "aliases are true")
def _(view: View) -> str | None:
    """The object believed to be canonical is at the end of the chain of returned references."""
    stood: dict[RRefId, RRefId] = {}
    broken: dict[RRefId, Loss] = {}
    for facts in view.living.values():
        stood |= facts.stood
        broken |= facts.broken
    if not stood:
        return None
    if not view.deaths:
        for rref, why in broken.items():
            if why is not Loss.CYCLE or rref not in _way(stood, rref):
                return f"{rref} is lost, as {why.value}"
    for facts in view.living.values():
        for rref, canonical in facts.known.items():
            if canonical in stood and canonical not in broken:
                return f"{facts.me} believes that {rref} is {canonical}, which is an alias"
            if not view.deaths and canonical not in _way(stood, rref):
                return f"{facts.me} believes that {rref} is {canonical}"
    return None


def _way(stood: dict[RRefId, RRefId], rref: RRefId) -> list[RRefId]:
    """The way from *rref*, alias by alias, at most once round."""
    way: list[RRefId] = []
    while rref in stood and stood[rref] not in way:
        rref = stood[rref]
        way.append(rref)
    return way


@rule(ALWAYS, LATE)
def _(view: View) -> str | None:
    """G4: no endpoint asks for a freed object, except for a table (in a late program it may).

    An endpoint that takes a table back does not know whether the table had been passed on and
    settled.
    """
    late = {rref for facts in view.living.values() for rref in facts.late}
    if late:
        late -= {rref for facts in view.living.values() for rref in facts.took_back}
    return f"{late} was freed too early" if late else None


@rule(ALWAYS, "note 1: owner known")
def _(view: View) -> str | None:
    homes: dict[RRefId, WorkerId] = {}
    for facts in view.living.values():
        for rref, home in facts.homes.items():
            if homes.setdefault(rref, home) != home or facts.me == home:
                return f"{facts.me} believes that {home} owns {rref}"
    for envelope, descriptor in view.descriptors:
        if homes.setdefault(descriptor.rref, descriptor.owner) != descriptor.owner:
            return f"{envelope.to} is told that {descriptor.owner} owns {descriptor.rref}"
    return None


@rule(ALWAYS, "note 2: counted means alive")
def _(view: View) -> str | None:
    """An owner that counts a holder has the value, or will get it."""
    for facts in view.living.values():
        if facts.valueless:
            return f"{facts.me} counts holders of {set(facts.valueless)}, and has no value"
    return None


@rule(ALWAYS, "note 3: a borrower implies a count at its owner")
def _(view: View) -> str | None:
    """From the owner's counts a path of pins and tables leads to every holder of a reference."""
    if view.deaths:
        return None  # until the endpoints that are cut off have announced themselves
    for rref in {
        rref for facts in view.living.values() for rref in facts.held if rref in facts.homes
    }:
        reached, todo = set(), list(_roots(view, rref))
        moving = list(_tables_in_flight(view, rref))
        while todo:
            worker = todo.pop()
            if worker not in reached:
                reached.add(worker)
                todo += view.living[worker].shared.get(rref, ())
                todo += [to for by, table in moving if by == worker for to in table]
        for facts in view.living.values():
            if rref in facts.held and rref in facts.homes and facts.me not in reached:
                return f"{facts.me} holds {rref}, and no path leads there from its owner"
    return None


def _roots(view: View, rref: RRefId) -> Iterator[WorkerId]:
    for facts in view.living.values():
        if rref in facts.creating or rref not in facts.homes:
            yield facts.me


def _tables_in_flight(view: View, rref: RRefId) -> Iterator[tuple[WorkerId, list[WorkerId]]]:
    """The new keeper of each table in flight, and the borrowers in it."""
    for _, to, message in view.flying:
        for each in (*deletes_in(message), *getattr(message, "loans", ())):
            if isinstance(each, Delete | MessageReport) and each.rref == rref:
                yield to, [worker for _, worker in each.borrowers]


@rule(ALWAYS, "everything is sent once")
def _(view: View) -> str | None:
    if len({id(it) for it in view.flying}) == len(view.flying):
        return None  # equal messages are one object, interned by the world
    twice = Counter(it for it in view.flying if isinstance(it.message, Tell | Reply))
    return next((f"{it.message} is sent twice" for it, n in twice.items() if n > 1), None)

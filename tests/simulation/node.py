"""One endpoint of a simulation: the shell, in virtual time, and the functions that run there.

The sender decides the work of a function: a `Job` travels as the payload of the message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from farref.actors.calls.queues import Queues
from farref.actors.core.links import Links
from farref.actors.recording.tracing import Tracer
from farref.protocol.context import Context
from farref.protocol.delivery import Packet
from farref.protocol.effects import Effect, Fail, Looked, Lose, Loss, Refusal, Refuse, Settle
from farref.protocol.holders import HolderReport
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Busy,
    Call,
    Create,
    Fetch,
    Invoke,
    Message,
    Probe,
    Request,
    Tell,
    chain_of,
    target_of,
)
from farref.world.shell import Shell

from ..model.reach import named, seen_blindly
from .jobs import CARRYING, Error, Job, PendingRequest, Task, Turn, Value
from .oracle import WrongError
from .searches import Searches

if TYPE_CHECKING:
    from .world import SimulatedWorld

SETTLING = 0.5
"""Seconds between two questions of a node whether all have settled all deaths."""


class Node(Shell):
    """The endpoint *me*. Its program, and the functions that run here, make requests."""

    def __init__(self, me: WorkerId, world: SimulatedWorld, tracer: Tracer | None) -> None:
        super().__init__(Context(me, world.plan.sharing), tracer)
        self.world = world
        self.handles: list[RRefId] = []
        """The program's own; running functions have theirs."""
        self.asked: dict[CallId, PendingRequest] = {}
        """Unanswered requests, also those of the functions."""
        self._turns: dict[RRefId, int] = {}
        """Methods called so far on each reference."""
        self.links = Links()
        self.values: dict[RRefId, Value | Error] = {}
        self.tasks: list[Task] = []
        self.searches = Searches(self, world)
        self.queues = Queues(self.context, lambda call: self._awaits(call) is not None)
        self.graces: dict[WorkerId, float] = {}
        self._owed: frozenset[ForkId] = frozenset()
        self.asleep_until = 0.0
        self._self_sent: list[Message] = []
        self._taking: Message | None = None

    def roots(self) -> Iterator[RRefId]:
        """The objects that code here reaches at once, and those that its messages name."""
        yield from map(self.context.whereabouts, self.handles)
        for task in self.tasks:
            yield from map(self.context.whereabouts, task.handles)
            yield from named(task.request)

    def targets(self) -> dict[RRefId, RRefId]:
        """The target of each alias here."""
        aliases = (each.alias for each in self.context.owners.values() if each.alias is not None)
        return {alias.rref: alias.target for alias in aliases}

    def held(self) -> Iterator[RRefId]:
        yield from self.handles
        for task in self.tasks:
            yield from task.handles
        for inside in self.inside.values():
            yield from inside

    # ---- requests of the program, and of the functions

    def is_lost(self, rref: RRefId) -> bool:
        """Whether its owner is dead, as far as this endpoint knows."""
        user = self.context.users.get(self.context.whereabouts(rref))
        if user is None or not user.lost:
            return False
        if user.owner not in self.context.dead:
            raise WrongError(
                "G4", f"{self.me} believes that {rref} is lost, and {user.owner} lives"
            )
        return True

    def call(
        self, other: int, names: Sequence[RRefId], job: Job, chain: tuple[Busy, ...] = ()
    ) -> CallId | None:
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return None
        call, effects = self.context.call(to, self.lend(to, self._usable(names), job), chain)
        self.asked[call] = PendingRequest(to, chain=chain)
        self.obey(effects)
        return call

    def make(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, on: RRefId | None = None
    ) -> RRefId | None:
        """Make an object of *to* from these references, maybe by a method of the object *on*."""
        if to in self.context.dead:
            return None
        job = job if on is None else self._in_turn(job, on)
        cargo = self.lend(to, self._usable(names), job, replies=False)
        rref, effects = self.context.create(to, cargo, on)
        # Now, because the creation may be held back and never leave.
        self.world.oracle.made(rref, to, on)
        self.handles.append(rref)
        self.obey(effects)
        return rref

    def invoke(
        self, on: RRefId, names: Sequence[RRefId], job: Job, chain: tuple[Busy, ...] = ()
    ) -> CallId:
        to = self.context.owner_of(on)
        where = self.context.whereabouts(on)
        cargo = self.lend(to, self._usable(names), self._in_turn(job, on))
        call, effects = self.context.invoke(on, cargo, chain)
        self.asked[call] = PendingRequest(to, where, chain)
        self.obey(effects)
        return call

    def fetch(
        self, rref: RRefId, chain: tuple[Busy, ...] = (), *, copy: bool, direct: bool
    ) -> CallId:
        """Fetch the value, or (without *copy*) wait until there is one."""
        where, to = self.context.whereabouts(rref), self.context.owner_of(rref)
        call, effects = self.context.fetch(rref, chain, copy=copy, direct=direct)
        self.asked[call] = PendingRequest(to, where, chain)
        self.obey(effects)
        return call

    def tell(self, other: int, names: Sequence[RRefId], job: Job) -> None:
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return
        self.obey(self.context.tell(to, self.fork(to, self._usable(names), job)))

    def _usable(self, names: Sequence[RRefId]) -> list[RRefId]:
        return [each for each in dict.fromkeys(names) if not self.is_lost(each)]

    def _in_turn(self, job: Job, on: RRefId) -> Job:
        self._turns[on] = self._turns.get(on, 0) + 1
        return replace(job, turn=Turn(self.me, on, self._turns[on]))

    # ---- messages

    def take(self, sender: WorkerId, packet: Packet) -> None:
        if sender in self.context.dead:
            return
        messages, _ = self.links.receive(sender, packet, self.world.now)
        for message in messages:
            self.world.handed_over(sender, self.me)
            self.receive(sender, message)
        self._post()

    def tick(self) -> None:
        now = self.world.now
        for worker in [each for each, due in self.graces.items() if due <= now]:
            if not self.world.settled():
                self.graces[worker] = now + SETTLING
                continue
            del self.graces[worker]
            self.do(self.context.bury(worker))
        for rref in self.queues.look(now) if self.queues.due(now) else ():
            self.obey(self.context.suspect(rref))
        self.world.send(self.me, self.links.due(now))
        self._post()

    def do(self, effects: list[Effect]) -> None:
        """Carry out the *effects* of a step, and send its messages."""
        self.obey(effects)
        self._post()

    def _post(self) -> None:
        packets, _ = self.links.packets(self.world.now)
        self.world.send(self.me, packets)
        self.world.wake_at(self, min(self._dues(), default=None), self.tick)

    def _dues(self) -> Iterator[float]:
        deadline = self.links.deadline()
        if deadline is not None:
            yield deadline
        if self.queues.look_at is not None:
            yield self.queues.look_at
        yield from self.graces.values()

    def taken(self, sender: WorkerId, message: Message, number: int | None) -> None:
        """Tell the oracle of a creation, and note requests that may have to wait."""
        self._taking = message
        if isinstance(message, Create) and sender not in self.context.dead:
            self.world.oracle.accepted(message.rref)
        if isinstance(message, Create | Fetch | Invoke):
            self.queues.arrived(message, lambda: self.world.now)
        super().taken(sender, message, number)

    # ---- deaths

    def told_of_death(self, worker: WorkerId) -> None:
        if worker in self.context.dead or worker == self.me:
            return
        known = self._known()
        effects = self.context.died(worker, self.links.unacknowledged(worker))
        for each in effects:
            if isinstance(each, Lose) and each.why is Loss.OWNER and each.rref in known:
                self.world.oracle.spared(each.rref, known[each.rref], self)
        self.obey(effects)
        self._owed |= self.context.uncounted()
        self.links.forget(worker)
        self.world.will_not_come(worker, self.me)
        self.graces[worker] = 0.0
        self.graces = dict.fromkeys(self.graces, self.world.now + self.world.plan.grace)
        self._post()

    def _known(self) -> dict[RRefId, RRefId]:
        """The aliases here with a known canonical object, and that object."""
        aliases = (each.alias for each in self.context.owners.values() if each.alias is not None)
        return {
            alias.rref: self.context.whereabouts(alias.canonical)
            for alias in aliases
            if alias.canonical is not None
        }

    def settles(self) -> bool:
        """Whether owners have yet to acknowledge what it asked for before it heard of deaths."""
        self._owed &= self.context.uncounted()
        return bool(self._owed)

    # ---- effects

    def obey(self, effects: list[Effect]) -> None:
        """Carry out *effects*, then receive the messages of the endpoint to itself."""
        super().obey(effects)
        while self._self_sent:
            self.receive(self.me, self._self_sent.pop(0))

    def post(self, to: WorkerId, message: Message) -> None:
        """Send *message* by the channel to *to*; tell the oracle of creations and probes."""
        if isinstance(message, Create):
            self._made(message, to)
        if isinstance(message, Probe) and message.before:
            self.world.rings.second_lap(message.before)
        if to == self.me:
            self._self_sent.append(message)
        else:
            self.links.send(to, message)
            self.world.posted(self.me, to, message)

    def _made(self, message: Create, owner: WorkerId) -> None:
        """Tell the oracle of a creation that leaves: for this program, or for an alias here."""
        rref = message.rref
        self.world.oracle.made(rref, owner, message.target)
        for each in self.context.owners.values():
            if each.alias is not None and each.alias.target == rref:
                self.world.oracle.aliased(each.rref, rref)

    def lose(self, effect: Lose) -> None:
        self.world.oracle.lost(effect.rref, effect.why, self)
        self.world.done[f"lost: {effect.why.name}"] += 1
        self.store(effect.rref, Error(effect.why.name, effect.rref))
        super().lose(effect)

    def free(self, rref: RRefId) -> None:
        self.values.pop(rref, None)
        self.world.oracle.freed(rref, self.world.living())
        super().free(rref)

    def seen_in_values(self) -> dict[RRefId, Counter[RRefId]]:
        """A first look misses variables: nothing may depend on it."""
        return seen_blindly(self)

    def answer(self, asker: WorkerId, look: int, report: HolderReport) -> None:
        """Answer after a while: what the report has seen may no longer be so then."""
        self.searches.after_a_while(partial(super().answer, asker, look, report))

    def weigh(self, start: RRefId) -> None:
        self.searches.weigh_after_a_while(partial(super().weigh, start))

    def collect(self, rref: RRefId) -> None:
        self.world.oracle.found([rref], self.world.reached(), self)
        super().collect(rref)

    def looked(self, effect: Looked) -> None:
        self.searches.looked(effect)
        self.world.looked(effect, self)

    def refuse(self, effect: Refuse) -> None:
        request, why = effect.request, effect.why
        if why is Refusal.RING:
            self.world.rings.refused(request, effect.ring)
        else:
            cargoes = [it.cargo for it in (request, self._taking) if isinstance(it, CARRYING)]
            about = {each.rref for cargo in cargoes for each in cargo.descriptors}
            target = target_of(request)
            about |= {target} if target is not None else set()
            self.world.oracle.refused(request, why, about, self)
        self.world.done[f"refused: {why.name}"] += 1
        error = Error(why.name, request.rref if isinstance(request, Create) else None)
        if isinstance(request, Create):
            self.store(request.rref, error)
        self.reject(request, error)

    def settle(self, effect: Settle) -> None:
        call, cargo = effect.reply.call, effect.reply.cargo
        asked = self.asked.pop(call)
        match cargo.payload:
            case Error() as error:
                self.world.oracle.got(asked, error)
            case Value(of=of):
                self.world.oracle.answered(asked, of)
                self.world.rings.answered(asked)
            case _:
                pass  # the end of a wait, passed on by an alias's owner
        handles = asked.task.handles if asked.task is not None else self.handles
        handles += self.unpickle(cargo)
        self.finish(effect.reply)
        self._go_on(call, asked)

    def fail(self, effect: Fail) -> None:
        asked = self.asked.pop(effect.call)
        self.world.oracle.failed(asked, effect.worker)
        self._go_on(effect.call, asked)

    # ---- functions that run here

    def start(self, sender: WorkerId, message: Request | Tell) -> None:
        """Answer a fetch at once. Begin a function, which takes the time that its job says."""
        if isinstance(message, Fetch):
            value = self.values[message.rref]
            copied = message.copy and isinstance(value, Value)
            self._return(message, value, self.inside.get(message.rref, ()) if copied else ())
            return
        target = None if isinstance(message, Tell) else target_of(message)
        there = self.values[target] if target is not None else None
        if isinstance(there, Error) and not isinstance(message, Tell):
            self._return(message, there)
            return
        task = Task(message, list(self.unpickle(message.cargo)))
        job = task.job
        if not isinstance(message, Tell):
            running = [each.request for each in self.tasks if not isinstance(each.request, Tell)]
            self.world.oracle.occupied(message, running)
        self.tasks.append(task)
        if job.turn is not None:
            self.world.oracle.ran(job.turn)
        if job.onward is not None:
            self.call(job.onward, task.handles, Job("read", job.seconds))
        for other in self.tasks if job.into is not None else ():
            if isinstance(other.request, Create) and other.request.rref == job.into:
                self._keep(task.handles, other.handles)
        self.world.later(job.seconds, self, lambda: self._ask_or_end(task))

    def _keep(self, handles: list[RRefId], where: list[RRefId]) -> None:
        """Hold one more handle of each of *handles*."""
        where += handles
        for each in handles:
            self.context.hold(each)

    def _ask_or_end(self, task: Task) -> None:
        if not self._waits(task):
            self._end(task)

    def _waits(self, task: Task) -> bool:
        """Make the function's request, if it has one. Returns whether the task waits for it."""
        ask, chain = task.job.ask, chain_of(task.request)
        if ask is None or not task.handles:
            return False
        on = task.handles[ask.place % len(task.handles)]
        if ask.how == "function":
            call = self.call(ask.to, task.handles, ask.job, chain)
        elif self.is_lost(on):
            return False
        elif ask.how == "method":
            call = self.invoke(on, task.handles, ask.job, chain)
        elif ask.how == "creation":
            made = self.make(self.context.owner_of(on), task.handles, ask.job, on)
            if made is None:
                return False
            call = self.fetch(made, chain, copy=True, direct=ask.place % 2 == 0)
        else:
            call = self.fetch(on, chain, copy=ask.how == "fetch", direct=ask.place % 2 == 0)
        if call not in self.asked:  # not asked at all, or answered already
            return False
        asked = self.asked[call]
        asked.task, task.waits = task, call
        if asked.on is not None:
            self.world.oracle.waits(call, chain, asked.on)
        self._post()
        return True

    def awaited(self, run: CallId) -> tuple[CallId | None, int, str]:
        """The request that the task of *run* waits for, its number, and no text."""
        call = self._awaits(run)
        return call, call.number if call is not None else 0, ""

    def _awaits(self, run: CallId) -> CallId | None:
        for task in self.tasks:
            if not isinstance(task.request, Tell) and task.request.call == run:
                return task.waits
        return None

    def _go_on(self, call: CallId, asked: PendingRequest) -> None:
        """Let the task that waits for *call* go on."""
        self.world.oracle.settled(call)
        if asked.task is not None:
            task, asked.task.waits = asked.task, None
            self.world.later(0.0, self, lambda: self._end(task))

    def give_up(self, call: CallId) -> None:
        """End the wait for *call* by its timeout."""
        self.world.done["timeout"] += 1
        asked = self.asked[call]
        self._go_on(call, asked)
        asked.task = None

    def _end(self, task: Task) -> None:
        request, handles, job = task.request, task.handles, task.job
        self.tasks.remove(task)
        if job.keep:
            self._keep(handles, self.handles)
        if isinstance(request, Invoke):
            self._change(request.rref, job, handles)
        if isinstance(request, Create) and job.bare and handles:
            self.world.oracle.aliased(request.rref, handles[-1])
            self.finish(request, handles, (handles[-1],), bare=True)
        elif isinstance(request, Tell):
            self.finish(request, handles)
        else:
            value = Value(None if isinstance(request, Call) else request.rref)
            self._return(request, value, handles if job.back else (), handles)
        self._post()

    def _change(self, rref: RRefId, job: Job, handles: list[RRefId]) -> None:
        """Put *handles* into the value of *rref*, or take all handles out of it."""
        if job.put:
            more = list(self.inside.get(rref, ()))
            self._keep(handles, more)
            self.inside[rref] = tuple(more)
        if job.take:
            handles += self.inside.pop(rref, ())

    def _return(
        self,
        request: Request,
        value: Value | Error,
        brings: Iterable[RRefId] = (),
        drops: Sequence[RRefId] = (),
    ) -> None:
        if isinstance(request, Create):
            self.store(request.rref, value)
        else:
            brings = tuple(dict.fromkeys(brings))
            caller = request.call.caller
            if caller in self.context.dead or any(self.is_lost(each) for each in brings):
                value, brings = Error("LOST"), ()
        self.finish(request, drops, tuple(brings), value)

    def store(self, rref: RRefId, value: Value | Error) -> None:
        self.values[rref] = value
        self.world.oracle.valued(rref)

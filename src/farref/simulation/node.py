"""One endpoint of a simulation: the shipped machines, a shell, and a program that improvises.

The shell obeys effects as the actors do, in virtual time. What a function does when it runs was
decided when it was sent: a `Job` travels as the payload of its message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ..actors.links import Links
from ..actors.queues import Queues
from ..protocol.effects import (
    Confirmed,
    Fail,
    Free,
    Hand,
    Look,
    Lose,
    Loss,
    Refusal,
    Refuse,
    Run,
    Send,
    Settle,
    Stop,
)
from ..protocol.messages import (
    Call,
    Cargo,
    Create,
    Fetch,
    ForkRequest,
    Invoke,
    Probe,
    Tell,
    chain_of,
    target_of,
)
from .jobs import CARRYING, Asked, Error, Job, Task, Value
from .program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..actors.tracing import Tracer
    from ..protocol.delivery import Packet
    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, RRefId, WorkerId
    from ..protocol.messages import Descriptor, Message, Request
    from .world import World


class Node(Program):
    """The endpoint *me*: its shell, around the machines and its program."""

    def __init__(self, me: WorkerId, world: World, tracer: Tracer | None) -> None:
        super().__init__(me, world, tracer)
        self.links = Links()
        self.tasks: list[Task] = []
        self.queues = Queues(self.context, lambda call: self._awaited(call) is not None)
        self.inside: dict[RRefId, list[RRefId]] = {}
        """The handles in the values of objects that live here."""
        self.graves: dict[WorkerId, float] = {}
        self.asleep_until = 0.0
        self.tracer = tracer
        self._self_sent: list[Message] = []
        self._taking: Message | None = None

    def held(self) -> Iterator[RRefId]:
        """Every handle in this process."""
        yield from self.handles
        for task in self.tasks:
            yield from task.handles
        for inside in self.inside.values():
            yield from inside

    # ---- messages

    def take(self, sender: WorkerId, packet: Packet) -> None:
        """A packet came in."""
        if sender in self.context.dead:
            return
        for message in self.links.receive(sender, packet, self.world.now):
            self._receive(sender, message)
        self.world.send(self, self.links.urgent(sender, self.world.now))
        self._post()

    def tick(self) -> None:
        """Whatever is due."""
        now = self.world.now
        for worker in [each for each, due in self.graves.items() if due <= now]:
            del self.graves[worker]
            self.world.burying(self, worker)
            self.do(self.context.bury(worker))
        for rref in self.queues.look(now) if self.queues.due(now) else ():
            self._obey(self.context.suspect(rref))
        self.world.send(self, self.links.due(now))
        self._post()

    def do(self, effects: list[Effect]) -> None:
        """Carry out *effects*."""
        self._obey(effects)
        self._post()

    def _post(self) -> None:
        packets, _ = self.links.packets(self.world.now)
        self.world.send(self, packets)
        self.world.wake_at(self, min(self._dues(), default=None))

    def _dues(self) -> Iterator[float]:
        deadline = self.links.deadline()
        if deadline is not None:
            yield deadline
        if self.queues.look_at is not None:
            yield self.queues.look_at
        yield from self.graves.values()

    def _receive(self, sender: WorkerId, message: Message) -> None:
        effects = self.context.receive(sender, message)
        self._taking = message
        if isinstance(message, Create) and sender not in self.context.dead:
            self.world.oracle.accepted(message.rref)
        if isinstance(message, Create | Fetch | Invoke):
            self.queues.arrived(message, lambda: self.world.now)
        if self.tracer:
            self.tracer.received(sender, message)
        self._obey(effects)

    # ---- deaths

    def told_of_death(self, worker: WorkerId) -> None:
        """*worker* is dead."""
        if worker in self.context.dead or worker == self.me:
            return
        known = self._known()
        effects = self.context.died(worker, self.links.unacknowledged(worker))
        for each in effects:
            if isinstance(each, Lose) and each.why is Loss.OWNER and each.rref in known:
                self.world.oracle.spared(each.rref, known[each.rref], self)
        self._obey(effects)
        self.links.forget(worker)
        self.graves[worker] = 0.0
        self.graves = dict.fromkeys(self.graves, self.world.now + self.world.grace)
        self._post()

    def _known(self) -> dict[RRefId, RRefId]:
        """The aliases here of which it is known what they stand for."""
        aliases = (each.alias for each in self.context.owners.values() if each.alias is not None)
        return {
            alias.rref: self.context.whereabouts(alias.canonical)
            for alias in aliases
            if alias.canonical is not None
        }

    def counts(self, worker: WorkerId) -> Iterator[tuple[RRefId, WorkerId]]:
        """The objects that *worker* is counted for here, with their owners."""
        for owner in self.context.owners.values():
            if worker in owner.forks.values():
                yield owner.rref, self.me
        for user in self.context.users.values():
            if worker in (*user.children.values(), *getattr(user, "borrowers", {}).values()):
                yield user.rref, user.owner

    def announces(self, rref: RRefId, owner: WorkerId) -> bool:
        """It has asked *owner* to be counted for *rref*, and that may not have come."""
        sent = self.links.unacknowledged(owner)
        return any(isinstance(each, ForkRequest) and each.rref == rref for each in sent)

    # ---- effects

    def _obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            if self.tracer:
                self.tracer.effect(effect)
            match effect:
                case Send(to=to, message=message):
                    if self.tracer:
                        self.tracer.sent(to, message)
                    if isinstance(message, Create):
                        self._made(message, to)
                    if isinstance(message, Probe) and message.before:
                        self.world.rings.second_lap(message.before)
                    if to == self.me:
                        self._self_sent.append(message)
                    else:
                        self.links.send(to, message)
                case Run(request=request):
                    self._run(request)
                case Hand(message=message):
                    self._start(message)
                case Refuse(request=request, why=why, ring=ring):
                    if why is Refusal.RING:
                        self.world.rings.refused(request, ring)
                    else:
                        self._excuse(request, why)
                    self._refuse(request, why)
                case Settle(reply=reply):
                    self._settle(reply.call, reply.cargo)
                case Fail(call=call, worker=worker):
                    asked = self.asked.pop(call)
                    self.world.oracle.failed(asked, worker)
                    self._go_on(call, asked)
                case Lose(rref=rref, why=loss):
                    self.world.oracle.lost(rref, loss, self)
                    self.world.done[f"lost: {loss.name}"] += 1
                    self._store(rref, Error(loss.name, rref))
                    self._obey(self.context.resolve(rref))
                case Free(rref=rref):
                    self.values.pop(rref, None)
                    self.world.freed(rref)
                    inside = self.inside.pop(rref, [])
                    self._obey(self.context.drop(*inside))
                case Look(run=run):
                    awaited = self._awaited(run)
                    number = awaited.number if awaited is not None else 0
                    self._obey(self.context.waits(run, awaited, number, ""))
                case Stop() | Confirmed():
                    pass
                case _:
                    assert_never(effect)
        while self._self_sent:
            self._receive(self.me, self._self_sent.pop(0))

    def _made(self, message: Create, owner: WorkerId) -> None:
        """A creation leaves: asked for here, or passed on for an alias that is asked for it."""
        rref = message.rref
        self.world.oracle.made(rref, owner, message.target)
        for each in self.context.owners.values():
            if each.alias is not None and each.alias.target == rref:
                self.world.oracle.aliased(each.rref, rref)

    def _run(self, request: Request) -> None:
        match request:
            case Fetch(rref=rref, copy=copy):
                value = self.values[rref]
                copied = copy and isinstance(value, Value)
                self._answer(request, value, self.inside.get(rref, []) if copied else [])
                self._done(request)
            case Call() | Create() | Invoke():
                target = target_of(request)
                value = self.values[target] if target is not None else Value(None)
                if isinstance(value, Error):
                    self._answer(request, value, [])
                    self._done(request)
                else:
                    self._start(request)

    def _start(self, request: Call | Create | Invoke | Tell) -> None:
        task = Task(request, self._unpickled(request.cargo))
        job = task.job
        if not isinstance(request, Tell):
            running = [each.request for each in self.tasks if not isinstance(each.request, Tell)]
            self.world.oracle.occupied(request, running)
        self.tasks.append(task)
        if job.turn is not None:
            self.world.oracle.ran(job.turn)
        if job.onward is not None:
            self.lend(job.onward, task.handles, Job("read", job.seconds))
        for other in self.tasks if job.into is not None else ():
            if isinstance(other.request, Create) and other.request.rref == job.into:
                self._keep(task.handles, other.handles)
        self.world.later(job.seconds, self, lambda: self._ask_or_end(task))

    def _keep(self, handles: list[RRefId], where: list[RRefId]) -> None:
        """One more handle of each of *handles*."""
        where += handles
        for each in handles:
            self.context.hold(each)

    def _ask_or_end(self, task: Task) -> None:
        if not self._waits(task):
            self._end(task)

    def _waits(self, task: Task) -> bool:
        """Whether the function asks for something now, and goes on when that is answered."""
        ask, chain = task.job.ask, chain_of(task.request)
        if ask is None or not task.handles:
            return False
        on = task.handles[ask.place % len(task.handles)]
        if ask.how == "function":
            call = self.lend(ask.to, task.handles, ask.job, chain)
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
        if call not in self.asked:  # it was not asked at all, or it is answered already
            return False
        asked = self.asked[call]
        asked.task, task.waits = task, call
        if asked.on is not None:
            self.world.oracle.waits(call, chain, asked.on)
        self._post()
        return True

    def _awaited(self, run: CallId) -> CallId | None:
        """The request that the task of *run* waits for."""
        for task in self.tasks:
            if not isinstance(task.request, Tell) and task.request.call == run:
                return task.waits
        return None

    def _go_on(self, call: CallId, asked: Asked) -> None:
        """*call* is answered: who waits for it may go on."""
        self.world.oracle.settled(call)
        if asked.task is not None:
            task, asked.task.waits = asked.task, None
            self.world.later(0.0, self, lambda: self._end(task))

    def give_up(self, call: CallId) -> None:
        """The wait for *call* ends by its timeout."""
        self.world.done["timeout"] += 1
        asked = self.asked[call]
        self._go_on(call, asked)
        asked.task = None

    def _unpickled(self, cargo: Cargo) -> list[RRefId]:
        for each in cargo.descriptors:
            if each.name is None:
                self.context.hold(each.rref)
            else:
                self._obey(self.context.take_up(each))
        return [each.name or each.rref for each in cargo.descriptors]

    def _end(self, task: Task) -> None:
        """The function returns."""
        request, handles, job = task.request, task.handles, task.job
        self.tasks.remove(task)
        if job.keep:
            self._keep(handles, self.handles)
        if isinstance(request, Tell):
            self._obey(self.context.drop(*handles))
            self.do(self.context.release(request.cargo.descriptors))
            return
        if isinstance(request, Create) and job.bare and handles:
            self.world.oracle.aliased(request.rref, handles[-1])
            self._obey(self.context.stand_for(request.rref, handles[-1]))
            self._obey(self.context.drop(*handles))
        else:
            value = Value(None if isinstance(request, Call) else request.rref)
            self._answer(request, value, handles if job.back else [], handles)
        self._done(request)
        self._post()

    def _answer(
        self,
        request: Request,
        value: Value | Error,
        brings: Sequence[RRefId],
        drops: Sequence[RRefId] = (),
    ) -> None:
        context = self.context
        if isinstance(request, Create):
            self._store(request.rref, value)
            inside = self.inside[request.rref] = []
            self._keep(list(brings), inside)
            self._obey(context.drop(*drops))
            self._obey(context.resolve(request.rref))
        else:
            forks = self._shared(request.call, brings)
            self._obey(context.drop(*drops))
            cargo = Cargo(
                payload=value if forks is not None else Error("LOST"), descriptors=forks or ()
            )
            self._obey(context.reply(request.call, cargo))

    def _excuse(self, request: Request, why: Refusal) -> None:
        cargoes = [each.cargo for each in (request, self._taking) if isinstance(each, CARRYING)]
        about = {each.rref for cargo in cargoes for each in cargo.descriptors}
        target = target_of(request)
        if target is not None:
            about.add(target)
        self.world.oracle.refused(request, why, about, self)

    def _refuse(self, request: Request, why: Refusal) -> None:
        self.world.done[f"refused: {why.name}"] += 1
        if isinstance(request, Create):
            self._answer(request, Error(why.name, request.rref), [])
        else:
            refusal = Cargo(payload=Error(why.name))
            self._obey(self.context.refuse(request.call, refusal))

    def _shared(self, call: CallId, brings: Sequence[RRefId]) -> tuple[Descriptor, ...] | None:
        context = self.context
        if call.caller in context.dead or any(self.is_lost(each) for each in brings):
            return None
        return tuple(
            context.give_back(each, call) or context.fork(each, call.caller)
            for each in dict.fromkeys(brings)
        )

    def _done(self, request: Request) -> None:
        """An object's request has ended: the next one may run."""
        target = target_of(request)
        owner = self.context.owners.get(target) if target is not None else None
        if owner is not None and owner.running:
            self._obey(self.context.done(owner.rref))

    def _settle(self, call: CallId, cargo: Cargo) -> None:
        asked = self.asked.pop(call)
        match cargo.payload:
            case Error() as error:
                self.world.oracle.got(asked, error)
            case Value(of=of):
                self.world.oracle.answered(asked, of)
            case _:
                pass  # a wait that an alias's owner passed on says only that it is over
        handles = asked.task.handles if asked.task is not None else self.handles
        handles += self._unpickled(cargo)
        self._obey(self.context.release(cargo.descriptors))
        self._go_on(call, asked)

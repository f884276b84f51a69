"""One endpoint of a simulation: the shipped machines, a shell, and a program that improvises.

The shell obeys effects as the actors do, in virtual time. What a function does when it runs was
decided when it was sent: a `Job` travels as the payload of its message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from ..actors.links import Links
from ..actors.recording import Recorded
from ..protocol.context import Context
from ..protocol.effects import (
    Confirmed,
    Fail,
    Free,
    Hand,
    Look,
    Lose,
    Refuse,
    Run,
    Send,
    Settle,
    Stop,
)
from ..protocol.messages import Call, Cargo, Create, Fetch, Invoke, Tell, target_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..actors.tracing import Tracer
    from ..protocol.delivery import Packet
    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, RRefId, WorkerId
    from ..protocol.messages import Descriptor, Message, Request
    from .world import World


@dataclass(frozen=True, slots=True)
class Job:
    """What a function does with the references that it gets."""

    tag: str
    seconds: float
    keep: bool = False
    """It keeps one more handle of each."""
    back: bool = False
    """It returns them: in a container, in the value that it makes, or,"""
    bare: bool = False
    """if it makes a value, the first one bare, which makes an alias of it."""
    onward: int | None = None
    """It lends them to that endpoint, for a call that it does not wait for."""
    turn: Turn | None = None
    """Of a method: which of those that were called on a reference it is."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The *number*-th call that *caller* made on its reference *name*."""

    caller: WorkerId
    name: RRefId
    number: int


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an object, or the answer of one of its methods: it knows whose it is."""

    of: RRefId | None
    tag: str = "value"


@dataclass(frozen=True, slots=True)
class Error:
    """What takes a value's place."""

    why: str
    tag: str = "error"


@dataclass(slots=True)
class Task:
    """A function or handler that runs."""

    request: Request | Tell
    handles: list[RRefId]


class Node:
    """The endpoint *me*."""

    def __init__(self, me: WorkerId, world: World, tracer: Tracer | None) -> None:
        self.me = me
        context = Context(me, world.plan.sharing)
        self.context = Recorded(context, tracer) if tracer is not None else context
        self.links = Links()
        self.handles: list[RRefId] = []
        """The program's own."""
        self.tasks: list[Task] = []
        self.values: dict[RRefId, Value | Error] = {}
        self.inside: dict[RRefId, list[RRefId]] = {}
        """The handles in the values of objects that live here."""
        self.asked: dict[CallId, RRefId | None] = {}
        """Unanswered requests of the program's, and the reference that each was made on."""
        self.graves: dict[WorkerId, float] = {}
        self.asleep_until = 0.0
        self.world = world
        self.tracer = tracer
        self._self_sent: list[Message] = []
        self._turns: dict[RRefId, int] = {}
        """Methods called so far on each reference."""

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
            self.do(self.context.bury(worker))
        self.world.send(self, self.links.due(now))
        self._post()

    def do(self, effects: list[Effect]) -> None:
        """Carry out *effects* of a step, and send what it has to say."""
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
        yield from self.graves.values()

    def _receive(self, sender: WorkerId, message: Message) -> None:
        effects = self.context.receive(sender, message)
        if self.tracer:
            self.tracer.received(sender, message)
        self._obey(effects)

    # ---- deaths

    def told_of_death(self, worker: WorkerId) -> None:
        """*worker* is dead."""
        if worker in self.context.dead or worker == self.me:
            return
        self._obey(self.context.died(worker, self.links.unacknowledged(worker)))
        self.links.forget(worker)
        self.graves[worker] = 0.0
        self.graves = dict.fromkeys(self.graves, self.world.now + self.world.grace)
        self._post()

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
                    if to == self.me:
                        self._self_sent.append(message)
                    else:
                        self.links.send(to, message)
                case Run(request=request):
                    self._run(request)
                case Hand(message=message):
                    self._start(message)
                case Refuse(request=request, why=why):
                    self._refuse(request, Error(why.name))
                case Settle(reply=reply):
                    self._settle(reply.call, reply.cargo)
                case Fail(call=call, worker=worker, rref=rref):
                    asked = self.asked.pop(call, None)
                    self.world.oracle.failed(asked or rref, worker, "Fail")
                case Lose(rref=rref, why=loss):
                    self.values[rref] = Error(loss.name)
                    self._obey(self.context.resolve(rref))
                case Free(rref=rref):
                    self.values.pop(rref, None)
                    self.world.freed(rref)
                    inside = self.inside.pop(rref, [])
                    self._obey(self.context.drop(*inside))
                case Look(run=run):  # no function of a plan waits for anything
                    self._obey(self.context.waits(run, None, 0, ""))
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
        self.tasks.append(task)
        job = self._job(request)
        if job.turn is not None:
            self.world.oracle.ran(job.turn)
        if job.onward is not None:
            self.lend(job.onward, task.handles, Job("read", job.seconds))
        self.world.later(job.seconds, self, lambda: self._end(task))

    def _job(self, request: Call | Create | Invoke | Tell) -> Job:
        job: Job = request.cargo.payload  # type: ignore[assignment]
        return job

    def _unpickled(self, cargo: Cargo) -> list[RRefId]:
        for each in cargo.descriptors:
            if each.name is None:
                self.context.hold(each.rref)
            else:
                self._obey(self.context.take_up(each))
        return [each.name or each.rref for each in cargo.descriptors]

    def _end(self, task: Task) -> None:
        """The function returns."""
        request, handles = task.request, task.handles
        job = self._job(request)  # type: ignore[arg-type]
        self.tasks.remove(task)
        if job.keep:
            self.handles += handles
            for each in handles:
                self.context.hold(each)
        if isinstance(request, Tell):
            self._obey(self.context.drop(*handles))
            self.do(self.context.release(request.cargo.descriptors))
            return
        if isinstance(request, Create) and job.bare and handles:
            self.world.oracle.aliased(request.rref, handles[0])
            self._obey(self.context.stand_for(request.rref, handles[0]))
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
            self.values[request.rref] = value
            for each in brings:
                context.hold(each)
            self.inside[request.rref] = list(brings)
            self._obey(context.drop(*drops))
            self._obey(context.resolve(request.rref))
        else:
            forks = self._shared(request.call, brings)
            self._obey(context.drop(*drops))
            cargo = Cargo(
                payload=value if forks is not None else Error("LOST"), descriptors=forks or ()
            )
            self._obey(context.reply(request.call, cargo))

    def _refuse(self, request: Request, error: Error) -> None:
        if isinstance(request, Create):
            self._answer(request, error, [])
        else:
            self._obey(self.context.refuse(request.call, Cargo(payload=error)))

    def _shared(self, call: CallId, brings: Sequence[RRefId]) -> tuple[Descriptor, ...] | None:
        context = self.context
        if call.caller in context.dead or any(self.is_lost(each) for each in brings):
            return None
        return tuple(
            context.give_back(each, call) or context.fork(each, call.caller)
            for each in dict.fromkeys(brings)
        )

    def own(self) -> None:
        """``RRef(value)``."""
        rref = self.context.own()
        self.world.oracle.made(rref, self.me)
        self.values[rref] = Value(rref)
        self.handles.append(rref)

    def is_lost(self, rref: RRefId) -> bool:
        """Its owner is dead, as far as this endpoint knows."""
        user = self.context.users.get(self.context.whereabouts(rref))
        return user is not None and user.lost

    def _done(self, request: Request) -> None:
        """An object's request has ended: the next one may run."""
        target = target_of(request)
        owner = self.context.owners.get(target) if target is not None else None
        if owner is not None and owner.running:
            self._obey(self.context.done(owner.rref))

    def _settle(self, call: CallId, cargo: Cargo) -> None:
        asked = self.asked.pop(call)
        match cargo.payload:
            case Error(why="CANCELLED"):
                pass
            case Error(why=why):
                self.world.oracle.failed(asked, call.caller, why)
            case Value(of=of) if asked is not None:
                self.world.oracle.answered(asked, of)
            case _:
                pass
        self.handles += self._unpickled(cargo)
        self._obey(self.context.release(cargo.descriptors))

    # ---- what the program asks for

    def lend(self, other: int, names: Sequence[RRefId], job: Job) -> None:
        """A call on *other* with these references."""
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return
        call, effects = self.context.call(to, self._lent(to, names, job))
        self.asked[call] = None
        self._obey(effects)

    def make(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, on: RRefId | None = None
    ) -> None:
        """An object of *to*'s, made of these references, maybe by a method of the object *on*."""
        if to in self.context.dead:
            return
        job = job if on is None else self._in_turn(job, on)
        cargo = self._lent(to, names, job, replies=False)
        rref, effects = self.context.create(to, cargo, on)
        self.world.oracle.made(rref, to, on)  # it may be held back, and never leave
        self.handles.append(rref)
        self._obey(effects)

    def invoke(self, on: RRefId, job: Job) -> None:
        """A method of the object *on*, which gets a reference to it, if there is a handle still."""
        if on not in self.handles or self.is_lost(on):
            return
        to = self.context.owner_of(on)
        cargo = self._lent(to, [on], self._in_turn(job, on))
        call, effects = self.context.invoke(on, cargo)
        self.asked[call] = on
        self.do(effects)

    def _in_turn(self, job: Job, on: RRefId) -> Job:
        self._turns[on] = self._turns.get(on, 0) + 1
        return replace(job, turn=Turn(self.me, on, self._turns[on]))

    def fetch(self, rref: RRefId, *, copy: bool, direct: bool) -> None:
        """The value, or whether there is one."""
        call, effects = self.context.fetch(rref, copy=copy, direct=direct)
        self.asked[call] = rref
        self._obey(effects)

    def tell(self, other: int, names: Sequence[RRefId], job: Job) -> None:
        """A one-way message."""
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return
        forks = tuple(self.context.fork(each, to) for each in self._usable(names))
        self._obey(self.context.tell(to, Cargo(payload=job, descriptors=forks)))

    def _lent(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, *, replies: bool = True
    ) -> Cargo:
        lent = (self.context.lend(each, to, replies=replies) for each in self._usable(names))
        return Cargo(payload=job, descriptors=tuple(lent))

    def _usable(self, names: Sequence[RRefId]) -> list[RRefId]:
        return [each for each in dict.fromkeys(names) if not self.is_lost(each)]

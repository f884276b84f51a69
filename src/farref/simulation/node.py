"""One endpoint of a simulation: the shipped machines, a shell, and a program that improvises.

The shell obeys effects as the actors do, in virtual time. What a function does when it runs was
decided when it was sent: a `Job` travels as the payload of its message.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from ..actors.links import Links
from ..actors.recording import Recorded
from ..protocol.context import Context
from ..protocol.effects import (
    Confirmed,
    Fail,
    Free,
    Hand,
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
    Reply,
    Tell,
    chain_of,
    target_of,
)
from .oracle import WrongError
from .plan import RINGS

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
    """if it makes a value, the last one bare, which makes an alias of it."""
    onward: int | None = None
    """It lends them to that endpoint, for a call that it does not wait for."""
    ask: Ask | None = None
    """It asks for something, and waits for the answer before it returns."""
    into: RRefId | None = None
    """Of a one-way message: the references are for the function that makes this object."""
    turn: Turn | None = None
    """Of a method: which of those that were called on a reference it is."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a function asks of one of the references that it got, and waits for."""

    how: str
    """It calls a "method", does a "fetch" or a "wait"; or it calls a "function" elsewhere."""
    place: int
    """Which of the references."""
    to: int
    """Where that function runs."""
    job: Job
    """What the method or the function does; it is lent all the references."""


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
    of: RRefId | None = None
    """The object whose value it is; None if it is about one request alone."""
    tag: str = "error"


CARRYING = (Call, Create, Invoke, Reply)
"""Messages that refusals may be about, with references in them."""


@dataclass(slots=True, eq=False)
class Task:
    """A function or handler that runs."""

    request: Call | Create | Invoke | Tell
    handles: list[RRefId]
    waits: CallId | None = None
    """The request of its own that it waits for."""

    @property
    def job(self) -> Job:
        return self.request.cargo.payload  # type: ignore[return-value]  # nothing else is sent


@dataclass(slots=True)
class Asked:
    """A request that is not answered yet."""

    to: WorkerId
    on: RRefId | None = None
    """The object that it was made on, as far as its caller knew then."""
    chain: tuple[RRefId, ...] = ()
    """The objects that wait for the answer."""
    cancelled: bool = False
    task: Task | None = field(default=None, repr=False)
    """The task that waits for the answer; None if it is the program's own request."""


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
        self.asked: dict[CallId, Asked] = {}
        """Unanswered requests of the program's and of the tasks'."""
        self.graves: dict[WorkerId, float] = {}
        self.asleep_until = 0.0
        self.world = world
        self.tracer = tracer
        self._self_sent: list[Message] = []
        self._taking: Message | None = None
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
            self.world.burying(self, worker)
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
        self._taking = message
        if isinstance(message, Create) and sender not in self.context.dead:
            self.world.oracle.accepted(message.rref)
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
                    if to == self.me:
                        self._self_sent.append(message)
                    else:
                        self.links.send(to, message)
                case Run(request=request):
                    self._run(request)
                case Hand(message=message):
                    self._start(message)
                case Refuse(request=request, why=why):
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
        self.world.later(job.seconds, self, lambda: self._wait(task) or self._end(task))

    def _keep(self, handles: list[RRefId], where: list[RRefId]) -> None:
        """One more handle of each of *handles*."""
        where += handles
        for each in handles:
            self.context.hold(each)

    def _wait(self, task: Task) -> bool:
        """Whether the function asks for something now, and goes on when that is answered."""
        ask, chain = task.job.ask, chain_of(task.request)
        if ask is None or not task.handles:
            return False
        on = task.handles[ask.place % len(task.handles)]
        if ask.how == "function":
            call = self.lend(ask.to, task.handles, ask.job, chain)
        elif self.is_lost(on) or not self._may_wait(chain, self.context.whereabouts(on)):
            return False
        elif ask.how == "method":
            call = self.invoke(on, task.handles, ask.job, chain)
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

    def _may_wait(self, chain: tuple[RRefId, ...], on: RRefId) -> bool:
        """Whether a wait for *on* can make no ring over several chains (see `RINGS`).

        Who waits for the greater object only, and for what waits for nothing else, is in no ring.
        """
        plain = self.world.oracle.is_plain(on)
        return RINGS or not chain or on in chain or (plain and on > max(chain))

    def _go_on(self, call: CallId, asked: Asked) -> None:
        """*call* is answered: who waits for it may go on."""
        self.world.oracle.settled(call)
        if asked.task is not None:
            task, asked.task.waits = asked.task, None
            self.world.later(0.0, self, lambda: self._end(task))

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

    def _store(self, rref: RRefId, value: Value | Error) -> None:
        self.values[rref] = value
        self.world.oracle.valued(rref)

    def _refuse(self, request: Request, why: Refusal) -> None:
        cargoes = [each.cargo for each in (request, self._taking) if isinstance(each, CARRYING)]
        about = {each.rref for cargo in cargoes for each in cargo.descriptors}
        target = target_of(request)
        if target is not None:
            about.add(target)
        self.world.oracle.refused(request, why, about, self)
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

    def own(self) -> None:
        """``RRef(value)``."""
        rref = self.context.own()
        self.world.oracle.made(rref, self.me, plain=True)
        self.world.oracle.accepted(rref)
        self._store(rref, Value(rref))
        self.handles.append(rref)

    def is_lost(self, rref: RRefId) -> bool:
        """Its owner is dead, as far as this endpoint knows."""
        user = self.context.users.get(self.context.whereabouts(rref))
        if user is None or not user.lost:
            return False
        if user.owner not in self.context.dead:
            raise WrongError("G4", f"{self.me} believes that {rref} is lost, and {user.owner} lives")
        return True

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

    # ---- what the program asks for

    def lend(
        self, other: int, names: Sequence[RRefId], job: Job, chain: tuple[RRefId, ...] = ()
    ) -> CallId | None:
        """A call on *other* with these references."""
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return None
        call, effects = self.context.call(to, self._lent(to, names, job), chain)
        self.asked[call] = Asked(to, chain=chain)
        self._obey(effects)
        return call

    def make(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, on: RRefId | None = None
    ) -> RRefId | None:
        """An object of *to*'s, made of these references, maybe by a method of the object *on*."""
        if to in self.context.dead:
            return None
        job = job if on is None else self._in_turn(job, on)
        cargo = self._lent(to, names, job, replies=False)
        rref, effects = self.context.create(to, cargo, on)
        # It may be held back, and never leave.
        self.world.oracle.made(rref, to, on, plain=not job.bare)
        self.handles.append(rref)
        self._obey(effects)
        return rref

    def invoke(
        self, on: RRefId, names: Sequence[RRefId], job: Job, chain: tuple[RRefId, ...] = ()
    ) -> CallId:
        """A method of the object *on*, which gets these references."""
        to = self.context.owner_of(on)
        where = self.context.whereabouts(on)
        cargo = self._lent(to, names, self._in_turn(job, on))
        call, effects = self.context.invoke(on, cargo, chain)
        self.asked[call] = Asked(to, where, chain)
        self._obey(effects)
        return call

    def call(self, on: RRefId, names: Sequence[RRefId], job: Job) -> None:
        """A method of the object *on*, if the program has a handle of it still."""
        if on in self.handles and not self.is_lost(on):
            self.invoke(on, [each for each in names if each in self.handles], job)
            self._post()

    def circle(self, places: Sequence[int], seconds: Sequence[float], *, direct: bool) -> None:
        """An alias at each of *places*, of the one before it; and the first one of the last one.

        The function that makes the first one is told of the last one while it runs. If that comes
        too late, there is no circle.
        """
        first = last = None
        for place, each in zip(places, seconds, strict=True):
            to = self.world.at(place)
            if to is not None:
                made = self.make(to, [last] if last else [], Job("circle", each, bare=True))
                first, last = first or made, made or last
        if first is not None and last is not None:
            self.tell(places[0], [last], Job("close", 0.0, into=first))
            self.fetch(last, copy=True, direct=direct)

    def _in_turn(self, job: Job, on: RRefId) -> Job:
        self._turns[on] = self._turns.get(on, 0) + 1
        return replace(job, turn=Turn(self.me, on, self._turns[on]))

    def fetch(
        self, rref: RRefId, chain: tuple[RRefId, ...] = (), *, copy: bool, direct: bool
    ) -> CallId:
        """The value, or whether there is one."""
        where, to = self.context.whereabouts(rref), self.context.owner_of(rref)
        call, effects = self.context.fetch(rref, chain, copy=copy, direct=direct)
        self.asked[call] = Asked(to, where, chain)
        self._obey(effects)
        return call

    def cancel(self, call: CallId) -> None:
        """Take back *call*, if it has not started."""
        self.asked[call].cancelled = True
        self.do(self.context.cancel(call))

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

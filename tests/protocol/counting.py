"""A small deterministic runner of the shipped machines: what a program's messages come to.

The endpoints are real `Context`s; messages are delivered in the order sent, nothing fails, and
each step of a program comes to rest before the next. What runs at an endpoint is a `Task`: it
has a handle of each reference that came, keeps those that it is told to, and ends as the actors'
shell ends it: first the handles go, then the reply leaves.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from farref.actors.tracefile import FileSink
from farref.actors.tracing import Tracer
from farref.protocol.context import Context
from farref.protocol.effects import Effect, Free, Hand, Run, Send, Settle
from farref.protocol.ids import WorkerId
from farref.protocol.messages import (
    Call,
    Cargo,
    Create,
    Descriptor,
    Fetch,
    Invoke,
    Message,
    Reply,
    Request,
    Tell,
)
from farref.trace import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from farref.protocol.ids import CallId, RRefId
    from farref.protocol.sharing import Sharing
    from farref.trace import Story

USER = (Call, Create, Fetch, Invoke, Reply, Tell)


@dataclass(slots=True)
class Task:
    """A function or handler that runs at *at*, and its handles."""

    world: World
    at: str
    message: Request | Tell
    handles: list[RRefId]

    def keep(self, *rrefs: RRefId) -> None:
        """These handles outlive the task: drop them by `World.drop`."""
        for rref in rrefs:
            self.handles.remove(rref)

    def end(self, *returned: RRefId) -> None:
        """It returns, with *returned* in its result; everything comes to rest."""
        self.world.end(self, returned)

    def alias(self, target: RRefId) -> None:
        """A creation returns the bare reference *target*: its result stands for that one."""
        self.world.end(self, (target,), bare=True)


@dataclass(slots=True)
class World:
    """Endpoints that share in calls by *sharing*, and what they have sent."""

    sharing: Sharing
    contexts: dict[str, Context] = field(default_factory=dict)
    flight: deque[tuple[str, str, Message]] = field(default_factory=deque)
    tasks: list[Task] = field(default_factory=list)
    values: dict[RRefId, tuple[RRefId, ...]] = field(default_factory=dict)
    """The references inside the objects that have some."""
    results: list[RRefId] = field(default_factory=list)
    """The references of the last reply: handles of the caller's."""
    control: Counter[str] = field(default_factory=Counter)
    """Control messages between two endpoints, by kind."""
    trace: str = ""
    """A folder for the endpoints to record their steps in, as actors do."""
    tracers: dict[str, Tracer] = field(default_factory=dict)

    # ---- programs

    def own(self, at: str, *inside: RRefId) -> RRefId:
        """``RRef(value)``; the value takes over the handles *inside*."""
        rref = self._of(at).own()
        self.values[rref] = inside
        return rref

    def remote(self, at: str, to: str, *refs: RRefId) -> RRefId:
        """``remote(to, f, args=refs)``; `running` is the task, which has no reply."""
        cargo = self._lent(at, to, refs, replies=False)
        rref, effects = self._of(at).create(WorkerId(to, 0), cargo)
        self._rest(at, effects)
        return rref

    def made(self, at: str, to: str) -> RRefId:
        """An object of *to*'s that *at* asked for, and that is there."""
        rref = self.remote(at, to)
        self.running(to).end()
        return rref

    def call(self, at: str, to: str, *refs: RRefId) -> Task:
        """``rpc_async(to, f, args=refs)``."""
        cargo = self._lent(at, to, refs)
        self._rest(at, self._of(at).call(WorkerId(to, 0), cargo)[1])
        return self.running(to)

    def method(self, at: str, on: RRefId, *refs: RRefId) -> Task:
        """``on.rpc_async().f(*refs)``."""
        to = self._of(at).owner_of(on).name
        cargo = self._lent(at, to, refs)
        self._rest(at, self._of(at).invoke(on, cargo)[1])
        return self.tasks[-1]  # not on *to* if *on* is an alias

    def fetch(self, at: str, rref: RRefId, *, direct: bool = False) -> None:
        """``rref.future()``, or with *direct* ``rref.to_here()``."""
        self._rest(at, self._of(at).fetch(rref, direct=direct)[1])

    def tell(self, at: str, to: str, *refs: RRefId) -> Task:
        """``send(to, message)``."""
        worker = WorkerId(to, 0)
        forks = tuple(self._of(at).fork(rref, worker) for rref in refs)
        self._rest(at, self._of(at).tell(worker, Cargo(descriptors=forks)))
        return self.running(to)

    def drop(self, at: str, *rrefs: RRefId) -> None:
        """Handles of *at*'s die."""
        self._rest(at, self._of(at).drop(*rrefs))

    def running(self, at: str) -> Task:
        """What began last at *at*."""
        return next(task for task in reversed(self.tasks) if task.at == at)

    def left(self) -> list[object]:
        """What there is still, anywhere."""
        entries: list[object] = [*self.flight, *self.tasks]
        for context in self.contexts.values():
            entries += [*context.owners.values(), *context.users.values(), *context.waiting]
        return entries

    # ---- the shell

    def end(self, task: Task, returned: tuple[RRefId, ...], *, bare: bool = False) -> None:
        """The task returns a value with these references in it, or one of them *bare*."""
        self.tasks.remove(task)
        context, message = self._of(task.at), task.message
        effects: list[Effect] = []
        match message:
            case Create(rref=rref) if bare:
                effects = context.stand_for(rref, *returned) + context.drop(*task.handles)
            case Create(rref=rref):
                self.values[rref] = returned
                for each in returned:
                    context.hold(each)
                effects = context.drop(*task.handles) + context.resolve(rref)
            case Call(call=call) | Invoke(call=call):
                forks = tuple(self._result(context, call, rref) for rref in returned)
                effects = context.drop(*task.handles)
                effects += context.reply(call, Cargo(payload="result", descriptors=forks))
            case Tell(cargo=cargo):
                effects = context.drop(*task.handles) + context.release(cargo.descriptors)
            case _:
                raise AssertionError(f"{message} runs no task")
        if isinstance(message, Invoke):
            effects += context.done(message.rref)
        self._rest(task.at, effects)

    def _result(self, context: Context, call: CallId, rref: RRefId) -> Descriptor:
        return context.give_back(rref, call) or context.fork(rref, call.caller)

    def _of(self, at: str) -> Context:
        return self.contexts.setdefault(at, Context(WorkerId(at, 0), self.sharing))

    def _tracer(self, at: str) -> Tracer | None:
        if self.trace and at not in self.tracers:
            tracer = self.tracers[at] = Tracer(WorkerId(at, 0))
            tracer.begin(FileSink(str(self.trace), WorkerId(at, 0)), self.sharing)
        return self.tracers.get(at)

    def read(self) -> Story:
        """The story of what was recorded; nothing is recorded after it."""
        for tracer in self.tracers.values():
            tracer.close()
        return read(Path(self.trace))

    def _lent(self, at: str, to: str, refs: Iterable[RRefId], *, replies: bool = True) -> Cargo:
        context, worker = self._of(at), WorkerId(to, 0)
        lent = tuple(context.lend(rref, worker, replies=replies) for rref in refs)
        return Cargo(descriptors=lent)

    def _rest(self, at: str, effects: list[Effect]) -> None:
        """Carry out *effects*, and deliver until nothing is in flight."""
        self._obey(at, effects)
        while self.flight:
            sender, to, message = self.flight.popleft()
            came, tracer = WorkerId(sender, 0), self._tracer(to)
            effects = self._of(to).receive(came, message)
            if tracer:
                tracer.received(came, message)
            self._obey(to, effects)

    def _obey(self, at: str, effects: list[Effect]) -> None:
        context, tracer = self._of(at), self._tracer(at)
        for effect in effects:
            if tracer:
                tracer.effect(effect)
            match effect:
                case Send(to=to, message=message):
                    if tracer:
                        tracer.sent(to, message)
                    self.flight.append((at, to.name, message))
                    if to.name != at and not isinstance(message, USER):
                        self.control[type(message).__name__] += 1
                case Run(request=Fetch(call=call, rref=rref)):
                    forks = tuple(
                        context.fork(each, call.caller) for each in self.values.get(rref, ())
                    )
                    copy = Cargo(payload="copy", descriptors=forks)
                    self._obey(at, context.reply(call, copy))
                    self._obey(at, context.done(rref))
                case Run(request=Call() | Create() | Invoke() as message) | Hand(message=message):
                    rrefs = self._unpickled(context, message.cargo)
                    self.tasks.append(Task(self, at, message, rrefs))
                case Settle(reply=reply):
                    self.results = self._unpickled(context, reply.cargo)
                    self._obey(at, context.release(reply.cargo.descriptors))
                case Free(rref=rref):
                    if inside := self.values.pop(rref, ()):
                        self._obey(at, context.drop(*inside))
                case _:
                    pass

    def _unpickled(self, context: Context, cargo: Cargo) -> list[RRefId]:
        for descriptor in cargo.descriptors:
            if descriptor.name is None:
                context.hold(descriptor.rref)
            else:
                self._obey(context.me.name, context.take_up(descriptor))
        return [descriptor.name or descriptor.rref for descriptor in cargo.descriptors]


def random_program(world: World, seed: int, steps: int = 40) -> World:
    """Play a random program to its end; the same one in every discipline."""
    dice = random.Random(seed)
    kept: list[tuple[str, RRefId]] = []
    running: list[Task] = []

    def settle(at: str) -> None:
        kept.extend((at, each) for each in world.results)
        world.results = []

    def end(task: Task) -> None:
        running.remove(task)
        mine = dict.fromkeys(task.handles)
        for each in [each for each in mine if dice.random() < 0.3]:
            task.keep(each)
            kept.append((task.at, each))
        back = [each for each in dict.fromkeys(task.handles) if dice.random() < 0.3]
        task.end(*(back if isinstance(task.message, Call) else ()))
        if isinstance(task.message, Call):
            settle(task.message.call.caller.name)

    for _ in range(steps):
        held = [*kept, *((task.at, each) for task in running for each in task.handles)]
        what = dice.random()
        if running and what < 0.35:
            end(dice.choice(running))
        elif kept and what < 0.45:
            at, rref = kept.pop(dice.randrange(len(kept)))
            world.drop(at, rref)
        elif held and what < 0.9:
            at, rref = dice.choice(held)
            others = sorted({each for who, each in held if who == at and dice.random() < 0.2})
            refs = dict.fromkeys([rref, *others])
            to = dice.choice("ABCD")
            how = dice.random()
            if how < 0.7:
                running.append(world.call(at, to, *refs))
            elif how < 0.85:
                running.append(world.tell(at, to, *refs))
            else:
                kept.append((at, world.remote(at, to, *refs)))
                world.running(to).end()
        else:
            at, to = dice.sample("ABCD", 2)
            kept.append((at, world.own(at) if dice.random() < 0.5 else world.made(at, to)))
    while running:
        end(dice.choice(running))
    while kept:
        at, rref = kept.pop()
        world.drop(at, rref)
    assert world.left() == []
    return world

"""One endpoint of a program: the shipped `Context`, and a shell that obeys its effects.

The shell is to the explorer what the actors are to the library. It decides nothing about
references; it keeps books of its own about what the program holds, which the properties
compare with what the machines believe. Whatever it could do next is a step of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import assert_never

from farref.protocol.context import Context
from farref.protocol.effects import (
    Confirmed,
    Effect,
    Fail,
    Free,
    Hand,
    Lose,
    Refuse,
    Run,
    Send,
    Settle,
    Stop,
)
from farref.protocol.errors import ReferenceLostError, WorkerDiedError
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import (
    Call,
    Cargo,
    Create,
    Descriptor,
    Fetch,
    Invoke,
    Reply,
    Tell,
)

from . import script as do
from .script import Action, Code, Script
from .state import clone, freeze
from .steps import Act, Bury, Deliver, Notice, Step
from .task import Stage, Task, key


def worker(name: str) -> WorkerId:
    """The endpoint that scripts call *name*."""
    return WorkerId(name, 1)


class Endpoint:
    """The endpoint *me*, running *script*."""

    def __init__(self, me: WorkerId, script: Script) -> None:
        self.me = me
        self.context = Context(me)
        self.script = script
        self.variables: dict[str, RRefId] = {}
        self.tasks: tuple[Task, ...] = ()
        self.calls: dict[str, CallId] = {}
        self.values: dict[RRefId, tuple[RRefId, ...]] = {}
        """The objects that live here, with the references that each value contains."""
        self.freed: set[RRefId] = set()
        self.unfinished: tuple[Descriptor, ...] = ()
        """Forks of a message that is being pickled."""
        self.handed: set[object] = set()
        """What was handed to the program so far."""
        self.buried: set[WorkerId] = set()
        self.serial = 0
        self._out: list[Send] = []

    def clone(self) -> Endpoint:
        """A copy to try a step on."""
        copy = object.__new__(Endpoint)
        for name, value in vars(self).items():
            setattr(copy, name, clone(value))
        return copy

    def freeze(self) -> Hashable:
        """Equal for endpoints that will behave the same."""
        books = (self.variables, self.calls, self.values, self.freed, self.handed, self.buried)
        return (
            freeze(self.context),
            self.script,
            frozenset(Counter(self.tasks).items()),
            tuple(freeze(book) for book in books),
            self.unfinished,
            self.serial,
        )

    def holds(self) -> Counter[RRefId]:
        """The handles in this process, and the messages that hold a reference, by our books."""
        held = Counter(self.variables.values())
        for inside in self.values.values():
            held.update(inside)
        for task in self.tasks:
            held.update(rref for _, rref in task.frame)
            held.update(descriptor.rref for descriptor in task.cargo.descriptors)
        for owner in self.context.owners.values():
            for sender, request in owner.queue:
                cargo = Task(sender, request).cargo
                held.update(descriptor.rref for descriptor in cargo.descriptors)
        return held

    # ---- steps

    def steps(self) -> list[Act]:
        """What this endpoint could do next by itself."""
        acts = [Act(task) for task in dict.fromkeys(self.tasks) if self._ready(task, task.todo)]
        if self.script and self._ready(None, self.script):
            acts.append(Act())
        return acts

    def take(self, step: Step) -> list[Send]:
        """Take *step*; return what it sends."""
        match step:
            case Deliver(sender=sender, message=message):
                self._obey(self.context.receive(sender, message))
            case Act(task=task) if task is not None:
                self._advance(task)
            case Act():
                action, *rest = self.script
                self.script = tuple(rest)
                self._perform(None, action)
            case Notice(worker=dead):
                self._obey(self.context.died(dead))
            case Bury(worker=dead):
                self.buried.add(dead)
                self._obey(self.context.bury(dead))
            case _:
                assert_never(step)
        out, self._out = self._out, []
        return out

    def _ready(self, task: Task | None, todo: Script) -> bool:
        """Whether the first action of *todo* has what it needs."""
        needed: tuple[str, ...]
        match todo[0] if todo else do.Abandon():
            case do.Wait(call=call):
                return self.calls.get(call) not in self.context.waiting
            case do.Drop(name=name) | do.Keep(name=name) | do.Pickle(name=name):
                needed = (name,)
            case do.Own(inside=inside):
                needed = inside
            case do.Remote(refs=refs, method_of=target):
                needed = refs if target is None else (*refs, target)
            case do.Say(refs=refs) | do.Ask(refs=refs):
                needed = refs
            case do.Method(name=name, refs=refs):
                needed = (*refs, name)
            case do.Get(name=name):
                needed = (name,)
            case do.Revoke(call=call):
                return call in self.calls
            case do.Abandon():
                needed = ()
            case action:
                assert_never(action)
        return all(self._find(task, name) is not None for name in needed)

    # ---- effects

    def _obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._out.append(effect)
                case Run(sender=sender, request=request):
                    self._hand(Task(sender, request))
                case Refuse(sender=sender, request=request):
                    self._hand(Task(sender, request, refused=True))
                case Hand(sender=sender, message=message):
                    self._hand(Task(sender, message))
                case Settle(sender=sender, reply=reply):
                    self._hand(Task(sender, reply))
                case Stop(sender=sender, call=call):
                    self._stop(sender, call)
                case Lose(rref=rref):
                    self._obey(self.context.resolve(rref))
                case Free(rref=rref):
                    self.freed.add(rref)
                    for inside in self.values.pop(rref, ()):
                        self._obey(self.context.drop(inside))
                case Fail() | Confirmed():
                    pass
                case _:
                    assert_never(effect)

    def _hand(self, task: Task) -> None:
        if key(task) in self.handed:
            raise AssertionError(f"{task.message} was handed over twice")
        self.handed.add(key(task))
        self.tasks = (*self.tasks, task)

    def _stop(self, sender: WorkerId, call: CallId) -> None:
        for task in self.tasks:
            match task:
                case Task(sender=caller, message=Call(call=other), stage=Stage.ARRIVED) if (
                    caller == sender and other == call
                ):
                    self._replace(task, replace(task, refused=True))

    def _replace(self, task: Task, *new: Task) -> None:
        index = self.tasks.index(task)
        self.tasks = (*self.tasks[:index], *new, *self.tasks[index + 1 :])

    # ---- tasks

    def _advance(self, task: Task) -> None:
        if task.stage is Stage.ENDED:
            self._replace(task)
            self._obey(self.context.release(task.cargo.descriptors))
        elif task.stage is Stage.ARRIVED and task.cargo.descriptors and not task.refused:
            self._begin(task)
        elif task.stage is Stage.ARRIVED and not task.refused and task.code.body:
            self._replace(task, replace(task, stage=Stage.BEGUN, todo=task.code.body))
        elif task.todo:
            action, *rest = task.todo
            later = replace(task, todo=tuple(rest))
            self._replace(task, later)
            self._perform(later, action)
        else:
            self._end(task)

    def _begin(self, task: Task) -> None:
        """Unpickle: handles come into being."""
        code, descriptors = task.code, task.cargo.descriptors
        if not code.readable:
            self._replace(task, replace(task, stage=Stage.BEGUN))
            return
        for descriptor in descriptors:
            self.context.hold(descriptor.rref)
        rrefs = (descriptor.rref for descriptor in descriptors)
        frame = tuple(zip(code.names, rrefs, strict=True))
        self._replace(task, replace(task, stage=Stage.BEGUN, todo=code.body, frame=frame))

    def _end(self, task: Task) -> None:
        """Answer, let go of the handler's handles, and free the object for the next."""
        self._replace(task, replace(task, stage=Stage.ENDED, frame=()))
        works = task.code.readable and not task.refused
        match task.message:
            case Call(call=call) | Invoke(call=call):
                self._reply(call, task, task.code.returns if works else ())
            case Fetch(call=call, rref=rref):
                inside = self.values.get(rref, ()) if works else ()
                self._fetched(call, inside)
            case Create(rref=rref):
                self._created(rref, task, task.code.returns if works else ())
            case Tell() | Reply():
                pass
        for _, handle in task.frame:
            self._obey(self.context.drop(handle))
        if task.occupies is not None:
            self._obey(self.context.done(task.occupies))
        if not task.cargo.descriptors or isinstance(task.message, Tell | Reply):
            self._advance(replace(task, stage=Stage.ENDED, frame=()))

    def _reply(self, call: CallId, task: Task, names: tuple[str, ...]) -> None:
        rrefs = tuple(rref for name in names if (rref := self._find(task, name)) is not None)
        then = task.code.then
        self._answer(call, Code(names=names if rrefs else (), body=then), rrefs)

    def _fetched(self, call: CallId, inside: tuple[RRefId, ...]) -> None:
        names = tuple(f"inside{index}" for index, _ in enumerate(inside))
        self._answer(call, Code(names=names, body=tuple(do.Keep(name) for name in names)), inside)

    def _answer(self, call: CallId, code: Code, rrefs: tuple[RRefId, ...]) -> None:
        if not rrefs:
            code = Code()
        forks: list[Descriptor] = []
        try:
            forks.extend(self.context.fork(rref, call.caller) for rref in rrefs)
        except (ReferenceLostError, WorkerDiedError):
            self._obey(self.context.abandon(forks))
            forks, code = [], Code()
        cargo = Cargo(payload=code, descriptors=tuple(forks))
        self._obey(self.context.reply(call, cargo))

    def _created(self, rref: RRefId, task: Task, names: tuple[str, ...]) -> None:
        inside = tuple(found for name in names if (found := self._find(task, name)) is not None)
        for each in inside:
            self.context.hold(each)
        self.values[rref] = inside
        self._obey(self.context.resolve(rref))

    # ---- names

    def _find(self, task: Task | None, name: str) -> RRefId | None:
        frame = dict(task.frame) if task else {}
        return frame.get(name) or self.variables.get(name)

    def _bind(self, task: Task | None, name: str, rref: RRefId) -> None:
        if task is None:
            older = self.variables.get(name)
            self.variables[name] = rref
            if older is not None:
                self._obey(self.context.drop(older))
        else:
            self._replace(task, replace(task, frame=(*task.frame, (name, rref))))

    def _unbind(self, task: Task | None, name: str) -> RRefId:
        frame = dict(task.frame) if task else {}
        if task is None or name not in frame:
            return self.variables.pop(name)
        rref = frame.pop(name)
        self._replace(task, replace(task, frame=tuple(frame.items())))
        return rref

    # ---- actions

    def _perform(self, task: Task | None, action: Action) -> None:
        forks: list[Descriptor] = []
        try:
            self._try(task, action, forks)
        except (ReferenceLostError, WorkerDiedError):
            # The program sees the error and goes on; what was forked for it is undone.
            self._obey(self.context.abandon(forks))

    def _try(self, task: Task | None, action: Action, forks: list[Descriptor]) -> None:
        context = self.context
        match action:
            case do.Own(name=name, inside=inside):
                rref = context.own()
                self.values[rref] = tuple(self._needed(task, each) for each in inside)
                for each in self.values[rref]:
                    context.hold(each)
                self._bind(task, name, rref)
            case do.Remote(name=name, to=to):
                target = self._needed(task, action.method_of) if action.method_of else None
                code = Code(action.refs, action.body, action.returns, readable=action.readable)
                cargo = self._pack(task, code, worker(to), forks)
                rref, effects = context.create(worker(to), cargo, target)
                self._bind(task, name, rref)
                self._obey(effects)
            case do.Say(to=to, refs=refs, body=body, readable=readable):
                self.serial += 1
                code = Code(refs, body, readable=readable, serial=self.serial)
                self._obey(context.tell(worker(to), self._pack(task, code, worker(to), forks)))
            case do.Ask(call=name, to=to, refs=refs, body=body, returns=returns, then=then):
                code = Code(refs, body, returns, then, action.readable)
                cargo = self._pack(task, code, worker(to), forks)
                call, effects = context.call(worker(to), cargo, self._chain(task, name))
                self.calls[name] = call
                self._obey(effects)
            case do.Method(call=name, name=target_name, refs=refs, body=body):
                on = self._needed(task, target_name)
                code = Code(refs, body, action.returns, action.then)
                cargo = self._pack(task, code, context.owner_of(on), forks)
                call, effects = context.invoke(on, cargo, self._chain(task, name))
                self.calls[name] = call
                self._obey(effects)
            case do.Get(call=name, name=of):
                call, effects = context.fetch(self._needed(task, of), self._chain(task, name))
                self.calls[name] = call
                self._obey(effects)
            case do.Revoke(call=name):
                self._obey(context.cancel(self.calls[name]))
            case do.Drop(name=name):
                rref = self._unbind(task, name)
                self._obey(context.drop(rref))
            case do.Keep(name=name, under=under):
                self._bind(None, under or name, self._unbind(task, name))
            case do.Pickle(name=name, to=to):
                fork = context.fork(self._needed(task, name), worker(to))
                self.unfinished = (*self.unfinished, fork)
            case do.Abandon():
                undone, self.unfinished = self.unfinished, ()
                self._obey(context.abandon(undone))
            case do.Wait():
                pass
            case _:
                assert_never(action)

    def _needed(self, task: Task | None, name: str) -> RRefId:
        rref = self._find(task, name)
        if rref is None:
            raise AssertionError(f"{self.me} has no {name}")
        return rref

    def _pack(self, task: Task | None, code: Code, to: WorkerId, forks: list[Descriptor]) -> Cargo:
        for name in code.names:
            forks.append(self.context.fork(self._needed(task, name), to))  # noqa: PERF401
        return Cargo(payload=code, descriptors=tuple(forks))

    def _chain(self, task: Task | None, call: str) -> tuple[RRefId, ...]:
        """The objects that wait for *call*: those whose task does."""
        return task.chain if task and do.Wait(call) in task.todo else ()

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
from farref.protocol.dead import Dead
from farref.protocol.effects import (
    Confirmed,
    Effect,
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
from farref.protocol.errors import ReferenceLostError, WorkerDiedError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Call,
    Cargo,
    Create,
    Descriptor,
    Fetch,
    Hop,
    Invoke,
    Message,
    Passing,
    Reply,
    Returned,
    Tell,
)
from farref.protocol.sharing import Sharing

from . import script as do
from .script import Action, Code, Script
from .state import clone, freeze
from .steps import Act, Bury, Deliver, Notice, Step, Suspect
from .task import Stage, Task, key


def worker(name: str) -> WorkerId:
    """The endpoint that scripts call *name*, with a number that no other name has."""
    return WorkerId(name, int.from_bytes(name.encode(), "big"))


def workers(dead: Dead) -> frozenset[WorkerId]:
    """The endpoints that are in *dead*."""
    numbers = (number for first, last in dead.spans for number in range(first, last + 1))
    return frozenset(
        WorkerId(number.to_bytes(-(-number.bit_length() // 8), "big").decode(), number)
        for number in numbers
    )


def hands_over(message: Message) -> bool:
    """*message* carries a table of borrowers, which its sender has no more."""
    return isinstance(message, Reply | Returned) and any(it.borrowers for it in message.loans)


class Endpoint:
    """The endpoint *me*, running *script*; it shares by *sharing* in calls."""

    def __init__(
        self,
        me: WorkerId,
        script: Script,
        sharing: Sharing = "fork",
        mortal: frozenset[WorkerId] = frozenset(),
        *,
        ordered: bool = False,
    ) -> None:
        self.me = me
        self.context = Context(me, sharing)
        self.sharing = sharing
        self.mortal = mortal
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
        self.lost: set[RRefId] = set()
        """Objects here that got a loss for a value."""
        self.late: set[RRefId] = set()
        """Of these, the ones that had been freed before."""
        self.borrowed: set[ForkId] = set()
        """Every loan that was ever unpacked here (kept where notices exist: in "borrow")."""
        self.took_back: set[RRefId] = set()
        """The objects of which tables were taken back when their receivers had died."""
        self.over: dict[WorkerId, tuple[Message, ...]] = {}
        """The messages to each mortal endpoint that handed tables over."""
        self.stood: dict[RRefId, RRefId] = {}
        """The objects here whose functions returned a reference: what each stands for."""
        self.broken: dict[RRefId, Loss] = {}
        """Of these, the ones that have an error for a value, and why."""
        self.errors: set[CallId] = set()
        """The calls of which the answer was that the object is lost."""
        self.ordered = ordered
        self.ran: dict[tuple[RRefId, WorkerId], int] = {}
        """Of whose requests on an object which ran last, where that is looked at."""
        self.victims: set[CallId] = set()
        """Calls that were refused because they waited in a ring."""
        self.laps: dict[tuple[Hop, ...], bool] = {}
        """Rings of which a second lap began here, and whether each was there: see `model`."""
        self.suspicions = 0
        """Those that were early."""
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
        books = (
            *(self.variables, self.calls, self.values, self.freed, self.handed, self.buried),
            *(self.lost, self.late, self.borrowed, self.took_back, self.over),
            *(self.stood, self.broken, self.errors, self.ran, self.victims, self.laps),
        )
        return (
            freeze(self.context),
            self.script,
            frozenset(Counter(self.tasks).items()),
            tuple(freeze(book) for book in books),
            self.unfinished,
            self.serial,
            self.suspicions,
        )

    def handles(self) -> Counter[RRefId]:
        """The handles in this process, by our books."""
        held: Counter[RRefId] = Counter()
        for rref, number in self.named().items():
            held[self.context.whereabouts(rref)] += number
        return held

    def named(self) -> Counter[RRefId]:
        """The handles by what they are called: an alias has one of what it stands for."""
        held = Counter(self.variables.values())
        for inside in self.values.values():
            held.update(inside)
        for task in self.tasks:
            held.update(rref for _, rref in task.frame)
        held.update(
            self.stood[rref] for rref in self.stood.keys() - self.freed - self.broken.keys()
        )
        return held

    def messages(self) -> Counter[RRefId]:
        """The messages that hold a reference until they have been handled, by our books."""
        held: Counter[RRefId] = Counter()
        for task in self.tasks:
            held.update(descriptor.rref for descriptor in task.cargo.descriptors)
        waiting = [each for owner in self.context.owners.values() for each in owner.queue]
        relays = [each.relay for each in self.context.waiting.values() if each.relay]
        waiting += [(relay.sender, relay.request) for relay in relays]
        for sender, request in waiting:
            cargo = Task(sender, request).cargo
            held.update(descriptor.rref for descriptor in cargo.descriptors)
        return held

    def holds(self) -> Counter[RRefId]:
        """All that holds a reference here, by our books."""
        return self.handles() + self.messages()

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
                self._note(message)
                self._obey(self.context.receive(sender, message))
            case Act(task=task) if task is not None:
                self._advance(task)
            case Act():
                action, *rest = self.script
                self.script = tuple(rest)
                self._perform(None, action)
            case Notice(worker=dead, unacknowledged=unacknowledged):
                self.over.pop(dead, None)
                self.took_back.update(
                    report.rref
                    for message in unacknowledged
                    if isinstance(message, Reply | Returned)
                    for report in message.loans
                )
                self._obey(self.context.died(dead, unacknowledged))
            case Bury(worker=dead):
                self.buried.add(dead)
                self._obey(self.context.bury(dead))
            case Suspect(rref=rref, early=early):
                self.suspicions += early
                self._obey(self.context.suspect(rref))
            case _:
                assert_never(step)
        for alias in self.context.state.aliases.values():
            self.stood.setdefault(alias.rref, alias.target)
        out, self._out = self._out, []
        for send in out:
            if send.to in self.mortal and hands_over(send.message):
                self.over[send.to] = (*self.over.get(send.to, ()), send.message)
        return out

    def _note(self, message: Message) -> None:
        if self.sharing == "borrow" and not isinstance(message, Fetch):
            cargo = getattr(message, "cargo", None) or Cargo()
            self.borrowed.update(it.fork for it in cargo.descriptors if it.passing is Passing.LOAN)

    def _ready(self, task: Task | None, todo: Script) -> bool:
        """Whether the first action of *todo* has what it needs."""
        needed: tuple[str, ...]
        match todo[0] if todo else do.Abandon():
            case do.Wait(call=call, patient=patient):
                return not patient or self.calls.get(call) not in self.context.waiting
            case (
                do.Drop(name=name) | do.Keep(name=name) | do.Pickle(name=name) | do.Need(name=name)
            ):
                needed = (name,)
            case do.Take(name=name):
                return name in self.variables
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
                    task = Task(sender, request)
                    self._see(task)
                    self._hand(task)
                case Refuse(sender=sender, request=request, why=why):
                    if why is Refusal.RING:
                        self.victims.add(request.call)
                    self._hand(Task(sender, request, refused=True))
                case Hand(sender=sender, message=message):
                    self._hand(Task(sender, message))
                case Settle(sender=sender, reply=reply):
                    task = Task(sender, reply)
                    if task.code.error:
                        self.errors.add(reply.call)
                    self._hand(task)
                case Stop(sender=sender, call=call):
                    self._stop(sender, call)
                case Look(run=run):
                    self._obey(self.context.waits(run, *self.awaited(run), ""))
                case Lose(rref=rref, why=why) if why is not Loss.CREATOR:
                    self.broken[rref] = why
                    self._obey(self.context.resolve(rref))
                case Lose(rref=rref):
                    self.lost.add(rref)
                    if rref in self.freed:
                        self.late.add(rref)
                        self.freed.discard(rref)
                    self._obey(self.context.resolve(rref))
                case Free(rref=rref):
                    if rref in self.lost:
                        self.lost.discard(rref)  # there was no value to be freed too early
                    else:
                        self.freed.add(rref)
                    for inside in self.values.pop(rref, ()):
                        self._obey(self.context.drop(inside))
                case Fail() | Confirmed():
                    pass
                case _:
                    assert_never(effect)

    def awaited(self, run: CallId) -> tuple[CallId | None, int]:
        """Which call the task of the request *run* is blocked in, and the number of that wait."""
        for task in self.tasks:
            if getattr(task.message, "call", None) == run and not isinstance(task.message, Reply):
                match task.todo:
                    case (do.Wait(call=name), *_) if self.calls.get(name) in self.context.waiting:
                        return self.calls[name], len(task.todo)
        return None, 0

    def suspects(self) -> list[RRefId]:
        """The objects in whose queues something waits for something that waits."""
        return [
            owner.rref
            for owner in self.context.owners.values()
            if owner.queue and (blocker := self.context.rings.blocker(owner.rref)) is not None
            if owner.alias is not None or self.awaited(blocker)[0] is not None
        ]

    def _see(self, task: Task) -> None:
        """*task* runs: is it its caller's turn?"""
        if self.ordered and task.occupies is not None:
            caller, number = task.code.issued or (task.sender, 0)
            if isinstance(task.message, Fetch):
                caller, number = task.message.call
            if self.ran.get((task.occupies, caller), 0) >= number:
                raise AssertionError(f"request {number} of {caller} was overtaken: {task.message}")
            self.ran[task.occupies, caller] = number

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
        if task.stage is Stage.ARRIVED and task.cargo.descriptors and not task.refused:
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
        taken = [self.context.take_up(descriptor) for descriptor in descriptors]
        called = (descriptor.name or descriptor.rref for descriptor in descriptors)
        frame = tuple(zip(code.names, called, strict=True))
        self._replace(task, replace(task, stage=Stage.BEGUN, todo=code.body, frame=frame))
        for effects in taken:
            self._obey(effects)

    def _end(self, task: Task) -> None:
        """Let go of the handler's handles, answer, and free the object for the next."""
        works = task.code.readable and not task.refused
        names = task.code.returns if works else ()
        match task.message:
            case Call(call=call) | Invoke(call=call):
                rrefs = tuple(it for name in names if (it := self._find(task, name)) is not None)
                code = Code(names=names if rrefs else (), body=task.code.then)
                self._answer(task, call, code, rrefs)
            case Fetch(call=call, rref=rref):
                inside = self.values.get(rref, ()) if works else ()
                kept = tuple(f"inside{index}" for index, _ in enumerate(inside))
                code = Code(names=kept, body=tuple(do.Keep(name) for name in kept))
                self._answer(task, call, code, inside)
            case Create(rref=rref):
                target = self._find(task, task.code.alias) if works and task.code.alias else None
                if target is None:
                    self._created(rref, task, names)
                else:
                    self._obey(self.context.stand_for(rref, target))
                    self._leave(task)
            case Tell() | Reply():
                self._leave(task)
                self._obey(self.context.release(task.cargo.descriptors))
        if task.occupies is not None:
            self._obey(self.context.done(task.occupies))

    def _leave(self, task: Task) -> None:
        """The handler returns: its handles go, before anything else can be told."""
        self._replace(task)
        self._obey(self.context.drop(*(handle for _, handle in task.frame)))

    def _answer(self, task: Task, call: CallId, code: Code, rrefs: tuple[RRefId, ...]) -> None:
        if not rrefs:
            code = Code()
        made: list[Descriptor] = []
        try:
            for rref in rrefs:
                back = self.context.give_back(rref, call)
                if back is not None and back in made:
                    back = None
                made.append(back or self.context.fork(rref, call.caller))
        except (ReferenceLostError, WorkerDiedError):
            self._obey(self.context.abandon(made))
            made, code = [], Code()
        self._leave(task)
        if task.occupies in self.broken:
            code = replace(code, error=True)
        cargo = Cargo(payload=code, descriptors=tuple(made))
        answer = self.context.refuse if task.refused else self.context.reply
        self._obey(answer(call, cargo))

    def _created(self, rref: RRefId, task: Task, names: tuple[str, ...]) -> None:
        inside = tuple(found for name in names if (found := self._find(task, name)) is not None)
        for each in inside:
            self.context.hold(each)
        self.values[rref] = inside
        self._leave(task)
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
        last = max(index for index, (each, _) in enumerate(task.frame) if each == name)
        self._replace(task, replace(task, frame=task.frame[:last] + task.frame[last + 1 :]))
        return frame[name]

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
                code = replace(code, alias=action.alias, issued=self._issue())
                owner = worker(to) if target is None else context.owner_of(target)
                cargo = self._pack(task, code, owner, forks, replies=False)
                rref, effects = context.create(owner, cargo, target)
                self._bind(task, name, rref)
                self._obey(effects)
            case do.Say(to=to, refs=refs, body=body, readable=readable):
                self.serial += 1
                code = Code(refs, body, readable=readable, serial=self.serial)
                self._obey(context.tell(worker(to), self._pack(task, code, worker(to), forks)))
            case do.Ask(call=name, to=to, refs=refs, body=body, returns=returns, then=then):
                code = Code(refs, body, returns, then, action.readable)
                cargo = self._pack(task, code, worker(to), forks, replies=True)
                call, effects = context.call(worker(to), cargo, self._chain(task, name))
                self.calls[name] = call
                self._obey(effects)
            case do.Method(call=name, name=target_name, refs=refs, body=body):
                on = self._needed(task, target_name)
                code = Code(refs, body, action.returns, action.then, issued=self._issue())
                cargo = self._pack(task, code, context.owner_of(on), forks, replies=True)
                call, effects = context.invoke(on, cargo, self._chain(task, name))
                self.calls[name] = call
                self._obey(effects)
            case do.Get(call=name, name=of, direct=direct, copy=copy):
                chain = self._chain(task, name)
                rref = self._needed(task, of)
                call, effects = context.fetch(rref, chain, copy=copy, direct=direct)
                self.calls[name] = call
                self._obey(effects)
            case do.Revoke(call=name):
                self._obey(context.cancel(self.calls[name]))
            case do.Drop(name=name):
                rref = self._unbind(task, name)
                self._obey(context.drop(rref))
            case do.Keep(name=name, under=under):
                self._bind(None, under or name, self._unbind(task, name))
            case do.Pickle(name=name, to=to, for_call=for_call):
                share = context.lend if for_call else context.fork
                self.unfinished = (*self.unfinished, share(self._needed(task, name), worker(to)))
            case do.Abandon():
                undone, self.unfinished = self.unfinished, ()
                self._obey(context.abandon(undone))
            case do.Wait() | do.Need():
                pass
            case do.Take(name=name):
                self._bind(task, name, self.variables.pop(name))
            case _:
                assert_never(action)

    def _issue(self) -> tuple[WorkerId, int] | None:
        """Who asks, and the number of the call that is minted next."""
        return (self.me, self.context.state.calls + 1) if self.ordered else None

    def _needed(self, task: Task | None, name: str) -> RRefId:
        rref = self._find(task, name)
        if rref is None:
            raise AssertionError(f"{self.me} has no {name}")
        return rref

    def _pack(
        self,
        task: Task | None,
        code: Code,
        to: WorkerId,
        forks: list[Descriptor],
        *,
        replies: bool | None = None,
    ) -> Cargo:
        """Pickle: fork for a one-way message (*replies* None), lend for a request."""
        for name in code.names:
            rref = self._needed(task, name)
            if replies is None:
                forks.append(self.context.fork(rref, to))
            else:
                forks.append(self.context.lend(rref, to, replies=replies))
        return Cargo(payload=code, descriptors=tuple(forks))

    def _chain(self, task: Task | None, call: str) -> tuple[RRefId, ...]:
        """The objects that wait for *call*: those whose task does."""
        return (
            task.chain
            if task and any(isinstance(each, do.Wait) and each.call == call for each in task.todo)
            else ()
        )

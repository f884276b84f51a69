"""One endpoint of a program: the shell of `farref.world`, one step at a time.

The endpoint decides nothing about references. It keeps books of the program's handles, and the
properties compare these with the machines' tables. Each request and reply becomes a `Task`, and
each action of a task is a step of its own, so that anything may happen in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress
from typing import assert_never

from msgspec.structs import replace

from farref.protocol.dead import Dead
from farref.protocol.effects import (
    Lose,
    Loss,
    Refusal,
    Refuse,
    Resume,
    Send,
    Settle,
    Stop,
    Unstopped,
)
from farref.protocol.errors import ReferenceLostError, WorkerDiedError
from farref.protocol.holders import HolderReport
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Busy,
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
    Request,
    Returned,
    Tell,
)
from farref.protocol.sharing import Sharing
from farref.world.shell import Shell

from . import script as do
from .reach import seen_blindly
from .script import Action, Code, Script
from .state import discard, freeze
from .states import WatchedContext
from .steps import Act, Answer, Arrival, Bury, Forget, Judge, Notice, Search, Step, Suspect
from .task import Stage, Task, key

CONSTANT = {"me", "tracer", "sharing", "mortal", "ordered", "lingers", "_out", "tasks"}
"""The attributes of an endpoint that are the same in all its states, and `tasks`, in no order."""


def worker(name: str) -> WorkerId:
    """The endpoint that scripts call *name*, with a number that no other name has."""
    return WorkerId(name, int.from_bytes(name.encode(), "big"))


def workers(dead: Dead) -> frozenset[WorkerId]:
    numbers = (number for first, last in dead.spans for number in range(first, last + 1))
    return frozenset(
        WorkerId(number.to_bytes(-(-number.bit_length() // 8), "big").decode(), number)
        for number in numbers
    )


def hands_over(message: Message) -> bool:
    """*message* hands a table of borrowers over: its sender does not have it any more."""
    return isinstance(message, Reply | Returned) and any(it.borrowers for it in message.loans)


class ScriptedEndpoint(Shell):
    """The endpoint *me*, running *script*; it shares by *sharing* in calls."""

    context: WatchedContext

    def __init__(
        self,
        me: WorkerId,
        script: Script,
        sharing: Sharing = "fork",
        mortal: frozenset[WorkerId] = frozenset(),
        *,
        ordered: bool = False,
        lingers: bool = False,
    ) -> None:
        super().__init__(WatchedContext(me, sharing))
        self.sharing = sharing
        self.mortal = mortal
        self.script = script
        self.variables: dict[str, RRefId] = {}
        self.tasks: tuple[Task, ...] = ()
        self.calls: dict[str, CallId] = {}
        self.freed: set[RRefId] = set()
        self.unfinished: tuple[Descriptor, ...] = ()
        """Forks of a message that is being pickled."""
        self.handed: set[object] = set()
        """All keys handed to the program so far."""
        self.buried: set[WorkerId] = set()
        self.owed: set[ForkId] = set()
        """The acknowledgements without which the deaths that it heard of are not settled."""
        self.lost: set[RRefId] = set()
        """Objects here that got a loss for a value."""
        self.late: set[RRefId] = set()
        """Of these, the ones that had been freed before."""
        self.borrowed: set[ForkId] = set()
        """Every loan that was ever unpacked here (kept only in "borrow", where notices exist)."""
        self.took_back: set[RRefId] = set()
        """The objects with tables that were taken back after their receivers had died."""
        self.over: dict[WorkerId, tuple[Message, ...]] = {}
        """The messages to each mortal endpoint that handed tables over."""
        self.stood: dict[RRefId, RRefId] = {}
        """The objects here with functions that returned a reference, and the target of each."""
        self.broken: dict[RRefId, Loss] = {}
        """Of these, the ones that have an error for a value, and the reason."""
        self.errors: set[CallId] = set()
        """The calls with the answer that the object is lost."""
        self.ordered = ordered
        self.ran: dict[tuple[RRefId, WorkerId], int] = {}
        """In ordered programs: for each object and caller, the request that ran last."""
        self.unstoppable: set[CallId] = set()
        """The calls that were to be cancelled, and whose callees have refused."""
        self.victims: set[CallId] = set()
        """Calls that were refused because they waited in a ring."""
        self.laps: dict[tuple[Hop, ...], bool] = {}
        """Rings that began a second lap here, and whether each ring existed then: see `model`."""
        self.suspicions = 0
        """The number of early suspicions."""
        self.searches = 0
        """The number of early searches for garbage in cycles."""
        self.rested = 0
        """The number of those that began when nothing else happened."""
        self.collected: set[RRefId] = set()
        """Objects here that were collected, and are not freed yet."""
        self.opened: dict[str, RRefId] = {}
        """Objects here with a value that a variable leads to, without a handle."""
        self.loose: dict[RRefId, tuple[RRefId, ...]] = {}
        """Of these, the ones that are gone: the handles in each value, which the variable keeps."""
        self.lingers = lingers
        self.holder_reports: dict[tuple[WorkerId, int], HolderReport] = {}
        """In programs that linger: the exact answers in the making, by asker and look."""
        self.weighing: tuple[RRefId, ...] = ()
        """In such programs: the searches that are to be weighed."""
        self.serial = 0
        self._out: list[Send] = []

    def __del__(self) -> None:
        discard(self.context)

    def freeze(self) -> Hashable:
        """All that changes."""
        frozen = [freeze(value) for name, value in vars(self).items() if name not in CONSTANT]
        return frozenset(self.tasks), *frozen  # no two tasks are equal: see `_hand`

    def handles(self) -> Counter[RRefId]:
        """The handles in this process, by our books."""
        held: Counter[RRefId] = Counter()
        for rref, number in self.named().items():
            held[self.context.whereabouts(rref)] += number
        return held

    def named(self) -> Counter[RRefId]:
        """The handles by their names: an alias has one handle of its target."""
        held = Counter(self.variables.values())
        for inside in (*self.inside.values(), *self.loose.values()):
            held.update(inside)
        for task in self.tasks:
            held.update(rref for _, rref in task.frame)
        held.update(self.targets().values())
        return held

    def targets(self) -> dict[RRefId, RRefId]:
        """The target of each object here that stands for another one."""
        gone = self.freed | self.broken.keys()
        return {rref: target for rref, target in self.stood.items() if rref not in gone}

    def roots(self) -> Iterator[RRefId]:
        """The objects that code here reaches at once, and those that its messages name."""
        where = self.context.whereabouts
        yield from map(where, self.variables.values())
        yield from self.messages()
        yield from (each.rref for each in self.unfinished)
        for opened in self.opened.values():
            yield from map(where, self.inside.get(opened, self.loose.get(opened, ())))
        for task in self.tasks:
            yield from (where(rref) for _, rref in task.frame)
            if isinstance(task.message, Create):
                yield task.message.rref
            if task.target is not None:
                yield task.target

    def messages(self) -> Counter[RRefId]:
        """The messages that hold a reference until they have been handled, by our books."""
        held: Counter[RRefId] = Counter()
        for task in self.tasks:
            held.update(descriptor.rref for descriptor in task.cargo.descriptors)
        waiting = [each for owner in self.context.owners.values() for each in owner.queue.values()]
        relays = [each.relay for each in self.context.waiting.values() if each.relay]
        waiting += [(relay.sender, relay.request) for relay in relays]
        for sender, request in waiting:
            if isinstance(request, Resume):
                continue  # it has a task
            cargo = Task(sender, request).cargo
            held.update(descriptor.rref for descriptor in cargo.descriptors)
        return held

    def holds(self) -> Counter[RRefId]:
        """Everything that holds a reference here, by our books."""
        return self.handles() + self.messages()

    # ---- steps

    def steps(self) -> list[Act | Answer | Judge]:
        acts: list[Act | Answer | Judge] = [
            Act(task) for task in dict.fromkeys(self.tasks) if self._can_act(task)
        ]
        if self.script and self._ready(None, self.script):
            acts.append(Act())
        acts += (Answer(*look) for look in self.holder_reports)
        acts += map(Judge, self.weighing)
        return acts

    def take(self, step: Step) -> list[Send]:
        self.context.watch()
        match step:
            case Arrival(sender=sender, message=message):
                self._note(message)
                self.obey(self.context.receive(sender, message))
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
                self.obey(self.context.died(dead, unacknowledged))
                self.owed |= self.context.uncounted()
            case Bury(worker=dead):
                self.buried.add(dead)
                self.obey(self.context.bury(dead))
            case Suspect(rref=rref, early=early):
                self.suspicions += early
                self.obey(self.context.suspect(rref))
            case Search(rref=rref, early=early, together=together):
                self.searches += early
                self.rested += not early
                others = sorted(self.inside.keys() - {rref}) if together else []
                self.obey(self.context.suspect_cycle([rref, *others]))
            case Forget(rref=rref):
                self.obey(self.context.give_up_cycle(rref))
            case Answer(asker=asker, look=look):
                super().answer(asker, look, self.holder_reports.pop((asker, look)))
            case Judge(start=start):
                self.weighing = tuple(each for each in self.weighing if each != start)
                super().weigh(start)
            case _:
                assert_never(step)
        if self.owed:
            self.owed &= self.context.uncounted()
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

    def _can_act(self, task: Task) -> bool:
        """Whether *task* can go one step further: it has a turn, or may line up for one."""
        if task.stage is Stage.IN_LINE:
            return False
        return self._gives_way(task) or self._ready(task, task.todo)

    def _gives_way(self, task: Task) -> bool:
        awaits = task.todo and isinstance(task.todo[0], do.Await)
        return bool(awaits) and task.stage is Stage.BEGUN and task.target is not None

    def _ready(self, task: Task | None, todo: Script) -> bool:
        """Whether the first action of *todo* can begin."""
        needed: tuple[str, ...]
        match todo[0] if todo else do.Abandon():
            case do.Wait(call=call, patient=patient) | do.Await(call=call, patient=patient):
                cancelled = task is not None and task.cancelled
                return not patient or cancelled or self.calls.get(call) not in self.context.waiting
            case do.Heed(call=call):
                heeded = self.calls[call]
                return heeded in self.unstoppable or heeded not in self.context.waiting
            case do.Drop(name=name) | do.Keep(name=name) | do.Pickle(name=name):
                needed = (name,)
            case do.Need(name=name) | do.Open(name=name) | do.Get(name=name):
                needed = (name,)
            case do.Take(name=name):
                return name in self.variables
            case do.Own(inside=inside):
                needed = inside
            case do.Put(name=name, into=into):
                return self._find(task, name) is not None and self._value(task, into) is not None
            case do.Shut(name=name):
                return name in self.opened
            case do.Pull(out_of=out_of):
                value = self._value(task, out_of)
                return bool(self.inside.get(value, self.loose.get(value))) if value else False
            case do.Remote(refs=refs, method_of=target):
                needed = refs if target is None else (*refs, target)
            case do.Say(refs=refs) | do.Ask(refs=refs):
                needed = refs
            case do.Method(name=name, refs=refs):
                needed = (*refs, name)
            case do.Revoke(call=call):
                return call in self.calls
            case do.Abandon() | do.Rest():
                needed = ()
            case action:
                assert_never(action)
        return all(self._find(task, name) is not None for name in needed)

    # ---- effects

    def post(self, to: WorkerId, message: Message) -> None:
        """Collect the message; `take` returns it."""
        self._out.append(Send(to, message))

    def start(self, sender: WorkerId, message: Request | Tell) -> None:
        task = Task(sender, message)
        self._see(task)
        self._hand(task)

    def resume(self, effect: Resume) -> None:
        """The task has its turn, and its await is over."""
        task = next(
            each
            for each in self.tasks
            if each.stage is Stage.IN_LINE and getattr(each.message, "call", None) == effect.call
        )
        self._go_on(replace(task, stage=Stage.BEGUN), task)

    def _go_on(self, task: Task, before: Task) -> None:
        """*task* is past its await, which raises if the task was cancelled."""
        awaited, *rest = task.todo
        self._replace(before, replace(task, todo=() if task.cancelled else tuple(rest)))
        if task.cancelled:
            self._cancel_nested(awaited)

    def _cancel_nested(self, awaited: Action, *, interrupt: bool = False) -> None:
        call = self.calls.get(getattr(awaited, "call", ""))
        if call is not None:
            self.obey(self.context.cancel(call, interrupt=interrupt))

    def refuse(self, effect: Refuse) -> None:
        """Make a task that only answers with the error."""
        if effect.why is Refusal.RING:
            self.victims.add(effect.request.call)
        self._hand(Task(effect.sender, effect.request, refused=True))

    def settle(self, effect: Settle) -> None:
        task = Task(effect.sender, effect.reply)
        if task.code.error:
            self.errors.add(effect.reply.call)
        self._hand(task)

    def stop(self, effect: Stop) -> None:
        """End the call: at once if it has not begun, and else as the real shell does."""
        for task in self.tasks:
            match task:
                case Task(sender=caller, message=Call() | Invoke() as message) if (
                    caller == effect.sender and message.call == effect.call
                ):
                    self._stop(task, message, interrupt=effect.interrupt)
                case _:
                    pass

    def unstopped(self, effect: Unstopped) -> None:
        self.unstoppable.add(effect.call)

    def _stop(self, task: Task, message: Call | Invoke, *, interrupt: bool) -> None:
        if task.stage is Stage.ARRIVED and isinstance(message, Call):
            self._replace(task, replace(task, refused=True))
        elif task.stage is Stage.ARRIVED:
            self._replace(task, replace(task, stage=Stage.BEGUN, cancelled=True))
        elif any(isinstance(each, do.Await) for each in task.todo):
            self._replace(task, replace(task, cancelled=True))
        elif not interrupt:
            self.obey(self.context.refuse_cancel(message.call))
        else:
            self._replace(task, replace(task, todo=(), cancelled=True))
            if task.todo and isinstance(task.todo[0], do.Wait):
                self._cancel_nested(task.todo[0], interrupt=True)

    def lose(self, effect: Lose) -> None:
        """Note whether a value, or an error in its place, was ever there to be freed."""
        rref = effect.rref
        if effect.why is not Loss.CREATOR:
            self.broken[rref] = effect.why
        else:
            self.lost.add(rref)
            if rref in self.freed:
                self.late.add(rref)
                self.freed.discard(rref)
        super().lose(effect)

    def free(self, rref: RRefId) -> None:
        self.collected.discard(rref)
        if rref in self.lost:
            self.lost.discard(rref)
        else:
            self.freed.add(rref)
        if rref in self.inside:
            self._loosen(rref)
        super().free(rref)

    def held_by_values(self) -> dict[RRefId, Counter[RRefId]]:
        """A handle in a value that a variable leads to is not held by the value alone."""
        held = super().held_by_values()
        for counts in held.values():
            for opened in self.opened.values():
                del counts[opened]
        return held

    def seen_in_values(self) -> dict[RRefId, Counter[RRefId]]:
        """The first look misses all variables of an object that a value holds."""
        return seen_blindly(self)

    def answer(self, asker: WorkerId, look: int, report: HolderReport) -> None:
        """Answer, or linger if the moment of the finding matters."""
        if self.lingers and report.exact:
            self.holder_reports[asker, look] = report
        else:
            super().answer(asker, look, report)

    def weigh(self, start: RRefId) -> None:
        if not self.lingers:
            super().weigh(start)
        elif start not in self.weighing:
            self.weighing = (*self.weighing, start)

    def collect(self, rref: RRefId) -> None:
        self.collected.add(rref)
        self._loosen(rref)
        super().collect(rref)

    def _loosen(self, rref: RRefId) -> None:
        """The object of *rref* goes; a variable may keep its value."""
        if rref in self.opened.values():
            self.loose[rref] = self.inside.pop(rref)

    @property
    def settles(self) -> bool:
        """Whether the script is to wait until nothing else happens."""
        return bool(self.script) and isinstance(self.script[0], do.Rest)

    def awaited(self, run: CallId) -> tuple[CallId | None, int, str]:
        """The call that the task of the request *run* is blocked in."""
        for task in self.tasks:
            if getattr(task.message, "call", None) == run and not isinstance(task.message, Reply):
                match task.todo:
                    case (do.Wait(call=name) | do.Await(call=name), *_) if self.calls.get(
                        name
                    ) in self.context.waiting and not self._gives_way(task):
                        return self.calls[name], len(task.todo), ""
        return None, 0, ""

    def suspects(self) -> list[RRefId]:
        """The objects with a queued request that waits for a request that waits."""
        return [
            owner.rref
            for owner in self.context.owners.values()
            if owner.queue and (blocker := self.context.deadlocks.blocker(owner.rref)) is not None
            if blocker in self.context.state.asking or self.awaited(blocker)[0] is not None
        ]

    def _see(self, task: Task) -> None:
        """*task* runs: check that it is its caller's turn."""
        if self.ordered and task.occupies is not None:
            caller, number = task.code.issued or (task.sender, 0)
            if isinstance(task.message, Fetch):
                call = task.message.call
                caller, number = call.caller, call.number
            if self.ran.get((task.occupies, caller), 0) >= number:
                raise AssertionError(f"request {number} of {caller} was overtaken: {task.message}")
            self.ran[task.occupies, caller] = number

    def _hand(self, task: Task) -> None:
        if key(task) in self.handed:
            raise AssertionError(f"{task.message} was handed over twice")
        self.handed.add(key(task))
        self.tasks = (*self.tasks, task)

    def _replace(self, task: Task, *new: Task) -> None:
        index = self.tasks.index(task)
        self.tasks = (*self.tasks[:index], *new, *self.tasks[index + 1 :])

    # ---- tasks

    def _advance(self, task: Task) -> None:
        if task.stage is Stage.ARRIVED and task.cargo.descriptors and not task.refused:
            self._begin(task)
        elif task.stage is Stage.ARRIVED and not task.refused and task.code.body:
            self._replace(task, replace(task, stage=Stage.BEGUN, todo=task.code.body))
        elif self._gives_way(task) and task.target is not None:
            self._replace(task, replace(task, stage=Stage.ASIDE))
            self.obey(self.context.pause(task.target, task.message.call))  # type: ignore[union-attr]  # it is a request
        elif task.stage is Stage.ASIDE and task.target is not None:
            self._replace(task, replace(task, stage=Stage.IN_LINE))
            self.obey(self.context.resume(task.target, task.message.call))  # type: ignore[union-attr]  # it is a request
        elif task.todo and task.cancelled and isinstance(task.todo[0], do.Await):
            self._go_on(task, task)
        elif task.todo:
            action, *rest = task.todo
            later = replace(task, todo=tuple(rest))
            self._replace(task, later)
            self._perform(later, action)
        else:
            self._end(task)

    def _begin(self, task: Task) -> None:
        """Unpickle: handles come into being."""
        code = task.code
        if not code.readable:
            self._replace(task, replace(task, stage=Stage.BEGUN))
            return
        frame = tuple(zip(code.names, self.unpickle(task.cargo), strict=True))
        self._replace(task, replace(task, stage=Stage.BEGUN, todo=code.body, frame=frame))

    def _end(self, task: Task) -> None:
        """The handler returns: its handles go, it answers, and the object is free."""
        raises = task.refused or task.cancelled or not task.code.readable
        names = () if raises else task.code.returns
        found = tuple(it for name in names if (it := self._find(task, name)) is not None)
        alias = self._find(task, task.code.alias) if task.code.alias else None
        self._replace(task)
        handles = tuple(handle for _, handle in task.frame)
        match task.message:
            case Tell() | Reply():
                self.finish(task.message, handles)
            case _ if task.refused:
                self.reject(task.message, Code())
            case Create() if alias is not None and task.code.readable:
                self.finish(task.message, handles, (alias,), bare=True)
            case Create():
                self.finish(task.message, handles, found)
            case Fetch(rref=rref):
                inside = self.inside.get(rref, ()) if task.code.readable else ()
                kept = tuple(f"inside{index}" for index, _ in enumerate(inside))
                self._answer(task, Code(names=kept, body=tuple(map(do.Keep, kept))), inside)
            case _:
                then = () if task.cancelled else task.code.then
                code = Code(names=names if found else (), body=then)
                self._answer(task, code, found)

    def _answer(self, task: Task, code: Code, rrefs: tuple[RRefId, ...]) -> None:
        nothing = Code(error=task.occupies in self.broken)
        handles = tuple(handle for _, handle in task.frame)
        try:
            answer = replace(code, error=nothing.error) if rrefs else nothing
            self.finish(task.message, handles, rrefs, answer)
        except (ReferenceLostError, WorkerDiedError):
            self.finish(task.message, handles, (), nothing)

    # ---- names

    def _find(self, task: Task | None, name: str) -> RRefId | None:
        frame = dict(task.frame) if task else {}
        if name == "self" and task is not None:
            return task.target
        return frame.get(name) or self.variables.get(name)

    def _value(self, task: Task | None, name: str) -> RRefId | None:
        return self.opened.get(name) or self._find(task, name)

    def _valued(self, task: Task | None, name: str) -> RRefId:
        found = self._value(task, name)
        if found is None:
            raise AssertionError(f"{self.me} has no value {name}")
        return found

    def _bind(self, task: Task | None, name: str, rref: RRefId) -> None:
        if task is None:
            older = self.variables.get(name)
            self.variables[name] = rref
            if older is not None:
                self.obey(self.context.drop(older))
        else:
            self._replace(task, replace(task, frame=(*task.frame, (name, rref))))

    def _unbind(self, task: Task | None, name: str) -> RRefId:
        frame = dict(task.frame) if task else {}
        if task is None or name not in frame:
            return self.variables.pop(name)
        last = max(index for index, (each, _) in enumerate(task.frame) if each == name)
        self._replace(task, replace(task, frame=task.frame[:last] + task.frame[last + 1 :]))
        return frame[name]

    def _moved(self, task: Task | None, name: str, *, copy: bool) -> RRefId:
        if not copy:
            return self._unbind(task, name)
        rref = self._needed(task, name)
        self.context.hold(rref)
        return rref

    # ---- actions

    def _perform(self, task: Task | None, action: Action) -> None:
        with suppress(ReferenceLostError, WorkerDiedError):  # the program goes on
            self._try(task, action)

    def _try(self, task: Task | None, action: Action) -> None:
        context = self.context
        match action:
            case do.Own(name=name, inside=inside):
                rref = context.own(serial=action.serial)
                self.inside[rref] = tuple(self._needed(task, each) for each in inside)
                for each in self.inside[rref]:
                    context.hold(each)
                self._bind(task, name, rref)
            case do.Remote(name=name, to=to):
                target = self._needed(task, action.method_of) if action.method_of else None
                code = Code(action.refs, action.body, action.returns, readable=action.readable)
                code = replace(code, alias=action.alias, issued=self._issue())
                owner = worker(to) if target is None else context.owner_of(target)
                cargo = self._lent(task, code, owner, replies=False)
                rref, effects = context.create(owner, cargo, target)
                self._bind(task, name, rref)
                self.obey(effects)
            case do.Say(to=to, refs=refs, body=body, readable=readable):
                self.serial += 1
                code = Code(refs, body, readable=readable, serial=self.serial)
                cargo = self.fork(worker(to), (self._needed(task, each) for each in refs), code)
                self.obey(context.tell(worker(to), cargo))
            case do.Ask(call=name, to=to, refs=refs, body=body, returns=returns, then=then):
                code = Code(refs, body, returns, then, action.readable)
                cargo = self._lent(task, code, worker(to))
                call, effects = context.call(worker(to), cargo, self._chain(task, name))
                self.calls[name] = call
                self.obey(effects)
            case do.Method(call=name, name=target_name, refs=refs, body=body):
                on = self._needed(task, target_name)
                code = Code(refs, body, action.returns, action.then, issued=self._issue())
                cargo = self._lent(task, code, context.owner_of(on))
                call, effects = context.invoke(on, cargo, self._chain(task, name))
                self.calls[name] = call
                self.obey(effects)
            case do.Get(call=name, name=of, direct=direct, copy=copy):
                chain = self._chain(task, name)
                rref = self._needed(task, of)
                call, effects = context.fetch(rref, chain, copy=copy, direct=direct)
                self.calls[name] = call
                self.obey(effects)
            case do.Revoke(call=name):
                self.obey(context.cancel(self.calls[name], interrupt=action.interrupt))
            case do.Drop(name=name):
                rref = self._unbind(task, name)
                self.obey(context.drop(rref))
            case do.Keep(name=name, under=under):
                self._bind(None, under or name, self._unbind(task, name))
            case do.Put(name=name, into=into):
                holder = self._valued(task, into)
                if holder not in self.inside.keys() | self.loose.keys():
                    return  # it has an error for a value
                values = self.inside if holder in self.inside else self.loose
                values[holder] = (*values[holder], self._moved(task, name, copy=action.copy))
            case do.Pull(name=name, out_of=out_of):
                holder = self._valued(task, out_of)
                values = self.inside if holder in self.inside else self.loose
                *stay, rref = values[holder]
                values[holder] = tuple(stay)
                self._bind(task, name, rref)
            case do.Open(name=name):
                self.opened[name] = self._needed(task, name)
            case do.Shut(name=name):
                self.drop(self.loose.pop(self.opened.pop(name), ()))
            case do.Pickle(name=name, to=to, for_call=for_call):
                share = context.lend_all if for_call else context.fork_all
                made = share((self._needed(task, name),), worker(to))
                self.unfinished = (*self.unfinished, *made)
            case do.Abandon():
                undone, self.unfinished = self.unfinished, ()
                self.obey(context.abandon(undone))
            case do.Wait() | do.Await() | do.Need() | do.Rest() | do.Heed():
                pass
            case do.Take(name=name):
                self._bind(task, name, self.variables.pop(name))
            case _:
                assert_never(action)

    def _issue(self) -> tuple[WorkerId, int] | None:
        """The asker, and the number of the next call that it mints."""
        return (self.me, self.context.state.calls + 1) if self.ordered else None

    def _needed(self, task: Task | None, name: str) -> RRefId:
        rref = self._find(task, name)
        if rref is None:
            raise AssertionError(f"{self.me} has no {name}")
        return rref

    def give(self, call: CallId, rrefs: Iterable[RRefId]) -> tuple[Descriptor, ...]:
        """Give a loan back once and fork its further handles, so that both are explored."""
        backs: set[Descriptor] = set()

        made: list[Descriptor] = []
        for rref in rrefs:
            given = self.context.give_all((rref,), call)[0]
            if given in backs:
                given = self.context.fork_all((rref,), call.caller, lost=True)[0]
            elif given.passing is Passing.BACK:
                backs.add(given)
            made.append(given)
        return tuple(made)

    def _lent(self, task: Task | None, code: Code, to: WorkerId, *, replies: bool = True) -> Cargo:
        refs = (self._needed(task, each) for each in code.names)
        return self.lend(to, refs, code, replies=replies)

    def _chain(self, task: Task | None, call: str) -> tuple[Busy, ...]:
        """The objects that wait for *call*: those with a task that keeps its turn meanwhile."""
        waits = (each for each in task.todo if getattr(each, "call", None) == call) if task else ()
        for each in waits:
            match each:
                case do.Wait() if task is not None:
                    return task.chain
                case do.Await() if task is not None:
                    return tuple(each for each in task.chain if each.rref != task.target)
                case _:
                    pass
        return ()

"""A small deterministic runner of the shipped machines, to count a program's messages.

The endpoints are shells of `farref.world`. Messages are delivered in the order sent, nothing fails,
and each step of a program comes to rest before the next. A function that runs at an endpoint is a
`Task`: it has a handle of each reference that arrived, and keeps those that the program names.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters

from farref.actors.recording.tracefile import FileSink
from farref.actors.recording.tracing import Tracer
from farref.protocol.context import Context
from farref.protocol.effects import Effect, Settle
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import (
    Call,
    Create,
    Fetch,
    Invoke,
    Message,
    Reply,
    Request,
    Tell,
)
from farref.protocol.sharing import Sharing
from farref.trace import Story, read
from farref.world.net import Net, Transit
from farref.world.shell import Shell

USER = (Call, Create, Fetch, Invoke, Reply, Tell)


class Node(Shell):
    """The endpoint *at* of *world*."""

    def __init__(self, world: World, at: str) -> None:
        me = WorkerId(at, 2 * int(at.strip(ascii_letters) or 0))  # no two follow each other
        tracer = None
        if world.trace:
            tracer = Tracer(me)
            tracer.begin(FileSink(world.trace, me), world.sharing)
        super().__init__(Context(me, world.sharing), tracer)
        self.world = world

    def post(self, to: WorkerId, message: Message) -> None:
        """Send *message*, and count a control message to another endpoint."""
        self.world.send(self.me, to, message)
        if to != self.me and not isinstance(message, USER):
            self.world.control[type(message).__name__] += 1

    def start(self, sender: WorkerId, message: Request | Tell) -> None:
        """Begin a task; answer a fetch at once."""
        if isinstance(message, Fetch):
            self.finish(message, brings=self.inside.get(message.rref, ()), payload="copy")
        else:
            self.world.tasks.append(Task(self, message, list(self.unpickle(message.cargo))))

    def settle(self, effect: Settle) -> None:
        """Keep the handles in the reply as the world's `results`."""
        self.world.results = list(self.unpickle(effect.reply.cargo))
        self.finish(effect.reply)

    def awaited(self, run: CallId) -> tuple[CallId | None, int, str]:
        """No function waits."""
        return None, 0, ""


@dataclass(slots=True, eq=False)
class Task:
    """A function or handler that runs at *node*, and its handles."""

    node: Node
    message: Call | Create | Invoke | Tell
    handles: list[RRefId]

    @property
    def at(self) -> str:
        """The endpoint that runs it."""
        return self.node.me.name

    def keep(self, *rrefs: RRefId) -> Task:
        """Make these handles outlive the task: drop them by `World.drop`. Returns the task."""
        for rref in rrefs:
            self.handles.remove(rref)
        return self

    def end(self, *returned: RRefId, bare: bool = False) -> None:
        """Return, with *returned* in the result; everything comes to rest."""
        self.node.world.tasks.remove(self)
        self.node.finish(self.message, self.handles, returned, "result", bare=bare)
        self.node.world.settle()

    def alias(self, target: RRefId) -> None:
        """A creation returns the bare reference *target*: its result stands for that one."""
        self.end(target, bare=True)


class World(Net[Node]):
    """Endpoints that share in calls by *sharing*, and a count of their messages."""

    def __init__(self, sharing: Sharing, trace: str = "") -> None:
        """*trace*: a folder in which the endpoints record their steps, as actors do."""
        super().__init__()
        self.sharing = sharing
        self.trace = trace
        self.tasks: list[Task] = []
        self.results: list[RRefId] = []
        """The references of the last reply: handles of the caller."""
        self.control: Counter[str] = Counter()
        """Control messages between two endpoints, by kind."""
        self.shut: set[tuple[str, str]] = set()
        """The ways on which messages stay, each a sender and a receiver."""
        self.kept: list[Transit] = []

    # ---- programs

    def own(self, at: str, *inside: RRefId) -> RRefId:
        """``RRef(value)``; the value takes over the handles *inside*."""
        node = self[at]
        rref = node.context.own()
        node.inside[rref] = inside
        return rref

    def remote(self, at: str, to: str, *refs: RRefId) -> RRefId:
        """``remote(to, f, args=refs)``; `running` returns the task, which has no reply."""
        node, worker = self[at], self[to].me
        rref, effects = node.context.create(worker, node.lend(worker, refs, replies=False))
        self.rest(node, effects)
        return rref

    def made(self, at: str, to: str) -> RRefId:
        """An object on *to* that *at* requested and that exists."""
        rref = self.remote(at, to)
        self.running(to).end()
        return rref

    def call(self, at: str, to: str, *refs: RRefId) -> Task:
        """``rpc_async(to, f, args=refs)``."""
        node, worker = self[at], self[to].me
        self.rest(node, node.context.call(worker, node.lend(worker, refs))[1])
        return self.running(to)

    def method(self, at: str, on: RRefId, *refs: RRefId) -> Task:
        """``on.rpc_async().f(*refs)``."""
        node = self[at]
        cargo = node.lend(node.context.owner_of(on), refs)
        self.rest(node, node.context.invoke(on, cargo)[1])
        return self.tasks[-1]  # not on its owner if *on* is an alias

    def fetch(self, at: str, rref: RRefId, *, direct: bool = False) -> None:
        """``rref.future()``, or with *direct* ``rref.to_here()``."""
        node = self[at]
        self.rest(node, node.context.fetch(rref, direct=direct)[1])

    def tell(self, at: str, to: str, *refs: RRefId) -> Task:
        """``send(to, message)``."""
        node, worker = self[at], self[to].me
        self.rest(node, node.context.tell(worker, node.fork(worker, refs)))
        return self.running(to)

    def drop(self, at: str, *rrefs: RRefId) -> None:
        """Drop handles of *at*."""
        node = self[at]
        self.rest(node, node.context.drop(*rrefs))

    def running(self, at: str) -> Task:
        """The task that began last at *at*."""
        return next(task for task in reversed(self.tasks) if task.at == at)

    def left(self) -> list[object]:
        """Everything that is still there, at any endpoint."""
        entries: list[object] = [*self.flight, *self.tasks]
        for context in (node.context for node in self.endpoints.values()):
            entries += [*context.owners.values(), *context.users.values(), *context.waiting]
        return entries

    def read(self) -> Story:
        """The story of the recording; nothing is recorded after it."""
        for node in self.endpoints.values():
            if node.tracer:
                node.tracer.close()
        return read(Path(self.trace))

    # ---- the net

    def send(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        """Send *message*, or keep it if its way is shut."""
        if (sender.name, to.name) in self.shut:
            self.kept.append(Transit(sender, to, message))
        else:
            super().send(sender, to, message)

    def deliver_first(self) -> None:
        """The first kept message arrives."""
        self.arrive(self.kept.pop(0))
        self.settle()

    def __getitem__(self, at: str) -> Node:
        """The endpoint *at*, made now if it is new."""
        if at not in self.endpoints:
            self.endpoints[at] = Node(self, at)
        return self.endpoints[at]

    def rest(self, node: Node, effects: list[Effect]) -> None:
        """Carry out *effects*, and deliver until nothing is in flight."""
        node.obey(effects)
        self.settle()


def random_program(world: World, seed: int, steps: int = 40) -> World:
    """Play a random program to its end; it is the same in every discipline."""
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

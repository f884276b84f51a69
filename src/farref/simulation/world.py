"""The world of a simulation: virtual time, the endpoints, and what befalls them.

Time jumps from one event to the next. A death becomes known to each of the others after a while
of its own, as notices do; who is silent for too long is given up by a watcher, the registrar's
part (`Liveness`), and does nothing more when it wakes.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..actors.tracefile import FileSink
from ..actors.tracing import Tracer
from ..protocol.ids import WorkerId
from ..protocol.liveness import Liveness
from ..protocol.packets import decode, encode
from .jobs import Ask, Job
from .network import Network
from .node import Node
from .oracle import Oracle, WrongError
from .plan import DISASTERS, GRACE, NODES, name_of
from .rings import Rings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.delivery import Packet
    from ..protocol.ids import RRefId
    from .plan import Act, Plan

NOTICE = 1.0
"""Seconds that the news of a death takes at most."""
SILENCE = 5
"""Seconds without a beat after which an endpoint is given up."""
AFTERWARDS = 6000.0
"""Seconds after the last act within which everything has to have come to rest."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan."""

    plan: Plan
    wrong: str | None
    """The guarantee that was broken, and how; None if all is well."""
    kind: str
    """The guarantee, or the kind of error, alone."""
    seconds: float
    """Virtual ones."""
    done: Counter[str]
    """Acts that found something to do, and what the network did."""


def simulate(plan: Plan, trace: Path | None = None) -> Outcome:
    """Play *plan* to its end, or to the first thing that goes wrong.

    With *trace*, a folder, every endpoint records its steps there, as actors do.
    """
    world = World(plan, trace)
    wrong, kind = None, ""
    try:
        world.play()
    except WrongError as error:
        wrong, kind = str(error), error.guarantee
    except Exception as error:  # whatever it is, its seed is worth knowing
        kind = type(error).__name__
        wrong = f"{kind}: {error}"
    world.close()
    done = world.done
    done["packets lost"], done["packets repeated"] = world.network.lost, world.network.repeated
    return Outcome(plan, wrong, kind, world.now, +done)


class World:
    """Everything there is."""

    def __init__(self, plan: Plan, trace: Path | None) -> None:
        self.plan = plan
        self.now = 0.0
        self.grace = plan.grace
        self.network = Network(plan.seed, plan.loss)
        self.oracle = Oracle()
        self.rings = Rings(self.oracle, self._living)
        self.done: Counter[str] = Counter()
        self._trace = trace
        self._dice = random.Random(f"world {plan.seed}")
        self._events: list[tuple[float, int, Node | None, Callable[[], object]]] = []
        self._order = itertools.count()
        self._ticks: dict[WorkerId, float] = {}
        self._lives = itertools.count(1)
        self._tracers: list[Tracer] = []
        self._liveness = Liveness(SILENCE)
        self._nodes: list[Node | None] = [None] * NODES
        for number in range(NODES):
            self._start(number)

    def play(self) -> None:
        """All acts, then everybody lets go of everything, and nothing may be left."""
        for act in self.plan.acts:
            self._run_until(act.at)
            self._act(act)
        self._run_until(self.now + 20.0)
        end = self.now + AFTERWARDS
        while self.now < end:
            for node in self._living():
                gone, node.handles = node.handles, []
                node.do(node.context.drop(*gone))
            if not self._step(end):
                break
        self._check_end()

    def close(self) -> None:
        """Record no more."""
        for tracer in self._tracers:
            tracer.close()

    # ---- what nodes ask of the world

    def at(self, number: int) -> WorkerId | None:
        """Who is at that place now."""
        node = self._nodes[number]
        return node.me if node is not None else None

    def freed(self, rref: RRefId) -> None:
        """Its owner has freed it."""
        self.oracle.freed(rref, self._living())

    def burying(self, node: Node, worker: WorkerId) -> None:
        """*node* counts the dead *worker* no more: for some of its objects maybe too early."""
        others = self._living()
        unaware = any(dead not in each.context.dead for each in others for dead in self.oracle.dead)
        for rref, owner in node.counts(worker):
            if unaware or any(each.announces(rref, owner) for each in others):
                self.oracle.too_early(rref)

    def later(self, seconds: float, node: Node, do: Callable[[], object]) -> None:
        """Have *node* do something, unless it dies before."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), node, do))

    def wake_at(self, node: Node, due: float | None) -> None:
        """*node* has something to do at *due*."""
        if due is not None and due < self._ticks.get(node.me, float("inf")):
            self._ticks[node.me] = due

            def tick() -> None:
                if self._ticks.get(node.me) == due:  # else an earlier one has taken its place
                    del self._ticks[node.me]
                    node.tick()

            self.later(max(0.0, due - self.now) + 1e-6, node, tick)

    def send(self, node: Node, packets: list[tuple[WorkerId, Packet]]) -> None:
        """These packets leave *node*, as bytes."""
        for to, packet in packets:
            data, payloads = encode(packet)
            for seconds in self.network.delays(node.me.name, to.name, self.now):
                self._carry(node.me, to, decode(data, payloads), seconds)

    def _carry(self, sender: WorkerId, to: WorkerId, packet: Packet, seconds: float) -> None:
        node = next((each for each in self._living() if each.me == to), None)
        if node is not None:
            self.later(seconds, node, lambda: node.take(sender, packet))

    # ---- time

    def _run_until(self, end: float) -> None:
        while self._step(end):
            pass
        self.now = max(self.now, end)

    def _step(self, end: float) -> bool:
        """The next event, if there is one before *end*."""
        if not self._events or self._events[0][0] > end:
            return False
        at, _, node, do = heapq.heappop(self._events)
        self.now = max(self.now, at)
        self.rings.look(self.now)
        if node is None:
            do()
        elif node.me in self.oracle.dead:
            pass
        elif node.asleep_until > self.now:
            heapq.heappush(self._events, (node.asleep_until, next(self._order), node, do))
        else:
            do()
        return True

    def _living(self) -> list[Node]:
        return [node for node in self._nodes if node is not None]

    # ---- lives and deaths

    def _start(self, number: int) -> None:
        me = WorkerId(name_of(number), next(self._lives))
        tracer = None
        if self._trace is not None:
            tracer = Tracer(me, clock=lambda: self.now)
            tracer.begin(FileSink(str(self._trace), me), self.plan.sharing)
            self._tracers.append(tracer)
        node = self._nodes[number] = Node(me, self, tracer)
        for dead in sorted(self.oracle.dead):
            node.context.died(dead)
            node.context.bury(dead)

    def _end(self, node: Node) -> None:
        """Its process is gone."""
        number = self._nodes.index(node)
        self._nodes[number] = None
        self.oracle.dead.add(node.me)
        for other in self._living():
            self.later(
                self._dice.uniform(0.05, NOTICE),
                other,
                lambda other=other: other.told_of_death(node.me),  # type: ignore[misc]
            )
        again = self._dice.uniform(0.5, 3.0)
        event = (self.now + again, next(self._order), None, lambda: self._start(number))
        heapq.heappush(self._events, event)

    def _sleep(self, node: Node, seconds: float) -> None:
        """It is stopped, and beats no more, for so long; too long, and it is given up."""
        node.asleep_until = self.now + seconds
        self.rings.disturbed(node.asleep_until)
        if seconds > SILENCE:
            event = (self.now + SILENCE, next(self._order), None, lambda: self._give_up(node))
            heapq.heappush(self._events, event)

    def _give_up(self, node: Node) -> None:
        self._liveness.watch(node.me)
        silent = [self._liveness.turn() for _ in range(SILENCE)]
        if node in self._nodes and silent[-1] == [node.me]:
            self._end(node)  # fenced: whatever it does when it wakes, nobody takes it

    # ---- acts

    def _act(self, act: Act) -> None:
        node = self._nodes[act.who]
        if node is None or node.asleep_until > self.now:
            return
        dice = random.Random(act.pick)
        if act.what in DISASTERS["storm"]:
            self._befall(node, act, dice)
            return
        if self._improvise(node, act, dice):
            self.done[act.what] += 1
        node.do([])

    def _befall(self, node: Node, act: Act, dice: random.Random) -> None:
        self.done[act.what] += 1
        match act.what:
            case "crash":
                self._end(node)
            case "freeze":
                self._sleep(node, 2.0 * SILENCE)
            case "nap":
                self._sleep(node, dice.uniform(0.2, 0.8 * SILENCE))
            case "cut":
                self._cut({act.who}, {act.other}, dice)
            case "partition":
                others = [each for each in range(NODES) if each not in {act.who, act.other}]
                side = {act.who, *(each for each in others if dice.random() < 0.5)}
                self._cut(side, set(range(NODES)) - side, dice)

    def _cut(self, here: set[int], there: set[int], dice: random.Random) -> None:
        """Nothing passes between the two sides, until they are healed."""
        until = self.now + dice.uniform(0.2, 3.0)
        self.rings.disturbed(until)
        for one, other in itertools.product(here, there):
            self.network.cut(name_of(one), name_of(other), until)

    def _improvise(self, node: Node, act: Act, dice: random.Random) -> bool:
        """Whether there was anything to do."""
        usable = [each for each in node.handles if not node.is_lost(each)]
        some = dice.sample(usable, min(len(usable), dice.randint(1, 2)))
        seconds = dice.choices((0.0, 0.01, 0.2, 1.0, 1.5 * GRACE), (5, 5, 5, 4, 1))[0]
        job = Job(
            act.what,
            seconds,
            keep=dice.random() < 0.3,
            back=dice.random() < 0.4,
            ask=_ask(dice) if dice.random() < 0.3 else None,
        )
        to = self.at(act.other)
        match act.what:
            case "own":
                node.own()
                return True
            case "drop" if node.handles:
                name = node.handles.pop(act.pick % len(node.handles))
                node.do(node.context.drop(name))
                return True
            case "cancel" if node.asked:
                node.cancel(list(node.asked)[act.pick % len(node.asked)])
                return True
            case "circle":
                places = [act.other, *dice.choices(range(NODES), k=dice.randrange(3))]
                pauses = [dice.choice((0.2, 0.5, 1.0)), *(0.0 for _ in places[1:])]
                node.circle(places, pauses, direct=dice.random() < 0.5)
                return True
            case "ring" if usable and to is not None:
                some = dice.sample(usable, min(len(usable), dice.randint(1, 4)))
                ask = replace(_ask(dice), place=0)
                wait = Job("ring", dice.choice((0.05, 0.2, 1.0)), ask=ask)
                alias, made = dice.random() < 0.4, dice.random() < 0.3
                node.ring(to, some, wait, alias=alias, made=made)
                return True
        if act.what == "make" and to is not None:
            node.make(to, [], job)
            return True
        if not some:
            return False
        match act.what:
            case "nest" if to is not None:
                node.make(to, some, Job("nest", seconds, back=True, ask=job.ask))
            case "alias" if to is not None:
                node.make(to, some[:1], Job("alias", seconds, bare=True))
            case "lend":
                node.lend(act.other, some, job)
            case "pass on":
                onward = dice.randrange(NODES)
                node.lend(
                    act.other, some, Job("pass on", seconds, job.keep, job.back, onward=onward)
                )
            case "call":
                for _ in range(dice.randint(1, 6)):  # maybe while it is being learned what it is
                    self.later(dice.uniform(0.0, 0.2), node, lambda: node.call(some[0], some, job))
            case "pipeline":
                on = some[0]
                bare = dice.random() < 0.3
                node.make(node.context.owner_of(on), some[1:], Job("made", seconds, bare=bare), on)
            case "fetch":
                node.fetch(some[0], copy=True, direct=dice.random() < 0.5)
            case "wait":
                node.fetch(some[0], copy=False, direct=False)
            case "tell":
                node.tell(act.other, some, job)
            case _:
                return False
        return True

    # ---- the end

    def _check_end(self) -> None:
        if self._events:
            raise WrongError("G6", f"things go on {AFTERWARDS:.0f} s after the end")
        for node in self._living():
            if node.asked or node.context.waiting:
                raise WrongError(
                    "G6", f"{node.me} waits for {[*node.asked, *node.context.waiting]}"
                )
            left = [*node.context.owners, *node.context.users, *node.context.state.names]
            if left or node.values or node.inside or node.tasks:
                raise WrongError("G5", f"{node.me} has {', '.join(map(str, left))} left")


def _ask(dice: random.Random, deep: int = 2) -> Ask:
    """What a function asks for before it returns, and what that does in turn."""
    how = dice.choice(("method", "method", "fetch", "wait", "creation", "function"))
    further = _ask(dice, deep - 1) if deep and dice.random() < 0.6 else None
    job = Job("asked", dice.choice((0.0, 0.01, 0.2)), ask=further)
    return Ask(how, dice.randrange(4), dice.randrange(NODES), job)

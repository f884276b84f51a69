"""The world of a simulation: virtual time, the network, the lives of endpoints, and the disasters.

Time jumps from one event to the next. Each endpoint learns of a death after its own delay, as from
the registrar. An endpoint that is silent for too long is given up by a watcher (`Liveness`), and
does nothing when it wakes.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from farref.actors.recording.tracefile import FileSink
from farref.actors.recording.tracing import Tracer
from farref.actors.wire import codec
from farref.protocol.delivery import Packet
from farref.protocol.effects import Looked
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.liveness import Liveness
from farref.protocol.messages import Message

from ..model.reach import reachable
from .acts import improvise
from .node import Node
from .oracle import Oracle, WrongError
from .plan import DISASTERS, NODES, Act, Plan, name_of
from .rings import WaitGraph

NOTICE = 1.0
"""The most seconds until an endpoint learns of a death."""
SILENCE = 5
"""Seconds without a beat after which an endpoint is given up."""
LATE = 5.0
"""Seconds after which a message under way is late. The packets with it were lost three times."""
AFTERWARDS = 6000.0
"""Seconds after the last act in which everything must come to rest."""
USUAL = 0.02
"""The average delay of a packet, in seconds."""
SLOW = 0.05
"""The share of packets with a delay of up to a second."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a plan."""

    plan: Plan
    wrong: str | None
    """The guarantee that was broken, and how; None if all is well."""
    kind: str
    """The guarantee, or the kind of error, alone."""
    seconds: float
    """Virtual seconds."""
    done: Counter[str]
    """Acts that did something, and decisions of the network, with their numbers."""


def simulate(plan: Plan, trace: Path | None = None) -> Outcome:
    """Play *plan* to its end, or to its first failure.

    With *trace*, a folder, every endpoint records its steps there, as actors do.
    """
    world = SimulatedWorld(plan, trace)
    wrong, kind = None, ""
    try:
        world.play()
    except WrongError as error:
        wrong, kind = str(error), error.guarantee
    except Exception as error:  # any error: its seed is worth knowing
        kind = type(error).__name__
        wrong = f"{kind}: {error}"
    world.close()
    done, network = world.done, world.network
    done["packets lost"], done["packets repeated"] = network.lost, network.repeated
    return Outcome(plan, wrong, kind, world.now, +done)


class Network:
    """Decides on the delay of packets. It carries none."""

    def __init__(self, seed: int, loss: float) -> None:
        self._dice = random.Random(f"network {seed}")
        self._loss = loss
        self._cut: dict[frozenset[str], float] = {}
        """Pairs that do not reach each other, and the end of that."""
        self.lost = 0
        self.repeated = 0

    def cut(self, one: str, other: str, until: float) -> None:
        """Let no packet pass between the two before *until*."""
        self._cut[frozenset((one, other))] = until

    def delays(self, one: str, other: str, now: float) -> list[float]:
        """The delays of a packet that leaves now: none if it is lost, or one, or two."""
        if self._cut.get(frozenset((one, other)), 0.0) > now or self._dice.random() < self._loss:
            self.lost += 1
            return []
        if self._dice.random() < self._loss / 2:
            self.repeated += 1
            return [self._delay(), self._delay()]
        return [self._delay()]

    def _delay(self) -> float:
        if self._dice.random() < SLOW:
            return self._dice.uniform(0.0, 1.0)
        return self._dice.expovariate(1 / USUAL)


class SimulatedWorld:
    """The endpoints, and everything between them."""

    def __init__(self, plan: Plan, trace: Path | None) -> None:
        self.plan = plan
        self.nodes: list[Node | None] = [None] * NODES
        self.now = 0.0
        self.network = Network(plan.seed, plan.loss)
        self.oracle = Oracle()
        self.rings = WaitGraph(self.oracle, self.living, self._is_late)
        self.done: Counter[str] = Counter()
        self._events: list[tuple[float, int, Node | None, Callable[[], object]]] = []
        self._order = itertools.count()
        self._ticks: dict[WorkerId, float] = {}
        self._flying: defaultdict[tuple[WorkerId, WorkerId], deque[tuple[float, Message]]]
        self._flying = defaultdict(deque)
        """For each sender and receiver, the messages that have not been handed over, each with the
        time when it left."""
        self._trace = trace
        self._dice = random.Random(f"world {plan.seed}")
        self._lives = itertools.count(1)
        self._tracers: list[Tracer] = []
        self._liveness = Liveness(SILENCE)
        for number in range(NODES):
            self._start(number)

    def play(self) -> None:
        """Play all acts; then all endpoints drop all references, and nothing may be left."""
        for act in self.plan.acts:
            self.act(act)
        self.run_until(self.now + 20.0)
        self._search()
        self._drop_all()
        self._search()
        self._check_end()

    def _search(self) -> None:
        """When nothing happens any more, let each endpoint search once: no garbage is left."""
        if not self.plan.rings:
            return
        for node in [None, *self.living()]:
            if node is not None:
                node.searches.begin_with_all()
            self._rest()
        self.oracle.searched(self.living(), self.reached())

    def _rest(self) -> None:
        end = self.now + AFTERWARDS
        while self.step(end):
            pass
        self._check_quiet()

    def _drop_all(self) -> None:
        """Let all programs drop all references, and play on until nothing happens any more."""
        end = self.now + AFTERWARDS
        while self.now < end:
            for node in self.living():
                if node.handles:
                    gone = [*node.handles]
                    node.handles.clear()
                    node.do(node.context.drop(*gone))
            if not self.step(end):
                break
        self._check_quiet()

    def close(self) -> None:
        for tracer in self._tracers:
            tracer.close()

    # ---- lives and deaths

    def _start(self, number: int) -> None:
        me = WorkerId(name_of(number), next(self._lives))
        tracer = None
        if self._trace is not None:
            tracer = Tracer(me, clock=lambda: self.now)
            tracer.begin(FileSink(str(self._trace), me), self.plan.sharing)
            self._tracers.append(tracer)
        node = self.nodes[number] = Node(me, self, tracer)
        for dead in sorted(self.oracle.dead):
            node.context.died(dead)
            node.context.bury(dead)

    def _end(self, node: Node) -> None:
        number = self.nodes.index(node)
        self.nodes[number] = None
        self.oracle.dead.add(node.me)
        for other in self.living():
            self.later(
                self._dice.uniform(0.05, NOTICE), other, partial(other.told_of_death, node.me)
            )
        again = self._dice.uniform(0.5, 3.0)
        self.later(again, None, lambda: self._start(number))

    def _sleep(self, node: Node, seconds: float) -> None:
        """Stop *node* for so long: it does not beat. After too long a silence it is given up."""
        node.asleep_until = self.now + seconds
        self.rings.disturbed(node.asleep_until)
        if seconds > SILENCE:
            self.later(SILENCE, None, lambda: self._give_up(node))

    def _give_up(self, node: Node) -> None:
        self._liveness.watch(node.me)
        silent = [self._liveness.tick() for _ in range(SILENCE)]
        if node in self.nodes and silent[-1] == [node.me]:
            self._end(node)  # fenced: nobody takes its messages when it wakes

    # ---- acts

    def act(self, act: Act) -> None:
        """Play *act*, after everything before it."""
        self.run_until(act.at)
        node = self.nodes[act.who]
        if node is None or node.asleep_until > self.now:
            return
        if act.what in DISASTERS["storm"]:
            self._befall(node, act, random.Random(act.pick))
            return
        if improvise(node, act):
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
        """Let nothing pass between the two sides for a while."""
        until = self.now + dice.uniform(0.2, 3.0)
        self.rings.disturbed(until)
        for one, other in itertools.product(here, there):
            self.network.cut(name_of(one), name_of(other), until)

    # ---- the end

    def _check_quiet(self) -> None:
        if self._events:
            raise WrongError("G6", f"things go on {AFTERWARDS:.0f} s after the end")

    def _check_end(self) -> None:
        for node in self.living():
            if node.asked or node.context.waiting:
                raise WrongError(
                    "G6", f"{node.me} waits for {[*node.asked, *node.context.waiting]}"
                )
            left = [*node.context.owners, *node.context.users, *node.context.state.names]
            if left or node.values or node.inside or node.tasks:
                raise WrongError("G5", f"{node.me} has {', '.join(map(str, left))} left")

    # ---- the endpoints

    def living(self) -> list[Node]:
        return [node for node in self.nodes if node is not None]

    def at(self, number: int) -> WorkerId | None:
        """The endpoint at that place now."""
        there = self.nodes[number]
        return there.me if there is not None else None

    def settled(self) -> bool:
        """Whether all living endpoints have settled all deaths: the registrar's part."""
        dead = self.oracle.dead
        return not any(
            each.settles() or any(worker not in each.context.dead for worker in dead)
            for each in self.living()
        )

    # ---- messages under way

    def posted(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        """Note that *message* of *sender* is on its way."""
        self._flying[sender, to].append((self.now, message))

    def handed_over(self, sender: WorkerId, to: WorkerId) -> None:
        """Note that *to* has taken the next message of *sender*."""
        left, _ = self._flying[sender, to].popleft()
        if self.now - left > LATE:
            self.rings.disturbed(self.now)

    def will_not_come(self, sender: WorkerId, to: WorkerId) -> None:
        """Note that *to* takes no further message of *sender*."""
        self._flying.pop((sender, to), None)

    def _is_late(self) -> bool:
        return any(self.now - sent[0][0] > LATE for sent in self._coming() if sent)

    def _coming(self) -> list[deque[tuple[float, Message]]]:
        here = {each.me for each in self.living()}
        return [sent for (_, to), sent in self._flying.items() if to in here]

    # ---- searches for garbage in rings

    def reached(self) -> set[RRefId]:
        flying = (message for sent in self._coming() for _, message in sent)
        return reachable(self.living(), flying)

    def looked(self, effect: Looked, node: Node) -> None:
        """Tell the oracle of the garbage that a search of *node* has found, to be freed."""
        found = [rref for each in effect.garbage if each.cut for rref in each.objects]
        if found:
            self.done["garbage"] += len(found)
            self.oracle.found(found, self.reached(), node)

    # ---- time

    def later(self, seconds: float, who: Node | None, do: Callable[[], object]) -> None:
        """Call *do* in that many seconds, unless *who*, if given, has died by then."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), who, do))

    def wake_at(self, who: Node, due: float | None, tick: Callable[[], object]) -> None:
        if due is not None and due < self._ticks.get(who.me, float("inf")):
            self._ticks[who.me] = due

            def wake() -> None:
                if self._ticks.get(who.me) == due:  # else an earlier one has replaced it
                    del self._ticks[who.me]
                    tick()

            self.later(max(0.0, due - self.now) + 1e-6, who, wake)

    def run_until(self, end: float) -> None:
        while self.step(end):
            pass
        self.now = max(self.now, end)

    def step(self, end: float) -> bool:
        """Play the next event. Returns False if there is none before *end*."""
        if not self._events or self._events[0][0] > end:
            return False
        at, _, who, do = heapq.heappop(self._events)
        self.now = max(self.now, at)
        self.rings.look(self.now)
        if who is not None and who.me in self.oracle.dead:
            return True
        if who is not None and who.asleep_until > self.now:
            heapq.heappush(self._events, (who.asleep_until, next(self._order), who, do))
        else:
            do()
        return True

    # ---- the network

    def send(self, sender: WorkerId, packets: list[tuple[WorkerId, Packet]]) -> None:
        """Send these packets of *sender*, as bytes."""
        for to, packet in packets:
            data, beside = codec.encode(sender, to, packet, _no_address, codec.LONGEST)
            for seconds in self.network.delays(sender.name, to.name, self.now):
                came = codec.read(data, to, {sender.incarnation: sender}, beside)
                if came is not None:  # always: the receiver knows the sender
                    self._carry(sender, to, came[1], seconds)

    def _carry(self, sender: WorkerId, to: WorkerId, packet: Packet, seconds: float) -> None:
        there = next((each for each in self.living() if each.me == to), None)
        if there is not None:
            self.later(seconds, there, lambda: there.take(sender, packet))


def _no_address(_: WorkerId) -> None:
    """In a simulation all know all."""

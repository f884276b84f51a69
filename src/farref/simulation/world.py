"""The world of a simulation: the lives of its endpoints, and the disasters.

Each endpoint learns of a death after its own delay, as by a notice. An endpoint that is silent for
too long is given up by a watcher (`Liveness`, the registrar's part), and does nothing when it
wakes.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..actors.recording.tracefile import FileSink
from ..actors.recording.tracing import Tracer
from ..protocol.ids import WorkerId
from ..protocol.liveness import Liveness
from .acts import improvise
from .node import Node
from .oracle import WrongError
from .plan import DISASTERS, NODES, name_of
from .scene import Scene

if TYPE_CHECKING:
    from collections import Counter

    from .plan import Act, Plan

NOTICE = 1.0
"""The most seconds until an endpoint learns of a death."""
SILENCE = 5
"""Seconds without a beat after which an endpoint is given up."""
AFTERWARDS = 6000.0
"""Seconds after the last act in which everything must come to rest."""


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
    scene = world.scene
    done = scene.done
    done["packets lost"], done["packets repeated"] = scene.network.lost, scene.network.repeated
    return Outcome(plan, wrong, kind, scene.now, +done)


class SimulatedWorld:
    """The endpoints, their lives, and the disasters."""

    def __init__(self, plan: Plan, trace: Path | None) -> None:
        self.plan = plan
        self.nodes: list[Node | None] = [None] * NODES
        self.scene = Scene(plan, self.nodes)
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
        self.scene.run_until(self.scene.now + 20.0)
        self._search()
        self._drop_all()
        self._search()
        self._check_end()

    def _search(self) -> None:
        """When nothing happens any more, let each endpoint search once: no garbage is left."""
        if not self.plan.rings:
            return
        for node in [None, *self._living()]:
            if node is not None:
                node.searches.begin_with_all()
            self._rest()
        self.scene.oracle.searched(self._living(), self.scene.reached())

    def _rest(self) -> None:
        """Play on until nothing happens any more."""
        end = self.scene.now + AFTERWARDS
        while self.scene.step(end):
            pass
        self._check_quiet()

    def _drop_all(self) -> None:
        """Let all programs drop all references, and play on until nothing happens any more."""
        end = self.scene.now + AFTERWARDS
        while self.scene.now < end:
            for node in self._living():
                if node.handles:
                    gone = [*node.handles]
                    node.handles.clear()
                    node.do(node.context.drop(*gone))
            if not self.scene.step(end):
                break
        self._check_quiet()

    def close(self) -> None:
        """Stop recording."""
        for tracer in self._tracers:
            tracer.close()

    def _living(self) -> list[Node]:
        return [node for node in self.nodes if node is not None]

    # ---- lives and deaths

    def _start(self, number: int) -> None:
        me = WorkerId(name_of(number), next(self._lives))
        tracer = None
        if self._trace is not None:
            tracer = Tracer(me, clock=lambda: self.scene.now)
            tracer.begin(FileSink(str(self._trace), me), self.plan.sharing)
            self._tracers.append(tracer)
        node = self.nodes[number] = Node(me, self.scene, tracer)
        for dead in sorted(self.scene.oracle.dead):
            node.context.died(dead)
            node.context.bury(dead)

    def _end(self, node: Node) -> None:
        """End the process of *node*."""
        number = self.nodes.index(node)
        self.nodes[number] = None
        self.scene.oracle.dead.add(node.me)
        for other in self._living():
            self.scene.later(
                self._dice.uniform(0.05, NOTICE), other, partial(other.told_of_death, node.me)
            )
        again = self._dice.uniform(0.5, 3.0)
        self.scene.later(again, None, lambda: self._start(number))

    def _sleep(self, node: Node, seconds: float) -> None:
        """Stop *node* for so long: it does not beat. After too long a silence it is given up."""
        node.asleep_until = self.scene.now + seconds
        self.scene.rings.disturbed(node.asleep_until)
        if seconds > SILENCE:
            self.scene.later(SILENCE, None, lambda: self._give_up(node))

    def _give_up(self, node: Node) -> None:
        self._liveness.watch(node.me)
        silent = [self._liveness.tick() for _ in range(SILENCE)]
        if node in self.nodes and silent[-1] == [node.me]:
            self._end(node)  # fenced: nobody takes its messages when it wakes

    # ---- acts

    def act(self, act: Act) -> None:
        """Play *act*, after everything before it."""
        self.scene.run_until(act.at)
        node = self.nodes[act.who]
        if node is None or node.asleep_until > self.scene.now:
            return
        if act.what in DISASTERS["storm"]:
            self._befall(node, act, random.Random(act.pick))
            return
        if improvise(node, act):
            self.scene.done[act.what] += 1
        node.do([])

    def _befall(self, node: Node, act: Act, dice: random.Random) -> None:
        self.scene.done[act.what] += 1
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
        until = self.scene.now + dice.uniform(0.2, 3.0)
        self.scene.rings.disturbed(until)
        for one, other in itertools.product(here, there):
            self.scene.network.cut(name_of(one), name_of(other), until)

    # ---- the end

    def _check_quiet(self) -> None:
        if not self.scene.quiet:
            raise WrongError("G6", f"things go on {AFTERWARDS:.0f} s after the end")

    def _check_end(self) -> None:
        for node in self._living():
            if node.asked or node.context.waiting:
                raise WrongError(
                    "G6", f"{node.me} waits for {[*node.asked, *node.context.waiting]}"
                )
            left = [*node.context.owners, *node.context.users, *node.context.state.names]
            if left or node.values or node.inside or node.tasks:
                raise WrongError("G5", f"{node.me} has {', '.join(map(str, left))} left")

"""A program as a model: the world, its moves, and all the properties."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from farref.protocol.messages import Probe

from . import rings, together
from .always import ALWAYS, ALWAYS_HERE, ALWAYS_STEP, FREED, LATE, View
from .endpoint import ScriptedEndpoint
from .exits import Exits
from .explorer import Exploration, Mistake, Model, explore
from .facts import Facts, facts
from .never import NEVER_STATE, NEVER_STEP
from .reach import unreachable
from .rest import EVENTUALLY
from .show import step_line
from .state import freeze
from .steps import Arrival
from .world import DEAD, Crash, Move, Program, Taken, World, WorldState


class ProgramModel(Model[WorldState]):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.world = World(program, inspect=self._inspect)
        self._facts = cache(self._read)
        self._distinct: dict[object, Facts] = {}
        self._judged: set[object] = set()
        self._together: set[object] = set()
        self._sound: set[ScriptedEndpoint] = set()
        exits = Exits()
        self._always_step = ALWAYS_STEP | {
            "an exit takes a message as the rest does": exits.differs
        }
        self._always_here = ALWAYS_HERE | {"an exit does what the rest does": exits.differs_here}
        claims = set(program.reaches)
        self._unseen_steps = {name: NEVER_STEP[name] for name in claims & NEVER_STEP.keys()}
        self._unseen_states = {name: NEVER_STATE[name] for name in claims - NEVER_STEP.keys()}

    def start(self) -> WorldState:
        return self.world.start()

    def moves(self, state: WorldState) -> Iterator[tuple[Move, WorldState]]:
        if self.program.victims is None:
            return self.world.moves(state)
        return ((move, self._in_rings(state, move, it)) for move, it in self.world.moves(state))

    def _in_rings(self, state: WorldState, move: Move, after: WorldState) -> WorldState:
        """*after*, with a note where a second lap begins: whether the ring existed then.

        To refuse a request is wrong if it did not.
        """
        world, place = self.world, move.place
        if after.endpoints[place] in {DEAD, *world.broken}:
            return after
        for number in set(after.flying) - set(state.flying):
            message = world.envelopes[number].message
            if isinstance(message, Probe) and message.before and len(message.path) == 1:
                there = rings.is_there(world.living(after), message.before)

                def began(
                    endpoint: ScriptedEndpoint, lap: Probe = message, there: bool = there
                ) -> None:
                    endpoint.laps.setdefault(lap.before, there)

                after = world.note(after, place, began)
        old, new = (world.endpoints[it.endpoints[place]] for it in (state, after))
        if new.victims - old.victims and isinstance(move.step, Arrival):
            probe = move.step.message
            if isinstance(probe, Probe) and not old.laps.get(probe.before, False):
                wrong = Mistake("who is refused waits in a ring", f"{probe.path} was not a ring")
                after = world.note(after, place, lambda _: wrong)
        return after

    def need_not(self, move: Move) -> bool:
        return isinstance(move.step, Crash)

    def judge(self, state: WorldState) -> Mistake | None:
        if self.world.broken:
            for number in state.endpoints:
                if number in self.world.broken:
                    return self.world.broken[number]
        parts = tuple(map(self._facts, state.endpoints))
        looks = (parts, state.flying)
        if looks in self._judged:
            return None
        living = {part.me: part for part in parts if part is not None}
        view = View(living, self.world.in_flight(state), len(living) < len(parts))
        mistake = self._in_bulk(state)
        if mistake is not None:
            return mistake
        for name, wrong in ALWAYS.items():
            if name in {FREED, LATE} and self.program.late:
                continue
            reason = wrong(view)
            if reason is not None:
                return Mistake(name, reason)
        for name, happens in list(self._unseen_states.items()):
            if happens(view):
                del self._unseen_states[name]
        self._judged.add(looks)
        return None

    def _in_bulk(self, state: WorldState) -> Mistake | None:
        """See `together`. An endpoint's state is asked once about the same messages."""
        flying = (self.world.envelopes[number] for number in state.flying)
        groups = together.by_sender(flying)
        if not groups:
            return None
        numbers = dict(zip(self.world.workers, state.endpoints, strict=True))
        for (to, sender, _), messages in groups.items():
            number = numbers[to]
            key = number, sender, tuple(messages)
            if number == DEAD or key in self._together:
                continue
            self._together.add(key)
            mistake = together.flaw(self.world.endpoints[number].context, sender, messages)
            if mistake is not None:
                return mistake
        return None

    def judge_end(self, state: WorldState) -> Mistake | None:
        living = {endpoint.me: endpoint for endpoint in self.world.living(state)}
        deaths = len(living) < len(state.endpoints)
        for endpoint in living.values():
            for name, call in endpoint.calls.items():
                if not deaths and (call in endpoint.errors) != (name in self.program.losing):
                    return Mistake("who waits for a lost object is told so (G6)", f"{name}: {call}")
        victims = sum(len(endpoint.victims) for endpoint in living.values())
        if victims > (self.program.victims or 0):
            return Mistake("a ring has one victim", f"{victims} calls were refused")
        if self.program.searches is not None:
            left = unreachable(living.values())
            if left:
                return Mistake("no unreachable object stays (G5)", f"{sorted(left)} stay")
        for name, wrong in EVENTUALLY.items():
            reason = wrong(living, deaths=deaths)
            if reason is not None:
                return Mistake(name, reason)
        return None

    def show(self, before: WorldState, move: Move, after: WorldState) -> str:
        """One line, and one more for each message sent."""
        number = before.endpoints[move.place]
        sent = list(after.flying)
        for each in before.flying:
            if each in sent:
                sent.remove(each)
        return step_line(
            self.world.workers[move.place],
            None if number == DEAD else self.world.endpoints[number],
            move.step,
            [self.world.envelopes[each] for each in sent],
        )

    def seen(self) -> frozenset[str]:
        """The claims of the program that have been violated so far."""
        unseen = self._unseen_states.keys() | self._unseen_steps.keys()
        return frozenset(self.program.reaches) - unseen

    def _read(self, number: int) -> Facts | None:
        """The facts of an endpoint's state, None if it is dead: one object for equal facts.

        The properties of the world see nothing else, besides the messages in flight. So most
        states look to them as an earlier one does, and `judge` asks them once.
        """
        if number == DEAD:
            return None
        searches = self.program.searches is not None
        found = facts(self.world.endpoints[number], searches=searches)
        return self._distinct.setdefault(freeze(vars(found)), found)

    def _inspect(self, taken: Taken) -> Mistake | None:
        for name, happens in list(self._unseen_steps.items()):
            if happens(taken):
                del self._unseen_steps[name]
        for name, flawed in self._always_step.items():
            reason = flawed(taken)
            if reason is not None:
                return Mistake(name, reason)
        if taken.after not in self._sound:
            for name, wrong in self._always_here.items():
                reason = wrong(taken.after)
                if reason is not None:
                    return Mistake(name, reason)
            self._sound.add(taken.after)
        return None


def explore_program(program: Program, limit: int) -> Exploration:
    return explore(ProgramModel(program), limit=limit, progress=program.victims is not None)

"""Longer random programs and schedules, over the same machines, world and properties.

Hypothesis draws a script for each of 4 or 5 endpoints, the endpoints that may die, and each next
move among the possible ones. When the drawn moves are used up, the first possible move is taken
until there is none. Every `always` property holds after every move, and every `eventually` property
at the end. A failure is shrunk to a short program and reported as a trace.

The last test sends arbitrarily malformed messages to endpoints in the middle of such runs: a
machine takes or refuses each of them, and a refused message changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from operator import mod
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, Number, RRefId, WorkerId
from farref.protocol.messages import (
    FLOWS,
    KINDS,
    Cargo,
    Delete,
    Descriptor,
    Flow,
    Grip,
    Hop,
    Message,
    Passing,
)
from farref.protocol.messages import Report as MessageReport
from farref.protocol.sharing import DISCIPLINES, Sharing

from .endpoint import worker
from .model import ProgramModel
from .script import (
    Abandon,
    Action,
    Ask,
    Drop,
    Get,
    Keep,
    Method,
    Own,
    Pickle,
    Put,
    Remote,
    Revoke,
    Say,
    Script,
)
from .state import clone, freeze
from .steps import Arrival, Step
from .world import DEAD, Crash, Move, Outcome, Program, World, WorldState

pytestmark = pytest.mark.timeout(600)  # a random program computes for seconds on a busy machine
QUICK = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW = settings(QUICK, max_examples=12)
LONG = settings(QUICK, max_examples=1_500)
MANY_MOVES = 5000

NAMES = ("x", "y", "z")
ENDPOINTS = ("A", "B", "C", "D", "E")


# ---- programs


@cache  # making a strategy for each draw costs more than the draw
def bodies(endpoints: tuple[str, ...], depth: int) -> st.SearchStrategy[Script]:
    """The receiver's actions on the reference "x" that it got."""
    others = st.sampled_from(endpoints)
    keep = st.sampled_from(NAMES).map(lambda name: Keep("x", name))
    last = st.sampled_from([(), (Get("g", "x"),), (Method("m", "x"),)])
    if depth == 0:
        return st.one_of(keep.map(lambda action: (action,)), last)
    deeper = bodies(endpoints, depth - 1)
    say = st.builds(lambda to, body: Say(to, ("x",), body), others, deeper)
    back = st.builds(lambda to, body: Ask("c", to, ("x",), body), others, deeper)
    return st.one_of(
        last, st.tuples(say | back, keep), st.tuples(say, say), keep.map(lambda a: (a,))
    )


@st.composite
def scripts(draw: st.DrawFn, me: str, endpoints: tuple[str, ...], *, rings: bool = False) -> Script:
    """A script of *me* that never waits for an event that may not come."""
    others = st.sampled_from(endpoints)
    held: list[str] = []
    asked: list[str] = []
    script: list[Action] = []
    for number in range(draw(st.integers(0, 9 if rings else 5))):
        call = f"{me}{number}"
        if not held:
            new = f"x{number}"
            held.append(new)
            script.append(Own(new) if draw(st.booleans()) else Remote(new, draw(others)))
            continue
        name = draw(st.sampled_from(held))
        body = tuple(_rename(action, name) for action in draw(bodies(endpoints, 2)))
        to = draw(others)
        choice = draw(st.integers(0, 10))
        if choice == 0:
            held.remove(name)
            script.append(Drop(name))
        elif choice <= 3:
            script.append(Say(to, (name,), body, readable=draw(st.integers(0, 9)) > 0))
        elif choice <= 5:
            asked.append(call)
            returns = (name,) if draw(st.booleans()) else ()
            script.append(Ask(call, to, (name,), body, returns, (Keep(name, f"{name}'"),)))
        elif choice == 6 and rings and draw(st.booleans()):
            asked.append(call)
            other = draw(st.sampled_from(held))
            script.append(Method(call, name, (other,), (Put(other, "self"),)))
        elif choice == 6:
            asked.append(call)
            script.append(Get(call, name) if draw(st.booleans()) else Method(call, name, (name,)))
        elif choice == 7 and asked:
            script.append(Revoke(draw(st.sampled_from(asked))))
        elif choice == 8:
            asked.append(call)
            held.remove(name)  # perhaps with the request still on its way
            script.append(Get(call, name) if draw(st.booleans()) else Method(call, name))
            script.append(Drop(name))
        elif choice == 9:
            plain = draw(st.booleans())
            script += (
                (Say(to), Ask(call, to))
                if plain
                else (Pickle(name, to, for_call=draw(st.booleans())), Abandon())
            )
        else:
            new = f"x{number}"
            held.append(new)
            owners = [each for each in script if isinstance(each, Remote) and each.name == name]
            as_method = draw(st.booleans())
            if owners and as_method:
                script.append(Remote(new, owners[0].to, method_of=name))
            else:
                script.append(Remote(new, to, (name,), returns=(name,)))
    script += [Drop(name) for name in held if draw(st.integers(0, 3))]
    return tuple(script)


def _rename(action: Action, name: str) -> Action:
    """The action with *name* in the place of the body's "x"."""
    match action:
        case Keep(under=under):
            return Keep(name, under)
        case Get(call=call):
            return Get(call, name)
        case Method(call=call):
            return Method(call, name)
        case Say(to=to, body=body):
            return Say(to, (name,), tuple(_rename(each, name) for each in body))
        case Ask(call=call, to=to, body=body):
            return Ask(call, to, (name,), tuple(_rename(each, name) for each in body))
        case _:
            return action


@st.composite
def programs(draw: st.DrawFn, *, deaths: bool, sharing: Sharing, rings: bool = False) -> Program:
    """A program of 4 or 5 endpoints; with *rings*, of 3 that search for rings."""
    endpoints = ENDPOINTS[:3] if rings else ENDPOINTS[: draw(st.integers(4, 5))]
    parts = {me: draw(scripts(me, endpoints, rings=rings)) for me in endpoints}
    mortal = draw(st.lists(st.sampled_from(endpoints), unique=True, max_size=2)) if deaths else []
    if not rings:
        return Program("random", parts, tuple(mortal), sharing)
    searches = "".join(endpoints) * 2
    return Program("random", parts, tuple(mortal), sharing, searches=searches, rests=40)


ANY_SHARING = st.sampled_from(tuple(DISCIPLINES)).flatmap(
    lambda sharing: programs(deaths=False, sharing=sharing)
)
SCHEDULES = st.lists(st.integers(0, 97), max_size=250)


class Offer:
    """A step of an endpoint that is taken when somebody asks for its results."""

    def __init__(self, move: Move, take: Callable[[], Outcome]) -> None:
        self.move = move
        self.settles = False
        self._take = take

    @cached_property
    def _outcome(self) -> Outcome:
        return self._take()

    @property
    def endpoint(self) -> int:
        return self._outcome.endpoint

    @property
    def sends(self) -> tuple[int, ...]:
        return self._outcome.sends


class OfferingWorld(World):
    """A world that takes no step but the chosen one: its next states are functions."""

    def _take(self, number: int, step: Step) -> Outcome:
        move = Move(self._places[self.endpoints[number].me], step)
        offer = Offer(move, partial(super()._take, number, step))
        return cast("Outcome", offer)  # it has the same attributes

    def _next(self, state: WorldState, outcome: Outcome, used: int = DEAD) -> WorldState:
        return cast("WorldState", partial(super()._next, state, outcome, used))

    def _crash(self, state: WorldState, place: int) -> WorldState:
        return cast("WorldState", partial(super()._crash, state, place))


class OfferingModel(ProgramModel):
    """The model of a program in such a world."""

    kind_of_world = OfferingWorld

    def moves(self, state: WorldState) -> Iterator[tuple[Move, Callable[[], WorldState]]]:  # type: ignore[override]  # it offers them
        return cast("Iterator[tuple[Move, Callable[[], WorldState]]]", super().moves(state))


class RandomRun:
    """One way through *program*."""

    def __init__(self, program: Program) -> None:
        self.model = OfferingModel(program)
        self.state = self.model.start()
        self.trace: list[tuple[WorldState, Move, WorldState]] = []

    def step(self, choose: Callable[[int], int]) -> bool:
        """Take the chosen move; False if there is none."""
        moves = list(self.model.moves(self.state))
        if not moves:
            return False
        move, offer = moves[choose(len(moves))]
        after = offer()
        self.trace.append((self.state, move, after))
        self.state = after
        mistake = self.model.judge(after)
        if mistake is not None:
            self.fail(f"{mistake.property!r} does not hold: {mistake.reason}")
        return True

    def finish(self) -> None:
        """Go on until no move is possible, without further crashes."""
        searches = self.model.program.searches is not None
        for turn in range(MANY_MOVES):
            moves = self.model.moves(self.state)
            calm = [index for index, (move, _) in enumerate(moves) if move.step != Crash()]
            if not calm:
                break
            # Searches come last among the moves: let them meet the other ones.
            chosen = calm[turn * 7 % len(calm) if searches else 0]
            self.step(lambda _, chosen=chosen: chosen)  # type: ignore[misc]  # mypy infers no default
        else:
            self.fail("it does not end")
        mistake = self.model.judge_end(self.state)
        if mistake is not None:
            self.fail(f"{mistake.property!r} does not hold: {mistake.reason}")

    def fail(self, reason: str) -> None:
        """Report the run."""
        lines = [self.model.show(*each) for each in self.trace]
        pytest.fail("\n".join([reason, *lines]), pytrace=False)


def run(program: Program, schedule: list[int]) -> None:
    it = RandomRun(program)
    for choice in schedule:
        if not it.step(partial(mod, choice)):
            break
    it.finish()


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_random_programs(sharing: Sharing, deaths: bool) -> None:
    QUICK(given(programs(deaths=deaths, sharing=sharing), SCHEDULES)(run))()


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_random_programs_with_rings(sharing: Sharing, deaths: bool) -> None:
    strategy = programs(deaths=deaths, sharing=sharing, rings=True)
    FEW(given(strategy, SCHEDULES)(run))()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_many_random_programs_with_rings(sharing: Sharing, deaths: bool) -> None:
    strategy = programs(deaths=deaths, sharing=sharing, rings=True)
    LONG(given(strategy, SCHEDULES)(run))()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_many_random_programs(sharing: Sharing, deaths: bool) -> None:
    LONG(given(programs(deaths=deaths, sharing=sharing), SCHEDULES)(run))()


# ---- messages that no correct peer sends

WORKERS = st.sampled_from([worker(name) for name in ENDPOINTS[:4]])
NUMBERS = st.integers(1, 4)
RREFS = st.builds(RRefId, WORKERS, NUMBERS)
FORKS = st.builds(ForkId, WORKERS, NUMBERS)
CALLS = st.builds(CallId, WORKERS, NUMBERS)
DESCRIPTORS = st.builds(
    Descriptor,
    rref=RREFS,
    fork=FORKS,
    owner=WORKERS,
    parent=WORKERS,
    passing=st.sampled_from(Passing),
    counted=st.booleans(),
)
BORROWERS = st.lists(st.tuples(FORKS, WORKERS), max_size=2).map(tuple)
REPORTS = st.builds(
    MessageReport, rref=RREFS, fork=FORKS, owner=WORKERS, held=st.booleans(), borrowers=BORROWERS
)
LOANS = st.lists(REPORTS, max_size=2).map(tuple)
DELETES = st.builds(
    Delete, rref=RREFS, forks=st.lists(FORKS, max_size=3).map(tuple), borrowers=BORROWERS
)
CARGOES = st.builds(
    lambda references: Cargo(descriptors=tuple(references)), st.lists(DESCRIPTORS, max_size=2)
)
GRIPS = st.lists(
    st.builds(Grip, rref=RREFS, stamp=st.just(0), by=st.just(()), owned=st.booleans()), max_size=1
).map(tuple)
HOPS = st.lists(st.builds(Hop, run=CALLS, call=CALLS), max_size=1).map(tuple)
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    RRefId: RREFS,
    RRefId | None: st.none() | RREFS,
    ForkId: FORKS,
    tuple[ForkId, ...]: st.lists(FORKS, max_size=3).map(tuple),
    CallId: CALLS,
    CallId | None: CALLS,
    Cargo: CARGOES,
    Number: st.integers(0, 4),
    Flow: st.sampled_from(FLOWS),
    tuple[tuple[ForkId, WorkerId], ...]: BORROWERS,
    tuple[MessageReport, ...]: LOANS,
    tuple[Delete, ...]: st.lists(DELETES, max_size=2).map(tuple),
    tuple[tuple[RRefId, ForkId], ...]: st.lists(st.tuples(RREFS, FORKS), max_size=2).map(tuple),
    tuple[Hop, ...]: HOPS,
    tuple[Grip, ...]: GRIPS,
}
"""Values for a message's fields, by their types; the other fields have their defaults."""


def messages_of(kind: type[Message]) -> st.SearchStrategy[Message]:
    fields = [each for each in msgspec.structs.fields(kind) if each.type in FIELDS]
    return st.builds(kind, **{each.name: FIELDS[each.type] for each in fields})


MESSAGES: st.SearchStrategy[Message] = st.one_of(*map(messages_of, KINDS))


@settings(QUICK, max_examples=100)
@given(ANY_SHARING, SCHEDULES, st.lists(st.tuples(WORKERS, MESSAGES), max_size=60))
def test_what_is_refused_changes_nothing(
    program: Program, schedule: list[int], wrong: list[tuple[object, Message]]
) -> None:
    it = RandomRun(program)
    for choice in schedule:
        if not it.step(partial(mod, choice)):
            break
    for endpoint in it.model.world.living(it.state):
        for sender, message in wrong:
            context = clone(endpoint.context)
            before = freeze(context)
            try:
                context.receive(sender, message)  # type: ignore[arg-type]  # the right kind, by its name
            except ProtocolError:
                assert freeze(context) == before, f"{message} was refused and changed something"


@settings(QUICK, max_examples=100)
@given(ANY_SHARING, SCHEDULES)
def test_what_comes_twice_is_refused_or_harmless(program: Program, schedule: list[int]) -> None:
    """The machines assume at most once; even so, a repetition never takes half an effect."""
    it = RandomRun(program)
    for choice in schedule:
        if not it.step(partial(mod, choice)):
            break
    for _, move, after in it.trace:
        if isinstance(move.step, Arrival):
            context = clone(it.model.world.endpoints[after.endpoints[move.place]].context)
            before = freeze(context)
            try:
                context.receive(move.step.sender, move.step.message)
            except ProtocolError:
                assert freeze(context) == before

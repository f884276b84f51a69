"""Longer random programs and schedules, over the same machines, world and properties.

A program is a Hypothesis state machine. Its rules are the verbs of `script`, with the references
that an endpoint has at that time, and the moves of the world: arrivals, steps of tasks, deaths,
searches. Every `always` property holds after every move. At the end nobody does anything new, all
moves are made until there is none, and every `eventually` property holds. A failure is shrunk to
few rules, and its report has the trace.

On the way endpoints also get wrong messages, and messages that came before. A machine takes or
refuses each of them, and a message that it refuses changes nothing.
"""

from __future__ import annotations

import random
from functools import cache, partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import Message
from farref.protocol.sharing import DISCIPLINES, Sharing

from ..fuzz.test_protocol import MessageMaker
from .endpoint import ScriptedEndpoint, worker
from .explorer import Mistake
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
from .state import clone, discard, freeze
from .steps import Act, Arrival
from .world import DEAD, Move, Program, WorldState

pytestmark = pytest.mark.timeout(600)  # a random program computes for seconds on a busy machine
QUICK = settings(
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
MANY_MOVES = 5000

ENDPOINTS = ("A", "B", "C", "D", "E")
WORKERS = tuple(map(worker, ENDPOINTS))
IDS: dict[type, list[object]] = {
    WorkerId: list(WORKERS),
    **{
        kind: [kind(who, number) for who in WORKERS for number in range(1, 5)]
        for kind in (RRefId, ForkId, CallId)
    },
}
"""The ids in wrong messages."""
PICK = st.integers(0, 97)
"""Picks one of the living endpoints, of an endpoint's references, or of the possible moves."""


@cache  # making a strategy for each draw costs more than the draw
def bodies(endpoints: tuple[str, ...], name: str, depth: int = 2) -> st.SearchStrategy[Script]:
    """The receiver's actions on the reference *name* that it got."""
    others = st.sampled_from(endpoints)
    keep = st.sampled_from(("x", "y", "z")).map(lambda under: Keep(name, under))
    last: st.SearchStrategy[Script] = st.sampled_from([(), (Get("g", name),), (Method("m", name),)])
    kept: st.SearchStrategy[Script] = keep.map(lambda action: (action,))
    if depth == 0:
        return kept | last
    deeper = bodies(endpoints, name, depth - 1)
    say = st.builds(lambda to, body: Say(to, (name,), body), others, deeper)
    ask = st.builds(lambda to, body: Ask("c", to, (name,), body), others, deeper)
    return st.one_of(last, st.tuples(say | ask, keep), st.tuples(say, say), kept)


class RandomProgram(RuleBasedStateMachine):
    """Endpoints that share by *sharing* and act at random.

    With *deaths* two of them may die. With *rings* there are three of them; they put references
    into values, and search for garbage.
    """

    def __init__(self, sharing: Sharing, *, deaths: bool, rings: bool) -> None:
        super().__init__()
        self.names = ENDPOINTS[: 3 if rings else 5]
        program = Program(
            "random",
            dict.fromkeys(self.names, ()),
            self.names[1:3] if deaths else (),
            sharing,
            searches="".join(self.names) * 2 if rings else None,
            rests=40,
        )
        self.rings = rings
        self.model = ProgramModel(program)
        self.world = self.model.world
        self.state = self.model.start()
        self.trace: list[tuple[WorldState, Move, WorldState]] = []
        self.number = 0
        self.failed = False

    # ---- what programs do

    def do(self, at: int, action: Action) -> None:
        """Let an endpoint do *action*."""

        def comes_next(endpoint: ScriptedEndpoint) -> None:
            endpoint.script = (action,)

        places = [place for place, it in enumerate(self.state.endpoints) if it != DEAD]
        place = places[at % len(places)]
        self.state = self.world.note(self.state, place, comes_next)
        self.went(*self.world.step(self.state, place, Act()))

    def some(self, at: int, pick: int) -> str | None:
        """One of the references of an endpoint, by its name there; None if it has none."""
        living = self.world.living(self.state)
        names = sorted(living[at % len(living)].variables)
        return names[pick % len(names)] if names else None

    def new(self) -> str:
        """A name for a new reference or call."""
        self.number += 1
        return f"x{self.number}"

    def other(self, to: int) -> str:
        """The name of an endpoint, dead or alive."""
        return self.names[to % len(self.names)]

    @rule(at=PICK)
    def own(self, at: int) -> None:
        self.do(at, Own(self.new()))

    @rule(at=PICK, to=PICK)
    def create(self, at: int, to: int) -> None:
        self.do(at, Remote(self.new(), self.other(to)))

    @rule(at=PICK, to=PICK, pick=PICK, by_method=st.booleans())
    def create_from(self, at: int, to: int, pick: int, *, by_method: bool) -> None:
        if name := self.some(at, pick):
            more = {"method_of": name} if by_method else {"refs": (name,), "returns": (name,)}
            self.do(at, Remote(self.new(), self.other(to), **more))

    @rule(at=PICK, to=PICK, pick=PICK, readable=PICK, data=st.data())
    def say(self, at: int, to: int, pick: int, readable: int, data: st.DataObject) -> None:
        if name := self.some(at, pick):
            body = data.draw(bodies(self.names, name))
            self.do(at, Say(self.other(to), (name,), body, readable=readable > 9))

    @rule(at=PICK, to=PICK, pick=PICK, back=st.booleans(), data=st.data())
    def ask(self, at: int, to: int, pick: int, *, back: bool, data: st.DataObject) -> None:
        if name := self.some(at, pick):
            body, then = data.draw(bodies(self.names, name)), (Keep(name, self.new()),)
            returns = (name,) if back else ()
            self.do(at, Ask(self.new(), self.other(to), (name,), body, returns, then))

    @rule(at=PICK, pick=PICK)
    def fetch(self, at: int, pick: int) -> None:
        if name := self.some(at, pick):
            self.do(at, Get(self.new(), name))

    @rule(at=PICK, pick=PICK, more=PICK, takes=st.booleans())
    def call_a_method(self, at: int, pick: int, more: int, *, takes: bool) -> None:
        name, other = self.some(at, pick), self.some(at, more)
        if name and other:
            self.do(at, Method(self.new(), name, (other,) if takes else ()))

    @precondition(lambda self: self.rings)
    @rule(at=PICK, pick=PICK, more=PICK)
    def put(self, at: int, pick: int, more: int) -> None:
        name, other = self.some(at, pick), self.some(at, more)
        if name and other:
            self.do(at, Method(self.new(), name, (other,), (Put(other, "self"),)))

    @rule(at=PICK, pick=PICK)
    def cancel(self, at: int, pick: int) -> None:
        living = self.world.living(self.state)
        if calls := sorted(living[at % len(living)].calls):
            self.do(at, Revoke(calls[pick % len(calls)]))

    @rule(at=PICK, to=PICK)
    def send_nothing(self, at: int, to: int) -> None:
        self.do(at, Say(self.other(to)))

    @rule(at=PICK, to=PICK, pick=PICK, for_call=st.booleans())
    def abandon(self, at: int, to: int, pick: int, *, for_call: bool) -> None:
        if name := self.some(at, pick):
            self.do(at, Pickle(name, self.other(to), for_call=for_call))
            self.do(at, Abandon())

    @rule(at=PICK, pick=PICK)
    def drop(self, at: int, pick: int) -> None:
        if name := self.some(at, pick):
            self.do(at, Drop(name))

    # ---- what happens then

    @rule(picks=st.lists(PICK, min_size=3, max_size=12))
    def go_on(self, picks: list[int]) -> None:
        for pick in picks:
            if offers := self.world.offers(self.state):
                self.went(*offers[pick % len(offers)]())

    def went(self, move: Move, after: WorldState) -> None:
        """Judge a move, and note it."""
        self.trace.append((self.state, move, after))
        self.state = after
        self.check(self.model.judge(after))
        if isinstance(move.step, Arrival) and after.endpoints[move.place] not in self.world.broken:
            endpoint = self.world.endpoints[after.endpoints[move.place]]
            self.changes_nothing_if_refused(endpoint, move.step.sender, move.step.message)

    def check(self, mistake: Mistake | None) -> None:
        """Report the run if there is a mistake."""
        if mistake is not None:
            self.failed = True
            lines = [self.model.show(*each) for each in self.trace]
            reason = f"{mistake.property!r} does not hold: {mistake.reason}"
            raise AssertionError("\n".join([reason, *lines]))

    @rule(seed=st.integers())
    def send_wrong_messages(self, seed: int) -> None:
        dice = random.Random(seed)
        make = MessageMaker(dice, IDS)
        for endpoint in self.world.living(self.state):
            for _ in range(5):
                self.changes_nothing_if_refused(endpoint, dice.choice(WORKERS), make.message())

    def changes_nothing_if_refused(
        self, endpoint: ScriptedEndpoint, sender: WorkerId, message: Message
    ) -> None:
        """Try a message on a copy: it is foreign, or came before."""
        context = clone(endpoint.context)
        before = freeze(context)
        try:
            context.receive(sender, message)
        except ProtocolError:
            assert freeze(context) == before, f"{message} was refused and changed something"
        finally:
            discard(context)

    def teardown(self) -> None:
        """Drop most references; then go on until no move is possible, without further crashes."""
        if self.failed:
            return
        for at, endpoint in enumerate(self.world.living(self.state)):
            for index, name in enumerate(sorted(endpoint.variables)):
                if index % 4:
                    self.do(at, Drop(name))
        for turn in range(MANY_MOVES):
            offers = self.world.offers(self.state, crashes=False)
            if not offers:
                break
            # Searches come last among the moves: let them meet the other ones.
            self.went(*offers[turn * 7 % len(offers) if self.rings else 0]())
        else:
            self.check(Mistake("everything comes to an end", f"not after {MANY_MOVES} moves"))
        self.check(self.model.judge_end(self.state))


def play(sharing: Sharing, examples: int, *, rings: bool, deaths: bool) -> None:
    machine = partial(RandomProgram, sharing, rings=rings, deaths=deaths)
    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]  # any factory does
        settings=settings(QUICK, max_examples=examples),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("rings", [False, True])
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_random_programs(sharing: Sharing, *, rings: bool, deaths: bool) -> None:
    play(sharing, 8 if rings else 15, rings=rings, deaths=deaths)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("rings", [False, True])
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_many_random_programs(sharing: Sharing, *, rings: bool, deaths: bool) -> None:
    play(sharing, 1_500, rings=rings, deaths=deaths)

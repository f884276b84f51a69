"""Endpoints and an unordered network between them: every move of a small program.

A state of the world is one number for each endpoint and the sorted numbers of the messages in
flight. The numbers stand for *interned* endpoints and messages: an endpoint state that many states
of the world share exists once, and the shipped machines compute a step of it once. This makes every
order affordable.

The network delivers each message once, at any time. Endpoints in ``Program.mortal`` may crash at
any moment. Messages to the dead are lost; messages from the dead may still arrive. Each survivor
hears of a death at its own time. The grace that follows passes at an endpoint only once every
survivor has heard of every death and has settled it (see `farref.protocol.death`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Holders, Message, Probe, WhoHolds
from farref.protocol.owner import Owner
from farref.protocol.sharing import Sharing
from farref.protocol.user import User

from . import script as do
from .endpoint import ScriptedEndpoint, hands_over, worker, workers
from .explorer import Mistake
from .reach import unreachable
from .script import Script
from .state import clone
from .steps import Act, Arrival, Bury, Forget, Notice, Search, Step, Suspect

DEAD = -1
"""The number of an endpoint that crashed."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program: a script for each endpoint, and the endpoints that may die."""

    name: str
    scripts: dict[str, Script]
    mortal: tuple[str, ...] = ()
    sharing: Sharing = "fork"
    """How references in calls are shared."""
    late: bool = False
    """The grace may end too early; then late messages find a loss."""
    victims: int | None = None
    """The most calls that are refused in rings; None: no endpoint looks for rings."""
    ordered: bool = False
    """Messages of a pair arrive in the order sent, and so do requests on one object."""
    searches: str | None = None
    """The endpoints that search for garbage in cycles while other things happen, once for each
    letter. None: nobody searches, not even at rest."""
    lingers: bool = False
    """Between the moment of an exact look and its answer, anything may happen, and so it may before
    a search is weighed."""
    rests: int = 1
    """The searches at rest; one frees everything that leads to its object."""
    losing: tuple[str, ...] = ()
    """The calls that end with the loss of their object, without a death."""
    reaches: tuple[str, ...] = ()
    """The negative properties that this program is there to violate."""
    states: int = 0
    """The states when it was last explored."""
    slow: bool = False


class InFlight(NamedTuple):
    sender: WorkerId
    to: WorkerId
    message: Message


class WorldState(NamedTuple):
    """The world at one moment, as numbers (see the module)."""

    endpoints: tuple[int, ...]
    flying: tuple[int, ...]


class Crash(msgspec.Struct, frozen=True):
    """An endpoint dies."""


class Move(NamedTuple):
    place: int
    step: Step | Crash


class Taken(NamedTuple):
    """A step of one endpoint: its states before and after, and the messages that it sent."""

    before: ScriptedEndpoint
    step: Step
    after: ScriptedEndpoint
    sent: tuple[InFlight, ...]

    @property
    def owners(self) -> Mapping[RRefId, Owner]:
        """The endpoint's own objects before the step."""
        return self.before.context.owners

    @property
    def users(self) -> Mapping[RRefId, User]:
        """The others that it used before the step."""
        return self.before.context.users

    @property
    def message(self) -> Message | None:
        """The delivered message, if its sender is not known to be dead."""
        match self.step:
            case Arrival(sender=sender, message=message) if sender not in self.before.context.dead:
                return message
            case _:
                return None


@dataclass(slots=True)
class Outcome:
    """A step of an endpoint, and its results."""

    move: Move
    endpoint: int
    sends: tuple[int, ...] = ()
    settles: bool = False
    """Whether it is that of a script which waited until nothing else happens."""


@dataclass
class World:
    program: Program
    endpoints: list[ScriptedEndpoint] = field(default_factory=list)
    envelopes: list[InFlight] = field(default_factory=list)
    inspect: Callable[[Taken], Mistake | None] = lambda _: None
    """Judges each step of an endpoint once."""
    broken: dict[int, Mistake] = field(default_factory=dict)
    """Endpoint states that no correct machine reaches."""

    def __post_init__(self) -> None:
        self.workers = [worker(name) for name in self.program.scripts]
        self.mortal = {worker(name) for name in self.program.mortal}
        self._places = {who: place for place, who in enumerate(self.workers)}
        self._endpoint_ids: dict[object, int] = {}
        self._envelope_ids: dict[InFlight, int] = {}
        self._to: list[int] = []
        self._pair: list[int] = []
        """The places of the sender and of the receiver of each envelope, as one number."""
        self._flights: dict[tuple[tuple[int, ...], int, tuple[int, ...]], tuple[int, ...]] = {}
        """The messages in flight after a step, by those before, the one used and those sent."""
        self._ways: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        """The messages that may arrive next, each with its place, by all in flight."""
        self._acts: dict[int, list[Outcome]] = {}
        self._reactions: dict[tuple[int, object], Outcome] = {}

    def start(self) -> WorldState:
        scripts = self.program.scripts.items()
        sharing, mortal = self.program.sharing, frozenset(self.mortal)
        ordered, lingers = self.program.ordered, self.program.lingers
        starts = (
            ScriptedEndpoint(
                worker(name), script, sharing, mortal, ordered=ordered, lingers=lingers
            )
            for name, script in scripts
        )
        return WorldState(tuple(self._intern(endpoint) for endpoint in starts), ())

    # ---- views

    def living(self, state: WorldState) -> list[ScriptedEndpoint]:
        return [self.endpoints[number] for number in state.endpoints if number != DEAD]

    def in_flight(self, state: WorldState) -> list[InFlight]:
        return [self.envelopes[number] for number in state.flying]

    def dead(self, state: WorldState) -> list[WorkerId]:
        return [self.workers[place] for place, it in enumerate(state.endpoints) if it == DEAD]

    # ---- moves

    def moves(self, state: WorldState) -> Iterator[tuple[Move, WorldState]]:
        endpoints, flying = state
        ways = self._ways.get(flying)
        if ways is None:
            ways = self._ways[flying] = self._arrivals(flying)
        for number, place in ways:
            endpoint = endpoints[place]
            if endpoint != DEAD:
                outcome = self._reactions.get((endpoint, number))
                if outcome is None:
                    outcome = self._deliver(endpoint, number)
                yield outcome.move, self._next(state, outcome, number)
        for number in endpoints:
            if number != DEAD:
                for outcome in self._steps(number):
                    if not outcome.settles or self._is_settled(state):
                        yield outcome.move, self._next(state, outcome)
        if self.program.victims is not None:
            yield from self._suspicions(state)
        if self.program.searches is not None:
            yield from self._searches(state)
        if self.mortal:
            yield from self._deaths(state)

    def offers(
        self, state: WorldState, *, crashes: bool = True
    ) -> list[Callable[[], tuple[Move, WorldState]]]:
        """The next moves as functions, so that who needs one of them makes only that one."""
        offers: list[Callable[[], tuple[Move, WorldState]]] = [
            partial(self._arrive, state, place, number)
            for number, place in self._arrivals(state.flying)
            if state.endpoints[place] != DEAD
        ]
        for place, number in enumerate(state.endpoints):
            if number not in {DEAD, *self.broken}:
                steps = self.endpoints[number].steps()
                offers += [partial(self.step, state, place, step) for step in steps]
        if self.program.searches is not None:
            offers += [partial(_made, *each) for each in self._searches(state)]
        if self.mortal:
            for each in self._deaths(state):
                if crashes or each[0].step != Crash():
                    offers.append(partial(_made, *each))
        return offers

    def step(self, state: WorldState, place: int, step: Step) -> tuple[Move, WorldState]:
        """Let the endpoint at *place* take *step*."""
        outcome = self._react(state.endpoints[place], step)
        return outcome.move, self._next(state, outcome)

    def _arrive(self, state: WorldState, place: int, number: int) -> tuple[Move, WorldState]:
        outcome = self._deliver(state.endpoints[place], number)
        return outcome.move, self._next(state, outcome, number)

    def _searches(self, state: WorldState) -> Iterator[tuple[Move, WorldState]]:
        """Endpoints search from any of their objects at any time, as often as the program says.

        At rest one of them searches from any object that nothing reaches, if one is left. That
        search has to free everything that leads to its object.
        """
        places = [
            (place, self.endpoints[number])
            for place, number in enumerate(state.endpoints)
            if number not in {DEAD, *self.broken}
        ]
        if self._is_at_rest(state, places):
            # A death ends all searches, also this one.
            if sum(endpoint.rested for _, endpoint in places) < self.program.rests + len(
                self.dead(state)
            ):
                garbage = unreachable(self.living(state))
                for place, endpoint in places:
                    for rref in sorted(garbage & endpoint.inside.keys()):
                        yield self.step(state, place, Search(rref, early=False))
            return
        if any(do.Rest() in endpoint.script for _, endpoint in places):
            return
        for place, endpoint in places:
            for rref in sorted(endpoint.inside):
                if rref in endpoint.context.state.searches:
                    if self.program.mortal and not self._is_answered(state, endpoint):
                        yield self.step(state, place, Forget(rref))
                elif endpoint.searches < self._early(
                    endpoint
                ) and endpoint.context.cycles.may_be_garbage(rref):
                    yield self.step(state, place, Search(rref, early=True))
                    if rref == min(endpoint.inside) != max(endpoint.inside):
                        together = Search(rref, early=True, together=True)
                        yield self.step(state, place, together)

    def _early(self, endpoint: ScriptedEndpoint) -> int:
        return (self.program.searches or "").count(endpoint.me.name)

    def _is_answered(self, state: WorldState, endpoint: ScriptedEndpoint) -> bool:
        """Whether a look of *endpoint*, or an answer to one, is on its way or in the making."""
        askers = (asker for each in self.living(state) for asker, _ in each.holder_reports)
        return endpoint.me in askers or any(
            isinstance(message, WhoHolds | Holders) and endpoint.me in (sender, to)
            for sender, to, message in self.in_flight(state)
        )

    def _is_at_rest(self, state: WorldState, places: list[tuple[int, ScriptedEndpoint]]) -> bool:
        """Whether nothing goes on but searches."""
        dead = len(self.dead(state))
        return (
            not state.flying
            and not any(self._steps(state.endpoints[place]) for place, _ in places)
            and all(len(endpoint.buried) == dead for _, endpoint in places)
            and not any(endpoint.context.state.searches for _, endpoint in places)
        )

    def _is_settled(self, state: WorldState) -> bool:
        return not state.flying and all(
            outcome.settles
            for number in state.endpoints
            if number != DEAD
            for outcome in self._steps(number)
        )

    def _suspicions(self, state: WorldState) -> Iterator[tuple[Move, WorldState]]:
        """At most two probes at a time, of different objects; each endpoint may be early once."""
        flying = [it.message for it in self.in_flight(state)]
        probed = [message.start for message in flying if isinstance(message, Probe)]
        if len(probed) > 1:
            return
        living = [(place, it) for place, it in enumerate(state.endpoints) if it != DEAD]
        early = any(not isinstance(message, Probe) for message in flying) or any(
            self._steps(number) for _, number in living
        )
        for place, number in living:
            endpoint = self.endpoints[number]
            if number in self.broken or (early and endpoint.suspicions):
                continue
            for rref in endpoint.suspects():
                if rref not in probed:
                    yield self.step(state, place, Suspect(rref, early))

    def note(
        self, state: WorldState, place: int, change: Callable[[ScriptedEndpoint], Mistake | None]
    ) -> WorldState:
        """*state* with *change* made to the books of the endpoint at *place*."""
        endpoint = clone(self.endpoints[state.endpoints[place]])
        flaw = change(endpoint)
        number = self._intern(endpoint, failed=flaw is not None)
        if flaw is not None:
            self.broken[number] = flaw
        endpoints = (*state.endpoints[:place], number, *state.endpoints[place + 1 :])
        return WorldState(endpoints, state.flying)

    def _deaths(self, state: WorldState) -> Iterator[tuple[Move, WorldState]]:
        dead = self.dead(state)
        living = [(place, it) for place, it in enumerate(state.endpoints) if it != DEAD]
        for place, _ in living:
            if self.workers[place] in self.mortal:
                yield Move(place, Crash()), self._crash(state, place)
        settled = not any(self.endpoints[number].owed for _, number in living)
        for place, number in living:
            for who in dead:
                if who not in self.endpoints[number].context.dead:
                    settled = False
                    yield from self._notices(state, place, who)
        if not self.program.late and not settled:
            return
        for place, number in living:
            for who in workers(self.endpoints[number].context.dead):
                if who not in self.endpoints[number].buried:
                    yield self.step(state, place, Bury(who))

    def _notices(
        self, state: WorldState, place: int, who: WorkerId
    ) -> Iterator[tuple[Move, WorldState]]:
        """*who* acknowledged all that it received, or nothing; messages in flight are lost."""
        number = state.endpoints[place]
        lost = [
            it
            for it in state.flying
            if self.envelopes[it].to == who and self.envelopes[it].sender == self.workers[place]
        ]
        flying = tuple(it for it in state.flying if it not in lost)
        unreceived = tuple(self.envelopes[it].message for it in lost)
        sent = self.endpoints[number].over.get(who, ())
        for messages in dict.fromkeys((unreceived, sent)):
            yield self.step(WorldState(state.endpoints, flying), place, Notice(who, messages))

    def _crash(self, state: WorldState, place: int) -> WorldState:
        endpoints = (*state.endpoints[:place], DEAD, *state.endpoints[place + 1 :])
        who = self.workers[place]
        flying = tuple(
            it for it in state.flying if self.envelopes[it].to != who or self._may_be_taken_back(it)
        )
        return WorldState(endpoints, flying)

    def _next(self, state: WorldState, outcome: Outcome, used: int = DEAD) -> WorldState:
        endpoints, flying = state
        changed, sends = list(endpoints), outcome.sends
        changed[outcome.move.place] = outcome.endpoint
        if sends and DEAD in changed:
            sends = tuple(
                number
                for number in sends
                if changed[self._to[number]] != DEAD or self._may_be_taken_back(number)
            )
        if sends or used != DEAD:
            flight = (flying, used, sends)
            after = self._flights.get(flight)
            if after is None:
                after = self._flights[flight] = self._fly(*flight)
            flying = after
        return tuple.__new__(
            WorldState, (tuple(changed), flying)
        )  # as `WorldState()` does, in half the time

    def _fly(self, flying: tuple[int, ...], used: int, sends: tuple[int, ...]) -> tuple[int, ...]:
        after = [*flying, *sends]
        if used != DEAD:
            after.remove(used)
        after.sort(key=self._pair.__getitem__ if self.program.ordered else None)
        return tuple(after)

    def _arrivals(self, flying: tuple[int, ...]) -> list[tuple[int, int]]:
        """The next message of each pair, or all of them; two equal messages are one move."""
        numbers = self._first(flying) if self.program.ordered else dict.fromkeys(flying)
        return [(number, self._to[number]) for number in numbers]

    def _first(self, flying: tuple[int, ...]) -> Iterable[int]:
        """The next message of each pair."""
        first: dict[int, int] = {}
        for number in flying:
            first.setdefault(self._pair[number], number)
        return first.values()

    def _may_be_taken_back(self, envelope: int) -> bool:
        """A message with a table is remembered until its sender knows of the receiver's death."""
        return hands_over(self.envelopes[envelope].message)

    # ---- steps of one endpoint, each computed once

    def _steps(self, number: int) -> list[Outcome]:
        known = self._acts.get(number)
        if known is None:
            acts = [] if number in self.broken else self.endpoints[number].steps()
            known = self._acts[number] = [self._take(number, act) for act in acts]
            for outcome in known:
                outcome.settles = outcome.move.step == Act() and self.endpoints[number].settles
        return known

    def _deliver(self, number: int, envelope: int) -> Outcome:
        sender, _, message = self.envelopes[envelope]
        known = self._reactions[number, envelope] = self._take(number, Arrival(sender, message))
        return known

    def _react(self, number: int, step: Step) -> Outcome:
        known = self._reactions.get((number, step))
        if known is None:
            known = self._reactions[number, step] = self._take(number, step)
        return known

    def _take(self, number: int, step: Step) -> Outcome:
        endpoint = clone(self.endpoints[number])
        move = Move(self._places[endpoint.me], step)
        try:
            sends = endpoint.take(step)
            for send in sends:
                self._places[send.to]  # a machine may not send to an unknown endpoint
        except Exception as error:  # any exception of a machine is a finding
            after = self._intern(endpoint, failed=True)
            self.broken[after] = Mistake("no machine raises", f"{type(error).__name__}: {error}")
            return Outcome(move, after)
        after = self._intern(endpoint)
        envelopes = tuple(InFlight(endpoint.me, send.to, send.message) for send in sends)
        taken = Taken(self.endpoints[number], step, self.endpoints[after], envelopes)
        flaw = self.inspect(taken)
        if flaw is not None:
            after = self._intern(endpoint, failed=True)
            self.broken[after] = flaw
        return Outcome(move, after, tuple(self._number(envelope) for envelope in envelopes))

    def _intern(self, endpoint: ScriptedEndpoint, *, failed: bool = False) -> int:
        frozen = (endpoint.me, failed, endpoint.freeze())
        number = self._endpoint_ids.setdefault(frozen, len(self.endpoints))
        if number == len(self.endpoints):
            self.endpoints.append(endpoint)
        return number

    def _number(self, envelope: InFlight) -> int:
        number = self._envelope_ids.get(envelope)
        if number is None:
            number = self._envelope_ids[envelope] = len(self.envelopes)
            self.envelopes.append(envelope)
            self._to.append(self._places[envelope.to])
            sender = self._places[envelope.sender]
            self._pair.append(sender * len(self.workers) + self._places[envelope.to])
        return number


def _made(move: Move, after: WorldState) -> tuple[Move, WorldState]:
    """An offer that has been computed already."""
    return move, after

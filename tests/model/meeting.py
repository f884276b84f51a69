"""Nodes that meet: every interleaving of their actions, of deaths, and of passing time.

The world of `protocol/rendezvous`, explored by the same `explore`, behind both shells:

* ``shared``: the store of the state offers only compare-and-set. To look, decide and store is one
  move: a decision takes effect only if no other state was stored since, and then it is the same as
  if it had been made at that moment (time alone makes it less eager, not wrong). A node may store
  without hearing of its success (`unsure`).
* ``service``: one `RendezvousRun` is told of every event; nodes ask it, and it ticks.

A program is *fair* or not. In a fair program, time passes for all nodes at once, and only after a
sign of life of every living node: keep-alives arrive in time. In an unfair program each node has
its own clock, and time may pass for one node alone, so living nodes are given up, too. The
properties that hold even then hold with any clocks. Beats are compared only for equality, so they
are shifted back to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from farref.protocol.errors import RendezvousError
from farref.protocol.ids import WorkerId
from farref.protocol.rendezvous.attendant import Attendant
from farref.protocol.rendezvous.codec import decode, encode
from farref.protocol.rendezvous.limits import RoundLimits, Timeouts
from farref.protocol.rendezvous.observer import RendezvousRun
from farref.protocol.rendezvous.ranks import natural
from farref.protocol.rendezvous.state import Close, Leave, Membership, Seat, State

from .explorer import Exploration, Mistake, Model, explore
from .state import clone, freeze

FAIR_TICKS = 6
"""After this many further ticks without other events, everything that can end has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """A program: the actions of each node, one after the other.

    They are ``join`` (also: again), ``leave`` and ``close``. Before its next action a node waits
    until it has its round, or an error. Any node may ``close`` at any time.
    """

    name: str
    scripts: tuple[tuple[str, ...], ...]
    limits: RoundLimits
    shell: str = "shared"
    names: tuple[str, ...] = ("a", "b", "c", "d")
    orders: tuple[int | None, ...] = (None, None, None, None)
    ticks: int = 0
    """For all nodes together if the program is fair, otherwise for each node."""
    fair: bool = True
    deaths: int = 0
    unsure: int = 0
    join: int = 100
    """A round must form within this many seconds."""
    reaches: tuple[str, ...] = ()
    slow: bool = False

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(join=self.join, last_call=1, keep_alive=1, attempts=2)


@dataclass(slots=True)
class Node:
    me: WorkerId
    attendant: Attendant
    script: tuple[str, ...]
    ticks: int
    phase: str = "out"
    """out, joining, member, or dead."""
    held: Membership | None = None
    ended: str = ""
    """The name of the error with which it ended."""

    def freeze(self) -> Hashable:
        if self.phase == "dead" or self.ended:
            return self.me, self.phase, self.ended
        machine = freeze(self.attendant)
        return machine, self.script, self.ticks, self.phase, self.held

    @property
    def present(self) -> bool:
        return self.phase in ("joining", "member")


class World(NamedTuple):
    """The whole world, by number; see `MeetingModel`."""

    place: int
    nodes: tuple[int, ...]
    ticks: int
    deaths: int
    unsure: int
    open_for: int
    """Ticks since the last call was opened, or -1."""
    barred: frozenset[WorkerId]
    """The nodes that were there when the run was closed."""


class Move(NamedTuple):
    what: str
    node: int = -1


def _stayed(old: State, new: State) -> bool:
    return not {m.node for m in old.members}.isdisjoint({m.node for m in new.members})


CLAIMS: dict[str, Callable[[State, State, bool], bool]] = {
    "no round is formed": lambda old, new, formed: formed,
    "no round is formed by fewer than may come": lambda old, new, formed: (
        formed and len(new.members) < new.limits.max_nodes
    ),
    "no second round is formed": lambda old, new, formed: formed and new.round > 0,
    "no group shrinks": lambda old, new, formed: (
        formed and _stayed(old, new) and len(new.members) < len(old.members)
    ),
    "no group grows": lambda old, new, formed: (
        formed and _stayed(old, new) and len(new.members) > len(old.members)
    ),
    "rank 0 never changes": lambda old, new, formed: (
        formed and bool(old.members) and new.members[0].node != old.members[0].node
    ),
    "nobody waits": lambda old, new, formed: bool(new.waiting),
    "nobody is spare": lambda old, new, formed: bool(new.spares),
    "no spare steps in": lambda old, new, formed: bool(
        old.spares.keys() & (new.waiting.keys() | new.participants)
    ),
    "no last call is called off": lambda old, new, formed: (
        old.calling and not new.calling and not new.complete
    ),
    "no last call is repeated": lambda old, new, formed: old.call > 0 and new.call > old.call,
    "no member is lost": lambda old, new, formed: bool(new.lost()),
    "nobody joins again": lambda old, new, formed: bool(
        old.participants.keys() & new.waiting.keys()
    ),
    "no run ends": lambda old, new, formed: old.closed and not new.closed,
}
"""What violates each claim: the states before and after a step, and whether it formed a round."""
NEVER_MET = CLAIMS.keys() | {
    f"nobody gets a Rendezvous{error}Error"
    for error in ("Closed", "GracefulExit", "Timeout", "State")
}
"""Claims that the exploration of the programs must prove false."""


class MeetingModel(Model[World]):
    def __init__(self, program: Meeting) -> None:
        super().__init__(program)
        self.places: list[RendezvousRun | State | None] = []
        self.nodes: list[Node] = []
        self._ids: dict[Hashable, int] = {}
        self._travels: dict[int, Mistake | None] = {}
        """For each place: the mistake if its state cannot be sent."""
        self._older: dict[int, int] = {}
        """For each node: the same one, a second later."""
        self._normals: dict[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]]] = {}
        """For each place and its nodes: the same ones with their beats shifted back."""
        self._flaws: dict[World, Mistake] = {}
        self._ends: dict[World, Mistake | None] = {}

    def start(self) -> World:
        program = self.program
        nodes = []
        for number, script in enumerate(program.scripts):
            me = WorkerId(program.names[number], number)
            attendant = Attendant(
                me, program.limits, program.timeouts, 0, order=program.orders[number]
            )
            ticks = 0 if program.fair else program.ticks
            nodes.append(self._intern(Node(me, attendant, script, ticks)))
        place: RendezvousRun | None = None
        if program.shell == "service":
            place = RendezvousRun(State(program.limits), program.timeouts, 0)
        ticks = program.ticks if program.fair else 0
        first = self._place(place)
        return World(first, tuple(nodes), ticks, program.deaths, program.unsure, -1, frozenset())

    def state(self, world: World) -> State | None:
        """The stored state, or the service's state."""
        place = self.places[world.place]
        return place.state if isinstance(place, RendezvousRun) else place

    # ---- moves

    def moves(self, world: World) -> Iterator[tuple[Move, World]]:
        for number, index in enumerate(world.nodes):
            node = self.nodes[index]
            if node.phase == "dead":
                continue
            if node.script and node.phase != "joining" and not node.ended:
                yield from self._act(world, number, node.script[0])
            if node.phase == "joining":
                yield from self._changed(world, Move("looks", number), self._look(world, number))
                if world.unsure and self.program.shell == "shared":
                    after = self._look(world._replace(unsure=world.unsure - 1), number, told=False)
                    if after.place != world.place:
                        yield Move("stores, and is not told", number), after
            if world.deaths:
                dying = clone(node)
                dying.phase = "dead"
                after = self._with(world._replace(deaths=world.deaths - 1), number, dying)
                yield Move("dies", number), after
            if node.ticks and not self.program.fair:
                after = self._look_if_present(self._tick_one(world, number), number)
                yield Move("is a second older, and looks", number), after
        if world.ticks:
            spent = world._replace(ticks=world.ticks - 1)
            everybody = range(len(world.nodes))
            yield Move("a second passes, all look"), self._tick(spent, everybody)
            if self.program.shell == "shared":
                after = self._tick(spent, everybody[::-1])
                yield Move("a second passes, all look, the last first"), after

    def _changed(self, world: World, move: Move, after: World) -> Iterator[tuple[Move, World]]:
        if after != world:
            yield move, after

    def _look_if_present(self, world: World, number: int) -> World:
        present = self.nodes[world.nodes[number]].present
        return self._look(world, number) if present and world not in self._flaws else world

    def _act(self, world: World, number: int, what: str) -> Iterator[tuple[Move, World]]:
        node = clone(self.nodes[world.nodes[number]])
        node.script = node.script[1:]
        if what == "join":
            node.attendant.begin(0)
            node.phase = "joining"
            joined = self._look(self._with(world, number, node), number)
            yield Move("wants a round", number), joined
        elif what == "leave":
            node.phase, node.held = "out", None
            command = Leave((node.me,))
            yield Move("leaves", number), self._with(self._do(world, node, command), number, node)
        elif what == "close":
            yield (
                Move("closes the run", number),
                self._with(self._do(world, node, Close()), number, node),
            )
        else:
            raise AssertionError(what)

    def _do(self, world: World, node: Node, command: Leave | Close) -> World:
        """Do a command that does not depend on an earlier look."""
        place = self.places[world.place]
        if isinstance(place, RendezvousRun):
            run = clone(place)
            run.do(command, 0)
            return self._moved(world, run, node)
        attendant = clone(node.attendant)
        if isinstance(command, Close):
            return self._moved(world, attendant.close(place), node)
        stored = place or State(self.program.limits)
        return self._moved(world, attendant.leave(stored), node)

    def _look(self, world: World, number: int, *, told: bool = True) -> World:
        node = clone(self.nodes[world.nodes[number]])
        before = self.state(world)
        try:
            if self.program.shell == "service":
                world, outcome = self._ask(world, node)
            else:
                decision = node.attendant.look(before, 0)
                outcome = decision.outcome
                world = self._moved(world, decision.state, node)
        except Exception as error:  # any exception of a machine is a finding
            after = self._with(world, number, node)
            self._flaws[after] = Mistake("no machine raises", f"{type(error).__name__}: {error}")
            return after
        if not told:
            outcome = None
        if outcome is not None:
            self._take(node, outcome)
            state = self.state(world)
            assert state is not None
            flaw = None
            if isinstance(outcome, Membership):
                flaw = _granted(world, state, node, outcome)
            elif state.seat(node.me) is not None:
                flaw = Mistake("who failed has left", f"{node.me} is there still")
            if flaw is not None:
                after = self._with(world, number, node)
                self._flaws[after] = flaw
                return after
        return self._with(world, number, node)

    def _ask(self, world: World, node: Node) -> tuple[World, Membership | RendezvousError | None]:
        """The node's side of the service's shell: ask for a round, or give a sign of life."""
        place = self.places[world.place]
        assert isinstance(place, RendezvousRun)
        run = clone(place)
        attendant = node.attendant
        late = attendant._deadline is not None and attendant._deadline <= 0
        attendant._observer._last = 0
        outcome: Membership | RendezvousError | None = None
        if node.phase == "joining":
            join = msgspec.structs.replace(attendant._join, after=attendant._after)
            try:
                run.do(join, 0)
                outcome = run.state.membership(node.me)
                if outcome is None and late:
                    run.do(Leave((node.me,)), 0)
                    outcome = attendant._late(run.state)
            except RendezvousError as error:
                outcome = error
                if run.state.seat(node.me) is not None:
                    run.do(Leave((node.me,)), 0)
        elif run.state.seat(node.me) is None:
            outcome = attendant._gone(run.state)
        run.heard(node.me, 0)
        return self._moved(world, run, node), outcome

    def _serve(self, world: World) -> World:
        place = self.places[world.place]
        assert isinstance(place, RendezvousRun)
        run = clone(place)
        run.tick(0)
        after = self._moved(world, run)
        if world in self._flaws:
            self._flaws[after] = self._flaws[world]
        return after

    def _take(self, node: Node, outcome: Membership | RendezvousError) -> None:
        node.attendant.resolved(outcome)
        if isinstance(outcome, Membership):
            node.phase, node.held = "member", outcome
        else:
            self._seen.add(f"nobody gets a {type(outcome).__name__}")
            node.phase, node.held, node.ended = "out", None, type(outcome).__name__

    def _tick(self, world: World, order: range) -> World:
        """A second passes for all nodes there; all of them look, and so does a service."""
        for number in order:
            world = self._tick_one(world, number)
        place = self.places[world.place]
        if isinstance(place, RendezvousRun):
            run = clone(place)
            run._observer._last -= 1
            world = world._replace(place=self._place(run))
        state = self.state(world)
        if state is not None and state.calling:
            world = world._replace(open_for=min(world.open_for + 1, 2))
        for number in order:
            world = self._look_if_present(world, number)
        return self._serve(world) if isinstance(place, RendezvousRun) else world

    def _tick_one(self, world: World, number: int) -> World:
        index = world.nodes[number]
        older = self._older.get(index)
        if older is None:
            older = self._older[index] = self._intern(_older(self.nodes[index]))
        return self._with_node(world, number, older)

    # ---- the results of a step

    def _moved(
        self, world: World, place: RendezvousRun | State, actor: Node | None = None
    ) -> World:
        """The world with another state, and with the updates that the properties need."""
        before = self.state(world)
        state = place.state if isinstance(place, RendezvousRun) else place
        number = self._place(place)
        if isinstance(place, RendezvousRun):
            place.log.clear()
        open_for = world.open_for
        if state is not before:
            old = before or State(self.program.limits)
            formed = state.complete and not (old.complete and old.round == state.round)
            self.see({claim: violated(old, state, formed) for claim, violated in CLAIMS.items()})
            if state.calling and not (old.calling and old.call == state.call):
                open_for = 0
            barred = world.barred | (frozenset(state.seats()) if state.closed else frozenset())
            after = world._replace(
                place=number,
                open_for=open_for if state.calling else -1,
                barred=barred,
            )
            flaw = _step(old, state, world, self.program, self._gone(world, actor))
            if flaw is not None:
                self._flaws[after] = flaw
            return after
        return world._replace(place=number)

    def _gone(self, world: World, actor: Node | None) -> set[WorkerId]:
        """The nodes that a step may remove: the dead, and the actor."""
        gone = {n.me for n in (self.nodes[i] for i in world.nodes) if not n.present}
        return gone | ({actor.me} if actor is not None else set())

    def _with(self, world: World, number: int, node: Node) -> World:
        return self._with_node(world, number, self._intern(node))

    def _with_node(self, world: World, number: int, index: int) -> World:
        nodes = list(world.nodes)
        nodes[number] = index
        after = world._replace(nodes=tuple(nodes))
        flaw = self._flaws.get(world)
        normal = self._normal(after)
        if flaw is not None:
            self._flaws[normal] = flaw
        return normal

    def _normal(self, world: World) -> World:
        """The world with all beats shifted as far back as they go."""
        if self.program.shell == "service" or self.state(world) is None:
            return world
        key = world.place, world.nodes
        normal = self._normals.get(key)
        if normal is None:
            normal = self._normals[key] = self._shifted(world)
        return world if normal == key else world._replace(place=normal[0], nodes=normal[1])

    def _shifted(self, world: World) -> tuple[int, tuple[int, ...]]:
        state = self.state(world)
        assert state is not None
        shifts: dict[WorkerId, int] = {}
        for node, seat in state.seats().items():
            seen = [
                self.nodes[index].attendant._observer._beats.get(node, seat.beat)
                for index in world.nodes
            ]
            shifts[node] = min(seat.beat, *seen)
        if not any(shifts.values()):
            return world.place, world.nodes

        def shift(seats: dict[WorkerId, Seat]) -> dict[WorkerId, Seat]:
            return {n: s._replace(beat=s.beat - shifts[n]) for n, s in seats.items()}

        state = msgspec.structs.replace(
            state,
            participants=shift(dict(state.participants)),
            waiting=shift(dict(state.waiting)),
            spares=shift(dict(state.spares)),
        )
        nodes = []
        for index in world.nodes:
            each = clone(self.nodes[index])
            beats = each.attendant._observer._beats
            for known in beats.keys() & shifts.keys():
                beats[known] -= shifts[known]
            said = each.attendant._said
            if said is not None:
                each.attendant._said = said[0] - shifts.get(each.me, 0), said[1]
            nodes.append(self._intern(each))
        return self._place(state), tuple(nodes)

    def _intern(self, node: Node) -> int:
        return self._number(("node", node.freeze()), node, self.nodes)

    def _place(self, place: RendezvousRun | State | None) -> int:
        key: Hashable = None
        if isinstance(place, RendezvousRun):
            key = _frozen(place.state), freeze(place._observer)
        elif place is not None:
            key = _frozen(place)
        number = self._number(("place", key), place, self.places)
        if place is not None and number not in self._travels:
            self._travels[number] = _travels(
                place.state if isinstance(place, RendezvousRun) else place
            )
        return number

    def _number(self, key: Hashable, thing: object, things: list[Any]) -> int:
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(things)
            things.append(thing)
        return number

    # ---- properties

    def need_not(self, move: Move) -> bool:
        """Deaths are optional, and time need not pass (`judge_end` lets it pass)."""
        return move.what != "looks"

    def judge(self, world: World) -> Mistake | None:
        flaw = self._flaws.get(world)
        if flaw is not None:
            return flaw
        state = self.state(world)
        if state is None:
            return None
        return self._travels[world.place] or self._one_group(world, state)

    def _one_group(self, world: World, state: State) -> Mistake | None:
        members = [n for n in (self.nodes[i] for i in world.nodes) if n.phase == "member"]
        for node in members:
            assert node.held is not None
            there = node.me in state.participants
            if not there and self.program.fair:
                return Mistake("exclusivity", f"{node.me} is a member, and is not in the state")
            if there and not (state.complete and state.round == node.held.round):
                return Mistake("exclusivity", f"{node.me} is in round {node.held.round} still")
            if there and node.held.members != state.members:
                return Mistake("consistency", f"{node.me} knows other members")
        return None

    def judge_end(self, world: World) -> Mistake | None:
        """Let time pass: every node that can be served is served."""
        idle = world._replace(ticks=0, deaths=0, unsure=0)
        if idle not in self._ends:
            self._ends[idle] = self._pass(idle)
        return self._ends[idle]

    def _pass(self, world: World) -> Mistake | None:
        for _ in range(FAIR_TICKS):
            world = self._tick(world, range(len(world.nodes)))
            if (flaw := self.judge(world)) is not None:
                return flaw
        state = self.state(world) or State(self.program.limits)
        nodes = [self.nodes[index] for index in world.nodes]
        present = {node.me for node in nodes if node.present}
        left = set(state.seats()) - present
        if left and (present or self.program.shell == "service"):
            return Mistake("the dead are removed", f"{sorted(left)} are there still")
        for node in nodes:
            if node.phase == "joining":
                if node.attendant._deadline == 0:
                    return Mistake("every wait ends with its timeout (G6)", f"{node.me} waits")
                reason = _waits_in_vain(node, state, nodes)
                if reason is not None:
                    return Mistake("nobody waits for ever while enough are there", reason)
        return None

    def show(self, before: World, move: Move, after: World) -> str:
        who = f"{self.nodes[before.nodes[move.node]].me} " if move.node >= 0 else ""
        old, new = self.state(before), self.state(after)
        return f"{who}{move.what}" + (f": {_told(new)}" if new is not old and new else "")


def _older(node: Node) -> Node:
    node = clone(node)
    attendant = node.attendant
    attendant._observer._last = max(attendant._observer._last - 1, -1)
    attendant._lived = max(attendant._lived - 1, -1)
    if attendant._said is not None:
        attendant._said = attendant._said[0], max(attendant._said[1] - 1, -1)
    if attendant._deadline is not None:
        attendant._deadline = max(attendant._deadline - 1, 0)
    node.ticks = max(node.ticks - 1, 0)
    return node


def _frozen(state: State) -> Hashable:
    """Equal for states that behave the same: only spares are served in the order they came."""
    lists = frozenset(state.participants.items()), frozenset(state.waiting.items())
    rest = state.round, state.complete, state.closed, state.call, state.members
    return *lists, tuple(state.spares.items()), rest


def _travels(state: State) -> Mistake | None:
    """`decode` accepts every state that is reached."""
    try:
        same = decode(encode(state)) == state
    except RendezvousError as error:
        return Mistake("a state travels", str(error))
    return None if same else Mistake("a state travels", "another one came back")


def _waits_in_vain(node: Node, state: State, nodes: list[Node]) -> str | None:
    if state.closed:
        return f"{node.me} was not told that the run is closed"
    if state.seat(node.me) is None:
        return f"{node.me} is in no list"
    if not state.complete:
        enough = len(state.participants) >= state.limits.min_nodes
        return f"{len(state.participants)} are there, and {node.me} waits" if enough else None
    if not any(n.phase == "member" and n.me in state.participants for n in nodes):
        return f"nobody is in round {state.round} any more, and {node.me} waits"
    return None


def _granted(world: World, state: State, node: Node, got: Membership) -> Mistake | None:
    if node.me in world.barred:
        return Mistake("closed is final", f"{node.me} was there when it was closed")
    if got.members != state.members or got.round != state.round:
        return Mistake("consistency", f"{node.me} is told of other members")
    if got.members[got.rank].node != node.me:
        return Mistake("consistency", f"{node.me} is told rank {got.rank}")
    return None


def _step(
    old: State, new: State, world: World, program: Meeting, gone: set[WorkerId]
) -> Mistake | None:
    """The rules of a transition. *gone*: the nodes that are dead, or leave by it."""
    if old.closed and not old.empty and not new.closed and not new.empty:
        return Mistake("closed is final", "it is open again, and somebody is there")
    if old.closed and new.closed and (new.round, new.complete) != (old.round, old.complete):
        return Mistake("closed is final", "a round began, or was formed")
    if new.round < old.round or new.call < old.call:
        return Mistake("numbers grow", "a round or a last call has an earlier number")
    if old.calling and new.calling and old.call != new.call:
        return Mistake("a last call is not put off", "it began anew")
    if program.fair and (lost := set(old.seats()) - set(new.seats()) - gone):
        return Mistake("the living are not given up", f"{sorted(lost)} are removed")
    if old.complete and old.round == new.round:
        if new.members != old.members or not new.complete:
            return Mistake("consistency", "a completed round changed")
        if not set(new.participants) <= set(old.participants):
            return Mistake("exclusivity", "somebody came into a completed round")
    if new.complete and not (old.complete and old.round == new.round):
        return _formed(old, new, world, program)
    return None


def _formed(old: State, new: State, world: World, program: Meeting) -> Mistake | None:
    size, limits = len(new.members), new.limits
    if not limits.min_nodes <= size <= limits.max_nodes:
        return Mistake("min and max are respected", f"{size} nodes")
    if size < limits.max_nodes and program.fair and world.open_for < 1:
        return Mistake("the last call is kept open", f"it was open for {world.open_for} s")
    ranks = {member.node: rank for rank, member in enumerate(new.members)}
    if set(ranks) != set(new.participants):
        return Mistake("consistency", "the members are not the participants")
    before = {member.node: rank for rank, member in enumerate(old.members)}
    for node, rank in before.items():
        if node in ranks and rank < size and ranks[node] != rank:
            return Mistake("ranks are stable", f"{node} had rank {rank}, and has {ranks[node]}")
    orders = {node: seat.order for node, seat in new.participants.items()}
    fresh = [m.node for m in new.members if m.node not in before]
    keys = [(orders[n] is None, orders[n] or 0, natural(n.name)) for n in fresh]
    if any(a > b for a, b in pairwise(keys)):
        return Mistake("newcomers come in their order", f"{[str(n) for n in fresh]}")
    return None


def _told(state: State) -> str:
    lists = (("in", state.participants), ("waiting", state.waiting), ("spare", state.spares))
    said = [f"{word} {' '.join(map(str, seats))}" for word, seats in lists if seats]
    what = "complete" if state.complete else "forming"
    return f"round {state.round} {'closed' if state.closed else what}: {', '.join(said)}"


def explore_meeting(program: Meeting, limit: int) -> Exploration:
    return explore(MeetingModel(program), limit=limit)

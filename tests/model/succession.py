"""Hosts that pass the registrar's role on: every interleaving of requests, deaths and takeovers.

The shipped `Campaign`, `Ledger`, `RegistrarLine`, `Forwarder` and `Elected` run here, over a store
in memory. A host dies with all that is on it, and with what it has sent and nobody has got. A lease
may end though its holder lives: so a registrar that was stopped, or cut off, looks to the others
when it comes back. A store may do what it is asked and its answer is lost, or it gets a write late,
after the writer has asked again. A living host may be given up, too.

Each program begins when all hosts and endpoints have joined, and host 0 is the registrar.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.cluster.elected import Elected
from farref.actors.cluster.facts import Noted
from farref.actors.cluster.forwarder import Forwarder
from farref.actors.wire.messages import (
    AllSettled,
    Deliver,
    Died,
    Down,
    EndpointJoin,
    EndpointLeave,
    EndSystem,
    Forward,
    Heard,
    HostInfo,
    HostJoin,
    Joined,
    Make,
    Settled,
    Spawn,
    Spawned,
    Unmade,
)
from farref.actors.wire.settings import Settings
from farref.protocol.ids import WorkerId
from farref.protocol.succession.campaign import (
    Campaign,
    Deposed,
    Expired,
    Follow,
    Grant,
    Granted,
    Holder,
    Renew,
    Renewed,
    Stand,
    TakeOver,
    Vacant,
    WhoLeads,
)
from farref.protocol.succession.ledger import Ledger, Refused, Write, Written

from .explorer import Exploration, Mistake, Model, explore

SETTINGS = Settings(orphan_grace=0.0, silence=1.0)
NEVER = frozenset(
    {
        "a registrar is never followed by another",
        "the store refuses nothing",
        "a proxy never hears of an earlier registrar",
        "an order is never repeated",
        "an actor is never ordered twice",
        "a death is never announced twice",
        "nobody is told again that a death is settled",
        "an endpoint never joins twice",
        "a host that is given up never comes back",
        "a candidate never finds itself",
    }
)
"""Each is violated in some program: so the situation that it speaks of does happen."""


def _noted(name: str, ledger: Ledger, entries: dict[Any, Any]) -> Noted:
    """A copy of a table: it notes nothing of what it has."""
    table = Noted(name, ledger, {})
    table.data.update(entries)
    return table


copyreg.pickle(Noted, lambda table: (_noted, (table._name, table._ledger, dict(table))))


@dataclass(frozen=True, slots=True, eq=False)
class Takeover:
    """A program. The numbers say how often each thing may happen."""

    name: str
    hosts: int = 2
    crashes: tuple[int, ...] = ()
    """The hosts that may die."""
    dying: tuple[str, ...] = ()
    """The endpoints that may die."""
    orders: tuple[tuple[str, str, int], ...] = ()
    """An endpoint, the name of a worker that it asks for, and the worker's host."""
    more: tuple[str, ...] = ()
    """Endpoints besides the one of each host. The last letter of the name is the host."""
    late: tuple[str, ...] = ()
    """The endpoints that join during the program."""
    leases: int = 0
    """Leases that end though their holder lives."""
    unsure: int = 0
    """Answers of the store that are lost, or questions that reach it late."""
    wrong: tuple[int, ...] = ()
    """Living hosts that may be given up."""
    ending: tuple[int, ...] = ()
    """The hosts on which somebody may end the system."""
    settling: tuple[str, ...] = ()
    """The endpoints that may take long to settle a death. The others settle it at once."""
    stepwise: bool = False
    """A registrar may die, or be deposed, while the store works for it."""
    slow: bool = False

    @property
    def smooth(self) -> bool:
        """Whether the store always answers: then a question and its answer are one move."""
        return not (self.unsure or self.stepwise)


@dataclass(slots=True)
class ModelStore:
    revision: int = 0
    lease: int = 0
    leases: set[int] = field(default_factory=set)
    holder: Holder | None = None
    written: tuple[int, int, int] = (0, 0, 0)
    """The term, the number and the revision of the last write."""
    facts: dict[str, bytes] = field(default_factory=dict)

    def ask(self, question: Any, who: str) -> Any:
        match question:
            case Grant():
                self.lease += 1
                self.leases.add(self.lease)
                return Granted(self.lease)
            case Renew(lease=lease):
                return Renewed() if lease in self.leases else Expired()
            case Stand(lease=lease):
                if lease not in self.leases:
                    return Expired()
                if self.holder is None:
                    self.revision += 1
                    self.holder = Holder(self.revision, who, lease)
                return self.holder
            case WhoLeads():
                return self.holder or Vacant()
            case Write():
                return self._write(question)
        raise AssertionError(question)

    def _write(self, write: Write) -> Written | Refused:
        term, number, revision = self.written
        named = self.holder is not None and self.holder.term == write.term
        if named and revision == write.after:
            for key, value in write.changes:
                if value is None:
                    self.facts.pop(key, None)
                else:
                    self.facts[key] = value
            self.revision += 1
            self.written = write.term, write.number, self.revision
            return Written(self.revision)
        if (term, number) == (write.term, write.number):
            return Written(revision)
        return Refused()

    def end(self, lease: int) -> None:
        self.leases.discard(lease)
        if self.holder is not None and self.holder.lease == lease:
            self.holder = None
            self.revision += 1


@dataclass(slots=True)
class End:
    name: str
    host: int
    number: int = 0
    alive: bool = True
    me: WorkerId | None = None
    orders: dict[int, str] = field(default_factory=dict)
    """Its open orders: the token and the name."""
    made: dict[int, WorkerId | None] = field(default_factory=dict)
    known: set[WorkerId] = field(default_factory=set)
    """The deaths that it has heard of."""
    settling: set[WorkerId] = field(default_factory=set)
    agreed: set[WorkerId] = field(default_factory=set)
    before: set[WorkerId] = field(default_factory=set)
    """The deaths before it joined."""
    asked: bool = False

    @property
    def address(self) -> ActorAddress:
        return ActorAddress(Address(self.name))


@dataclass(slots=True)
class Place:
    forwarder: Forwarder
    campaign: Campaign
    alive: bool = True
    elected: Elected | None = None
    ledger: Ledger | None = None
    question: Any = None
    writing: Write | None = None
    heard: int = 0
    """The highest term that the registrar proxy has heard of."""
    early: list[tuple[int, Any]] = field(default_factory=list)
    """Messages to a registrar that does not know yet that it is one."""

    @property
    def registrar(self) -> Elected:
        assert self.elected is not None
        return self.elected

    def end(self) -> None:
        self.alive, self.elected, self.ledger = False, None, None
        self.question = self.writing = None


def address_of(host: int) -> ActorAddress:
    return ActorAddress(Address(f"h{host}"))


def host_at(address: Any) -> int:
    return int(address.addressDetails.key[1:])


class World:
    def __init__(self, program: Takeover) -> None:
        self.program = program.name
        self.store = ModelStore()
        self.places = [
            Place(
                Forwarder(WorkerId(f"h{n}", 1_000 + n), HostInfo(f"h{n}", {})),
                Campaign(f"h{n}"),
            )
            for n in range(program.hosts)
        ]
        self.ends = [End(f"e{n}", n) for n in range(program.hosts)]
        self.ends += [End(name, int(name[-1])) for name in (*program.more, *program.late)]
        self.up: dict[tuple[int, int], deque[Any]] = {}
        self.down: dict[tuple[int, int], deque[Any]] = {}
        self.floating: list[tuple[int, Any]] = []
        """Questions that reach the store late."""
        self.crashes = list(program.crashes)
        self.dying = list(program.dying)
        self.orders = list(program.orders)
        self.late = list(program.late)
        self.ending = list(program.ending)
        self.left: set[int] = set()
        """The hosts that have left, because the system was ended."""
        self.leases = program.leases
        self.unsure = program.unsure
        self.wrong = list(program.wrong)
        self.given_up: set[int] = set()
        self.dead: set[WorkerId] = set()
        """The endpoints that have died after they had joined."""
        self.flaw: Mistake | None = None


class State:
    """A world at rest; compared by everything in it. Small, for an exploration keeps all."""

    __slots__ = ("_packed", "_same", "mistake")

    def __init__(self, world: World, mistake: Mistake | None = None) -> None:
        parts = msgspec.msgpack.encode(_parts(world), enc_hook=_parts)
        self._same = hashlib.blake2b(parts, digest_size=16).digest()
        self._packed = pickle.dumps(world, 5)
        self.mistake = mistake

    def world(self) -> World:
        world: World = pickle.loads(self._packed)
        return world

    def __hash__(self) -> int:
        return hash(self._same)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._same == other._same


CONSTANT = {
    "_settings",
    "_facts",
    "_ledger",
    "_here",
    "_remembered",
    "info",
    "program",
    "_homes",
    "_proxies",
    "_proxy",
}
"""Attributes that are the same in all states, or follow from others."""


def _parts(value: Any) -> Any:
    """The parts of *value*, for a comparison."""
    if isinstance(value, ActorAddress):
        return value.addressDetails.key
    if isinstance(value, deque):
        return list(value)
    slots = getattr(type(value), "__slots__", None)
    names = [name for name in (slots or vars(value)) if name not in CONSTANT]
    return [_in_order(getattr(value, name)) for name in names]


def _in_order(value: Any) -> Any:
    """*value*, with its sets as sorted lists.

    The order of a set depends on its history and on this process's hashes, and no machine takes
    anything in the order of a set. That of a dict is a part of the state: messages leave in it.
    """
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return {key: _in_order(each) for key, each in value.items()}
    return value


class Move(NamedTuple):
    what: str
    about: tuple[Any, ...] = ()
    optional: bool = False


class PassingModel(Model[State]):
    def __init__(self, program: Takeover) -> None:
        super().__init__(program)
        self._flushing: set[int] = set()

    # ---- the beginning

    def start(self) -> State:
        world = World(self.program)
        for place in range(self.program.hosts):
            for _ in range(1 if place else 4):  # host 0 looks, gets a lease, and stands
                if not world.places[place].campaign.leads:
                    self._turn(world, place)
                    self._ask(world, place)
            self._settle_down(world)
        there = [end for end in world.ends if end.name not in self.program.late]
        for end in there:
            self._join(world, end)
            self._settle_down(world)
        self._seen.clear()
        assert all(end.me for end in there)
        return State(world)

    def _settle_down(self, world: World) -> None:
        moved = True
        while moved:
            moved = False
            for channel in (*world.up, *world.down):
                for lines, take in ((world.up, self._to_registrar), (world.down, self._to_proxy)):
                    while lines.get(channel):
                        take(world, channel)
                        moved = True
            for number, place in enumerate(world.places):
                if place.writing is not None:
                    self._write(world, number)
                    moved = True

    # ---- moves

    def moves(self, state: State) -> Iterator[tuple[Move, State]]:
        for move in self._possible(state.world()):
            after = state.world()
            try:
                self._do(after, move)
            except Exception as error:  # any exception of a machine is a finding
                after.flaw = Mistake("no machine raises", f"{type(error).__name__}: {error}")
            yield move, State(after, self._mistake_in(after))

    def _possible(self, world: World) -> Iterator[Move]:
        for channel, line in world.up.items():
            if line:
                yield Move("the registrar gets", channel)
        for channel, line in world.down.items():
            if line:
                yield Move("the proxy gets", channel)
        for number, place in enumerate(world.places):
            if not place.alive:
                continue
            yield from self._of_place(world, number, place)
        for number, end in enumerate(world.ends):
            if not end.alive:
                continue
            for worker in sorted(end.settling):
                yield Move("settles", (number, worker))
            if end.name in world.late:
                yield Move("joins", (number,))
            if end.name in world.dying and end.me is not None:
                yield Move("dies", (number,), optional=True)
            if end.me is not None and any(order[0] == end.name for order in world.orders):
                yield Move("orders", (number,))
        for number in world.ending:
            if world.places[number].alive:
                yield Move("ends the system", (number,), optional=True)
        for number in world.crashes:
            if world.places[number].alive:
                yield Move("crashes", (number,), optional=True)
        if world.leases and world.store.holder is not None:
            yield Move("the lease of a living host ends", optional=True)
        for number in range(len(world.floating)):
            yield Move("a late question reaches the store", (number,), optional=True)

    def _of_place(self, world: World, number: int, place: Place) -> Iterator[Move]:
        holder = world.store.holder
        if self.program.smooth:
            behind = holder is None or holder.term != place.forwarder.line.term
            expired = place.campaign.leads and place.campaign.lease not in world.store.leases
            if behind or expired:
                yield Move("campaigns", (number,))
        elif place.question is not None:
            yield Move("the store answers", (number,))
            if world.unsure:
                yield Move("the store's answer is lost", (number,), optional=True)
                yield Move("a question is delayed", (number,), optional=True)
        elif place.campaign.leads:
            if place.campaign.lease not in world.store.leases:
                yield Move("renews", (number,))
        elif place.campaign._suspects:
            if holder is None or holder.term > place.campaign.term:
                yield Move("looks", (number,))
        elif holder is None or holder.term != place.forwarder.line.term:
            yield Move("suspects", (number,))
        if holder is not None and not world.places[int(holder.who[1:])].alive:
            yield Move("the lease of a dead host ends", (number,))
        if place.writing is not None:
            yield Move("the store writes", (number,))
            if world.unsure:
                yield Move("the answer to a write is lost", (number,), optional=True)
                yield Move("a write is delayed", (number,), optional=True)
        if place.elected is not None:
            for other, there in enumerate(world.places):
                if there.forwarder.info.address in place.elected._hosts:
                    if not there.alive:
                        yield Move("gives up", (number, other))
                    elif other in world.wrong and other != number:
                        yield Move("gives up a living host", (number, other), optional=True)
            if place.elected._tombstones.dying and place.elected._tombstones.agreed:
                yield Move("compacts", (number,), optional=True)

    def _do(self, world: World, move: Move) -> None:
        about = move.about
        match move.what:
            case "the registrar gets":
                self._to_registrar(world, about)
            case "the proxy gets":
                self._to_proxy(world, about)
            case "the store answers":
                self._ask(world, *about)
            case "the store's answer is lost":
                world.unsure -= 1
                self._ask(world, *about, told=False)
            case "a question is delayed":
                world.unsure -= 1
                place = world.places[about[0]]
                world.floating.append((about[0], place.question))
                place.question = None
                self._consequences(world, about[0], place.campaign.answered(None))
            case "campaigns":
                campaign = world.places[about[0]].campaign
                self._turn(world, *about)
                while world.places[about[0]].question is None:
                    campaign.suspect()
                    self._turn(world, *about)
                self._ask(world, *about)
                for _ in range(4):
                    self._turn(world, *about)
                    if world.places[about[0]].question is not None:
                        self._ask(world, *about)
            case "renews" | "looks":
                self._turn(world, *about)
            case "suspects":
                world.places[about[0]].campaign.suspect()
            case "the lease of a dead host ends" | "the lease of a living host ends":
                assert world.store.holder is not None
                world.leases -= move.what == "the lease of a living host ends"
                world.store.end(world.store.holder.lease)
            case "the store writes":
                self._write(world, *about)
            case "the answer to a write is lost":
                world.unsure -= 1
                self._write(world, *about, told=False)
            case "a write is delayed":
                world.unsure -= 1
                world.floating.append((about[0], world.places[about[0]].writing))
            case "a late question reaches the store":
                number, question = world.floating.pop(about[0])
                world.store.ask(question, f"h{number}")
            case "gives up" | "gives up a living host":
                world.given_up.add(about[1])
                world.places[about[0]].registrar.give_up(f"h{about[1]}")
                self._flush(world, about[0])
                if move.what != "gives up":
                    world.wrong.remove(about[1])
                    self._given_up(world, about[1])
            case "compacts":
                world.places[about[0]].registrar._compact()
                self._flush(world, about[0])
            case "settles":
                end = world.ends[about[0]]
                end.settling.remove(about[1])
                assert end.me is not None
                self._request(world, end, Settled(end.me, (about[1],)))
            case "joins":
                end = world.ends[about[0]]
                world.late.remove(end.name)
                self._join(world, end)
            case "dies":
                end = world.ends[about[0]]
                world.dying.remove(end.name)
                assert end.me is not None
                self._over(world, end)
                self._request(world, end, EndpointLeave(end.me))
            case "orders":
                end = world.ends[about[0]]
                order = next(order for order in world.orders if order[0] == end.name)
                world.orders.remove(order)
                token = len(end.orders) + 1
                end.orders[token] = order[1]
                on = f"h{order[2]}"
                self._request(world, end, Spawn(token, b"class", order[1], None, 1, on))
            case "ends the system":
                world.ending.remove(about[0])
                self._ask_for(world, about[0], EndSystem())
            case "crashes":
                self._crash(world, *about)
            case _:
                raise AssertionError(move)

    # ---- hosts

    def _crash(self, world: World, number: int) -> None:
        world.crashes.remove(number)
        world.places[number].end()
        self._host_is_over(world, number)
        for lines in (world.up, world.down):
            for channel in list(lines):
                if number in channel:
                    del lines[channel]

    def _host_is_over(self, world: World, number: int) -> None:
        for end in world.ends:
            if end.host == number:
                self._over(world, end)

    def _given_up(self, world: World, number: int) -> None:
        """A living host was given up; if that is a fact, its endpoints count as dead."""
        for end in world.ends:
            if end.host == number and end.me is not None:
                if f"dying/{end.me.incarnation}" in world.store.facts:
                    self._over(world, end)
                else:
                    world.given_up.discard(number)
        hello: Any = world.places[number].forwarder.hello()[1]
        # As one that was given up before it heard that it is in. A joined one is known, or lost.
        self._send_up(world, number, replace(hello, joined=False))

    def _over(self, world: World, end: End) -> None:
        end.alive = False
        if end.me is not None:
            world.dead.add(end.me)

    # ---- the store

    def _turn(self, world: World, number: int) -> None:
        place = world.places[number]
        place.question = place.campaign.tick()

    def _ask(self, world: World, number: int, *, told: bool = True) -> None:
        place = world.places[number]
        question, place.question = place.question, None
        answer = world.store.ask(question, place.campaign.me)
        finds = isinstance(question, WhoLeads) and isinstance(answer, Holder)
        self.see({"a candidate never finds itself": finds and answer.who == f"h{number}"})
        self._consequences(world, number, place.campaign.answered(answer if told else None))

    def _consequences(self, world: World, number: int, consequences: list[Any]) -> None:
        place = world.places[number]
        for each in consequences:
            match each:
                case Deposed():
                    place.elected = place.ledger = place.writing = None
                case TakeOver(term=term):
                    if world.store.written[0]:
                        self._seen.add("a registrar is never followed by another")
                    place.ledger = Ledger(term, world.store.written[2])
                    facts = dict(world.store.facts)
                    place.elected = Elected(place.ledger, SETTINGS, facts, address_of(number))
                    place.elected._numbers.setdefault("next", 0)
                    place.elected._detector.count_silence(None)
                    self._flush(world, number)
                    self._meet(world, number, term, number)
                    early, place.early = place.early, []
                    for proxy, message in early:
                        self._take_request(world, proxy, number, message)
                case Follow(holder=holder):
                    self._meet(world, number, holder.term, int(holder.who[1:]))

    def _meet(self, world: World, number: int, term: int, registrar: int) -> None:
        """The candidate tells its registrar proxy who the registrar is."""
        self._deliver(world, number, registrar, Deliver(term, (), None, Heard()))

    def _write(self, world: World, number: int, *, told: bool = True) -> None:
        place = world.places[number]
        answer = world.store.ask(place.writing, "")
        if not told:
            return
        if isinstance(answer, Refused):
            self._seen.add("the store refuses nothing")
            self._consequences(world, number, place.campaign.deposed())
            return
        assert place.ledger is not None
        place.writing = place.ledger.answered(answer)
        self._flush(world, number)

    def _flush(self, world: World, number: int) -> None:
        """Send the messages of the registrar on host *number* that may leave."""
        place = world.places[number]
        if number in self._flushing:
            return  # the call that is under way goes on
        self._flushing.add(number)
        try:
            while (ledger := place.ledger) is not None:
                if place.writing is None:
                    place.writing = ledger.write()
                    if place.writing is not None and self.program.smooth:
                        self._write(world, number)
                        continue
                released: list[Any] = ledger.released()
                if not released:
                    break
                for to, message in released:
                    self._leave(world, number, host_at(to), message)
        finally:
            self._flushing.remove(number)

    def _leave(self, world: World, number: int, there: int, message: Deliver) -> None:
        """A message leaves. Nobody can lose it if its sender cannot die or be deposed."""
        waits = world.down.get((number, there)) or number in world.crashes or world.leases
        if there == number or not waits:
            self._deliver(world, there, number, message)
        elif world.places[there].alive:
            world.down.setdefault((number, there), deque()).append(message)

    # ---- the mail of the registrar and of the proxies

    def _to_registrar(self, world: World, channel: tuple[int, int]) -> None:
        proxy, registrar = channel
        self._take_request(world, proxy, registrar, world.up[channel].popleft())

    def _take_request(self, world: World, proxy: int, registrar: int, message: Any) -> None:
        elected = world.places[registrar].elected
        if elected is None:
            world.places[registrar].early.append((proxy, message))
            return
        agent = address_of(proxy)
        if isinstance(message, HostJoin):
            elected.host(message, agent)
        else:
            order, asker = message.message, message.sender
            self.see(
                {
                    "an order is never repeated": isinstance(order, Spawn)
                    and any(
                        each.order.token == order.token and each.asker == asker
                        for each in elected._creating.values()
                    ),
                    "an endpoint never joins twice": isinstance(order, EndpointJoin)
                    and any(each.address == asker for each in elected._members.values()),
                }
            )
            elected.take(message, agent)
        self._flush(world, registrar)

    def _to_proxy(self, world: World, channel: tuple[int, int]) -> None:
        registrar, proxy = channel
        message = world.down[channel].popleft()
        self._deliver(world, proxy, registrar, message)

    def _deliver(self, world: World, proxy: int, registrar: int, message: Deliver) -> None:
        place = world.places[proxy]
        if not place.alive:
            return
        early = message.term < place.heard
        place.heard = max(place.heard, message.term)
        if isinstance(message.message, Make) and message.message.me in place.forwarder.ordered:
            self._seen.add("an actor is never ordered twice")
        kept = len(place.forwarder.line.kept)
        messages = place.forwarder.take(message, address_of(registrar))
        if early:
            self._seen.add("a proxy never hears of an earlier registrar")
            if messages or len(place.forwarder.line.kept) != kept:
                world.flaw = Mistake("only the latest registrar is believed", str(message.message))
        for address, each in messages:
            to: Any = address
            if isinstance(each, (HostJoin, Forward)):
                self._send_up(world, proxy, each)
            elif to is None:
                self._for_proxy(world, proxy, each)
            else:
                self._for_end(world, to, each)

    def _send_up(self, world: World, proxy: int, message: Any) -> None:
        registrar = host_at(world.places[proxy].forwarder.line.registrar)
        if registrar == proxy:
            self._take_request(world, proxy, registrar, message)
        elif world.places[registrar].alive:
            world.up.setdefault((proxy, registrar), deque()).append(message)

    def _for_proxy(self, world: World, proxy: int, message: Any) -> None:
        match message:
            case Make(me=me):
                end = End(f"w{me.incarnation}", proxy, number=me.incarnation)
                world.ends.append(end)
                self._join(world, end, WorkerId(me.name, me.incarnation))
            case Down():
                if proxy not in world.left:
                    world.left.add(proxy)
                    self._ask_for(world, proxy, EndpointLeave(world.places[proxy].forwarder.me))
            case Died():
                if proxy in world.left:
                    self._host_is_over(world, proxy)
                else:
                    self._seen.add("a host that is given up never comes back")
                world.places[proxy].end()

    # ---- endpoints

    def _join(self, world: World, end: End, me: WorkerId | None = None) -> None:
        name = me or WorkerId(end.name, 0)
        self._request(world, end, EndpointJoin(name, 1, "", beats=False))

    def _request(self, world: World, end: End, message: Any) -> None:
        place = world.places[end.host]
        if isinstance(message, EndpointLeave) and end.number:
            message = Unmade(message.me, "it exited")  # a worker's parent is the registrar proxy
        for _, each in place.forwarder.ask(message, end.address):
            self._send_up(world, end.host, each)

    def _for_end(self, world: World, to: ActorAddress, message: Any) -> None:
        end = next(end for end in world.ends if end.address == to)
        if not end.alive:
            return
        match message:
            case Joined(me=me):
                if end.me is None:
                    end.me = me
                    end.before = {w for w in world.dead if w in message.dying or _in(w, message)}
                    self._hears(world, end, set(message.dying))
                elif end.me != me:
                    world.flaw = Mistake("an endpoint has one number", f"{end.me}, then {me}")
            case Died(workers=workers):
                if set(workers) & end.known:
                    self._seen.add("a death is never announced twice")
                if end.me in workers:
                    self._over(world, end)
                    return
                self._hears(world, end, set(workers) - end.known)
            case AllSettled(workers=workers):
                if set(workers) & end.agreed:
                    self._seen.add("nobody is told again that a death is settled")
                end.agreed |= set(workers)
                world.flaw = world.flaw or _early(world, workers)
            case Spawned(token=token, info=info):
                if token in end.made:
                    world.flaw = Mistake("an order is answered once", f"{end.name}/{token}")
                end.made[token] = None if info is None else info.id

    def _ask_for(self, world: World, number: int, message: Any) -> None:
        """The registrar proxy on host *number* itself has a request."""
        for _, each in world.places[number].forwarder.ask(message, address_of(number)):
            self._send_up(world, number, each)

    def _hears(self, world: World, end: End, deaths: set[WorkerId]) -> None:
        end.known |= deaths
        end.settling |= deaths
        if deaths and end.name not in self.program.settling:
            settled, end.settling = tuple(sorted(end.settling)), set()
            assert end.me is not None
            self._request(world, end, Settled(end.me, settled))

    # ---- properties

    def need_not(self, move: Move) -> bool:
        return move.optional

    def judge(self, state: State) -> Mistake | None:
        return state.mistake

    def _mistake_in(self, world: World) -> Mistake | None:
        if world.flaw is not None:
            return world.flaw
        names: dict[str, WorkerId] = {}
        for end in world.ends:
            if end.number and end.alive and end.me is not None:
                if end.me.name in names:
                    return Mistake("no name is given twice", end.me.name)
                names[end.me.name] = end.me
        return None

    def judge_end(self, state: State) -> Mistake | None:
        world = state.world()
        living = [place for place in world.places if place.alive]
        ends = [end for end in world.ends if end.alive]
        if not living:
            return None
        asked = set(self.program.ending) - set(world.ending)
        if world.left or any(world.places[number].alive for number in asked):
            return Mistake("a system that is ended ends on all hosts", str(world.left))
        leading = [place for place in living if place.elected is not None]
        if len(leading) != 1 or world.store.holder is None:
            return Mistake("there is a registrar at last", f"there are {len(leading)}")
        elected = leading[0].registrar
        if elected._creating:
            return Mistake("every order ends at last", str(list(elected._creating)))
        for number in world.given_up:
            if world.places[number].alive or f"h{number}" in elected._hosts:
                return Mistake("who is given up is out, and is told", f"h{number}")
        for end in ends:
            if end.me is None:
                return Mistake("everybody joins at last", end.name)
            if end.me in elected._tombstones:
                return Mistake("who counts as dead ends", str(end.me))
            missed = world.dead - end.known - end.before
            if missed:
                return Mistake("every death is announced at last", f"{end.name}: {missed}")
            open_deaths = end.known - end.agreed - end.before
            if open_deaths:
                return Mistake("every grace ends at last", f"{end.name}: {open_deaths}")
            for token in end.orders:
                if token not in end.made:
                    return Mistake("every order is answered at last", f"{end.name}/{token}")
                worker = end.made[token]
                there = [e for e in world.ends if e.me == worker]
                if worker is not None and not there:
                    return Mistake("who is ordered joins", str(worker))
                made = {worker for each in world.ends for worker in each.made.values()}
                lost = [e for e in ends if e.number and e.me not in made]
                if lost:
                    return Mistake("nobody works without an order", str(lost[0].me))
        for place in living:
            if place.forwarder.line.kept:
                return Mistake("every request is done at last", str(place.forwarder.line.kept))
        return None

    def show(self, before: State, move: Move, after: State) -> str:
        world = before.world()
        about = ", ".join(map(str, move.about))
        what = ""
        for name, lines in (("the registrar gets", world.up), ("the proxy gets", world.down)):
            if move.what == name:
                what = f": {lines[move.about][0]!r:.150}"
        return f"{move.what} {about}{what}"


def _in(worker: WorkerId, joined: Joined) -> bool:
    return any(first <= worker.incarnation <= last for first, last in joined.dead)


def _early(world: World, workers: tuple[WorkerId, ...]) -> Mistake | None:
    """The mistake if a grace ends before all have settled the death."""
    for end in world.ends:
        if not end.alive or end.me is None or end.host in world.given_up:
            continue
        for worker in workers:
            if worker in end.before:
                continue
            if worker not in end.known or worker in end.settling:
                return Mistake("nothing is freed early", f"{end.name} has not settled {worker}")
    return None


def explore_takeover(program: Takeover, limit: int) -> Exploration:
    return explore(PassingModel(program), limit=limit)

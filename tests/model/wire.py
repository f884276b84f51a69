"""Two channels and a link that errs: every loss, repetition, order and moment of time.

The world of `delivery`, explored by the same `explore`. Each side has some messages to send. These
are moves of their own: handing a message to the channel; the leaving of a packet; its arrival, loss
or repetition; a break of the stream, which loses all that is under way in both directions; a tick
that is due; the passing of time. In some programs the messages need room. Then the receiver's user
takes each one when it likes, or never, and there are also control messages, which need none. Each
program limits the losses, the repetitions, the breaks, and the moments at which time passes
although packets are in flight (otherwise there is no last state). When they are used up the link is
perfect, and everything must arrive. Time is relative: after every step *now* is 0 again, so a state
does not depend on the age of the program.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from farref.protocol import credit, delivery
from farref.protocol.delivery import Channel, Packet
from farref.protocol.ids import CallId, WorkerId
from farref.protocol.messages import Call, Cargo, Flow, Message, Tell

from .explorer import Exploration, Mistake, Model, explore
from .state import clone, freeze

TIMES = ("retry_at", "acknowledge_at")


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A program: how many messages each side sends, and how often the link may err."""

    name: str
    sends: tuple[int, int]
    lost: int = 0
    repeated: int = 0
    breaks: int = 0
    """How often a stream breaks: all packets under way are lost, and the next ones use another."""
    early: int = 0
    """How often time passes to the next deadline while packets are in flight."""
    window: int = 4
    room: int = 0
    """The number of messages that the receiver has room for; 0: they need none."""
    control: int = 0
    """The number of messages of side 0 that never need room."""
    takes: bool = True
    """Whether the receiver's user ever takes its messages."""
    reaches: tuple[str, ...] = ()
    slow: bool = False


@contextmanager
def small_numbers(link: Link) -> Iterator[None]:
    """A window and room that are soon full, and times with exact sums."""
    numbers: dict[str, Any] = {
        "WINDOW": link.window,
        "ACK_DELAY": 1,
        "FIRST_RETRY": 2,
        "LAST_RETRY": 4,
    }
    with patch.multiple(delivery, **numbers), patch.object(credit, "CREDIT_BYTES", link.room):
        yield


class WireState(NamedTuple):
    """Both sides by number, the packets in flight, and the remaining faults of the link."""

    sides: tuple[int, int]
    flying: tuple[tuple[int, Packet], ...]
    lost: int
    repeated: int
    breaks: int
    early: int


class Move(NamedTuple):
    """A move, and its side (for a packet: the receiver)."""

    what: str
    side: int
    packet: Packet | None = None


@dataclass
class Side:
    """One end: its channel, its remaining messages, and the messages handed to it."""

    channel: Channel
    left: int
    sent: int = 0
    handed: list[int] = field(default_factory=list)
    control_left: int = 0
    control: list[int] = field(default_factory=list)
    """The control messages handed to it."""
    taken: int = 0
    """How many messages its user has taken."""
    broken: bool = False


def message(number: int) -> Message:
    """The *number*-th message that a side sends."""
    return Tell(cargo=Cargo(payload=number))


def control(number: int) -> Message:
    return Call(call=CallId(WorkerId("A", 1), number), cargo=Cargo())


class WireModel(Model[WireState]):
    """The model of *link*; run it inside `small_numbers`."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.link = link
        self.sides: list[Side] = []
        self.flaws: dict[int, Mistake] = {}
        self._ids: dict[Hashable, int] = {}

    def start(self) -> WireState:
        controls = (self.link.control, 0)
        sides = (
            Side(Channel(), count, control_left=controls[place])
            for place, count in enumerate(self.link.sends)
        )
        one, two = map(self._intern, sides)
        link = self.link
        return WireState((one, two), (), link.lost, link.repeated, link.breaks, link.early)

    # ---- moves

    def moves(self, state: WireState) -> Iterator[tuple[Move, WireState]]:
        for index, flight in enumerate(state.flying):
            if index == 0 or flight != state.flying[index - 1]:
                to, packet = flight
                rest = (*state.flying[:index], *state.flying[index + 1 :])
                yield Move("gets", to, packet), self._receive(state._replace(flying=rest), *flight)
                if state.lost:
                    after = state._replace(flying=rest, lost=state.lost - 1)
                    yield Move("loses", to, packet), after
                if state.repeated:
                    after = state._replace(
                        flying=_sorted((*state.flying, flight)), repeated=state.repeated - 1
                    )
                    yield Move("will get twice", to, packet), after
        if state.breaks and state.flying:
            self.see({"no break loses several packets": len(state.flying) > 1})
            yield Move("breaks the stream", 0), state._replace(flying=(), breaks=state.breaks - 1)
        for place in (0, 1):
            side = self.sides[state.sides[place]]
            if side.left:
                yield Move("has a message to send", place), self._send(state, place)
            if side.control_left:
                yield Move("has something to say", place), self._say(state, place)
            if self.link.room and self.link.takes and side.taken < len(side.handed):
                yield Move("takes a message", place), self._take(state, place)
            if side.channel.unsent and len(side.channel.flight) < self.link.window:
                yield Move("lets a packet leave", place), self._flush(state, place)
            if side.channel.deadline is not None and side.channel.deadline <= 0:
                yield Move("ticks", place), self._tick(state, place)
        yield from self._wait(state)

    def _send(self, state: WireState, place: int) -> WireState:
        side = clone(self.sides[state.sides[place]])
        if self.link.room:
            number = side.channel.send(message(side.sent), "mail", 1)
            self.see({"nothing waits for room": number is None})
        else:
            side.channel.send(message(side.sent))
        side.left -= 1
        side.sent += 1
        return self._after(state, place, side, None)

    def _say(self, state: WireState, place: int) -> WireState:
        side = clone(self.sides[state.sides[place]])
        self.see({"control passes nothing": side.channel.waits})
        side.channel.send(control(self.link.control - side.control_left))
        side.control_left -= 1
        return self._after(state, place, side, None)

    def _take(self, state: WireState, place: int) -> WireState:
        """The user takes a message; when none waits, there is room again."""
        side = clone(self.sides[state.sides[place]])
        side.taken += 1
        self.see({"room is never owed": bool(side.channel.owed)})
        if side.taken == len(side.handed):
            for flow in side.channel.owed:
                side.channel.give(flow)
        return self._after(state, place, side, None)

    def _flush(self, state: WireState, place: int) -> WireState:
        before = self.sides[state.sides[place]]
        side = clone(before)
        packet = side.channel.packet(0)
        if before.channel.retry_at not in {None, side.channel.retry_at}:
            return self._fail(state, place, side, Mistake("sending puts off no alarm", "it did"))
        return self._after(state, place, side, packet)

    def _tick(self, state: WireState, place: int) -> WireState:
        before = self.sides[state.sides[place]]
        side = clone(before)
        packet = side.channel.tick(0)
        self.see(
            {
                "nothing is sent again": side.channel.retransmissions > 0,
                "no acknowledgement goes alone": packet is not None and not packet.messages,
                "the pause never reaches its end": side.channel._pause == delivery.LAST_RETRY,
            }
        )
        return self._after(state, place, side, packet)

    def _receive(self, state: WireState, place: int, packet: Packet) -> WireState:
        before = self.sides[state.sides[place]]
        side = clone(before)
        try:
            full: tuple[Flow, ...] = ()
            if self.link.room and side.taken < len(side.handed):
                full = ("mail",)
            handed = side.channel.receive(packet, 0, lambda: full)
        except Exception as error:  # any exception of a machine is a finding
            return self._fail(
                state, place, side, Mistake("no machine raises", f"{type(error).__name__}: {error}")
            )
        for each in handed:
            if isinstance(each, Tell):
                side.handed.append(cast("int", each.cargo.payload))
            elif isinstance(each, Call):
                side.control.append(each.call.number)
        expects = before.channel.handed
        oldest = before.channel._next - len(before.channel.flight)
        last = packet.first + len(packet.messages)
        self.see(
            {
                "no packet comes twice": bool(packet.messages) and last <= expects,
                "no packet brings old and new": packet.first < expects < last,
                "nothing comes out of order": packet.first > expects and bool(packet.messages),
                "a gap is filled by one message": len(handed) > len(packet.messages) > 0,
                "no acknowledgement is late": packet.expects < oldest,
                "acknowledgements never ride": packet.expects > oldest and bool(packet.messages),
                "no acknowledgement hurries": side.channel.acknowledge_at == 0
                and before.channel.acknowledge_at != 0,
            }
        )
        flaw = _put_off(before.channel, side.channel, late=packet.expects <= oldest)
        if flaw is not None:
            return self._fail(state, place, side, flaw)
        return self._after(state, place, side, None)

    def _wait(self, state: WireState) -> Iterator[tuple[Move, WireState]]:
        """Time passes, up to the next deadline."""
        deadlines = [self.sides[number].channel.deadline for number in state.sides]
        pause = min((each for each in deadlines if each is not None), default=0)
        if pause <= 0 or (state.flying and not state.early):
            return
        early = state.early - bool(state.flying)
        later = []
        for number in state.sides:
            side = clone(self.sides[number])
            for name in TIMES:
                if getattr(side.channel, name) is not None:
                    setattr(side.channel, name, getattr(side.channel, name) - pause)
            later.append(self._intern(side))
        yield Move(f"waits {pause}", 0), state._replace(sides=(later[0], later[1]), early=early)

    def _after(self, state: WireState, place: int, side: Side, packet: Packet | None) -> WireState:
        # Statistics, which would tell equal states apart.
        side.channel.retransmissions = side.channel.duplicates = 0
        side.channel.released()
        sides = list(state.sides)
        sides[place] = self._intern(side)
        flying = state.flying
        if packet is not None:
            flying = _sorted((*flying, (1 - place, packet)))
        if len(side.channel.flight) == self.link.window:
            self._seen.add("the window is never full")
        return state._replace(sides=(sides[0], sides[1]), flying=flying)

    def _fail(self, state: WireState, place: int, side: Side, mistake: Mistake) -> WireState:
        side.broken = True
        after = self._after(state, place, side, None)
        self.flaws[after.sides[place]] = mistake
        return after

    def _intern(self, side: Side) -> int:
        frozen = freeze(side)
        number = self._ids.setdefault(frozen, len(self.sides))
        if number == len(self.sides):
            self.sides.append(side)
            flaw = self._flaw(side)
            if flaw is not None:
                self.flaws[number] = flaw
        return number

    # ---- properties

    def _flaw(self, side: Side) -> Mistake | None:
        if side.handed != list(range(len(side.handed))):
            return Mistake("handed over in order, once (G3)", f"it was handed {side.handed}")
        if side.control != list(range(len(side.control))):
            return Mistake("handed over in order, once (G3)", f"it was told {side.control}")
        if self.link.room and len(side.handed) - side.taken > 2 * self.link.room:
            # Twice: the answer to a question also covers the messages behind it in the packet.
            return Mistake("nobody sends more than there is room for", f"{side.handed} wait")
        for each in side.channel._credits.values():
            if each.messages < 0 or each.bytes < 0:
                return Mistake("no more room is given than was taken", f"{each.messages} are out")
            if each.waiting and each.asked is None:
                return Mistake("who waits for room has asked for it", "it has not")
        channel, window = side.channel, self.link.window
        if len(channel.flight) > window or len(channel._ahead) >= window:
            return Mistake("memory is bounded by the window", "more is kept")
        if channel._pause > delivery.LAST_RETRY:
            return Mistake("the pause is bounded", f"it is {channel._pause}")
        if any(number <= channel.handed for number in channel._ahead):
            return Mistake("memory is bounded by the window", "what was handed over is kept")
        return None

    def judge(self, state: WireState) -> Mistake | None:
        for place, number in enumerate(state.sides):
            if number in self.flaws:
                return self.flaws[number]
            handed, sent = len(self.sides[number].handed), self.sides[state.sides[1 - place]].sent
            if handed > sent:
                return Mistake("handed over in order, once (G3)", f"{handed} of {sent} sent")
        return None

    def judge_end(self, state: WireState) -> Mistake | None:
        """Every message arrived, is acknowledged, and forgotten."""
        for place, number in enumerate(state.sides):
            side, other = self.sides[number], self.sides[state.sides[1 - place]]
            sent = other.sent if self.link.takes else min(other.sent, self.link.room)
            if len(side.handed) < sent:
                return Mistake("everything arrives", f"{len(side.handed)} of {sent} came")
            if len(side.control) < self.link.control * place:
                return Mistake("control arrives", f"{len(side.control)} of it came")
            if side.channel.backlog or side.channel._ahead:
                return Mistake("everything is forgotten", f"{side.channel.backlog} are kept")
        return None

    def show(self, before: WireState, move: Move, after: WireState) -> str:
        packet = move.packet
        if packet is None:
            said = next((each for each in after.flying if each not in before.flying), None)
            packet = said[1] if said else None
        return f"{'AB'[move.side]} {move.what}{_packet(packet)}"


def _put_off(before: Channel, after: Channel, *, late: bool) -> Mistake | None:
    """Check that a packet changes the deadlines only as it may."""
    due = before.acknowledge_at
    if due is not None and (after.acknowledge_at is None or after.acknowledge_at > due):
        return Mistake("no acknowledgement is put off", f"it was due at {due}")
    if late and (before.retry_at, before._pause) != (after.retry_at, after._pause):
        return Mistake("a late acknowledgement changes nothing", f"it set {after.retry_at}")
    if not late and after._pause != delivery.FIRST_RETRY:
        return Mistake("progress ends the backoff", f"the pause is {after._pause}")
    return None


def _packet(packet: Packet | None) -> str:
    if packet is None:
        return ""
    numbers = [packet.first + index for index, _ in enumerate(packet.messages)]
    return f": messages {numbers}, expects {packet.expects}"


def _sorted(flying: tuple[tuple[int, Packet], ...]) -> tuple[tuple[int, Packet], ...]:
    def order(flight: tuple[int, Packet]) -> tuple[int, int, int, int]:
        to, packet = flight
        return to, packet.first, len(packet.messages), packet.expects

    return tuple(sorted(flying, key=order))


def explore_link(link: Link, limit: int) -> Exploration:
    with small_numbers(link):
        return explore(WireModel(link), limit=limit, progress=True)


NEVER_WIRE = frozenset(
    {
        "the window is never full",
        "nothing is sent again",
        "no acknowledgement goes alone",
        "the pause never reaches its end",
        "no packet comes twice",
        "no packet brings old and new",
        "nothing comes out of order",
        "a gap is filled by one message",
        "no acknowledgement is late",
        "acknowledgements never ride",
        "no acknowledgement hurries",
        "nothing waits for room",
        "room is never owed",
        "control passes nothing",
        "no break loses several packets",
    }
)
"""Claims about the link that its exploration must prove false (see `never`)."""

LINKS = (
    Link(
        "a perfect link",
        (3, 0),
        reaches=("a gap is filled by one message", "no acknowledgement hurries"),
    ),
    Link("one loss", (2, 0), lost=1, early=1, reaches=("the pause never reaches its end",)),
    Link("loss and repetition", (3, 0), lost=1, repeated=1, early=1, window=8),
    Link("a full window", (5, 0), lost=1, repeated=1, reaches=("the window is never full",)),
    Link("both ways", (2, 1), lost=1, repeated=1, early=1, window=8),
    Link("many losses", (2, 1), lost=4, reaches=("no packet brings old and new",)),
    Link("many early retries", (2, 0), repeated=2, early=4, window=8),
    Link(
        "no more than there is room for",
        (4, 0),
        room=2,
        window=8,
        reaches=("nothing waits for room", "room is never owed"),
    ),
    Link("room for several", (3, 0), room=4, window=16),
    Link("room that is lost", (3, 0), lost=1, repeated=1, room=1, window=8),
    Link("room, both ways", (2, 2), room=1, window=8),
    Link(
        "control passes what waits",
        (3, 0),
        control=2,
        room=1,
        window=8,
        takes=False,
        reaches=("nothing waits for room", "control passes nothing"),
    ),
    Link(
        "a stream that breaks",
        (3, 1),
        breaks=2,
        window=8,
        reaches=("no break loses several packets", "nothing is sent again"),
    ),
    Link("a stream that breaks early", (2, 1), breaks=2, early=1, window=8),
    Link("room, and breaks", (3, 0), breaks=2, room=1, window=8),
    Link("both ways, more of everything", (3, 2), lost=2, repeated=1, slow=True),
)

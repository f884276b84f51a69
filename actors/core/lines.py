"""The straight way of single messages: from the endpoint to the socket, and back, in few functions.

Most packets have one message, and most of these are plain (`protocol.plain`). A plain message goes
as a row of numbers (`rows`) over the open connection to its peer. A message that comes alone, and
is the next one of its sender, takes effect at once. Everything else goes the general way (`links`,
`delivery`), on the same channels with the same numbers. So the two ways may change between any two
messages. They do while a test makes faults, while messages wait, and while a connection is made.
A trace shows the same rows of both.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.delivery import Packet
from ...protocol.errors import ProtocolError
from ...protocol.messages import FLOW_OF, OF_DELIVERY
from ...protocol.room import ROOM_BYTES
from ..wire.parcels import Parcel, unpack, unpack_plain
from ..wire.rows import (
    PARCEL,
    BuffersReplyRow,
    SeveralRow,
    decode,
    encode,
    message_of,
    messages_of,
)
from .core import Internal
from .delivery import GATHERED_BYTES
from .links import CROWD, LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thespian.actors import ActorAddress

    from ...protocol.ids import WorkerId
    from ...protocol.messages import Message
    from ..wire.parcels import Data
    from ..wire.rows import Plain
    from .brief import Later
    from .core import Core
    from .delivery import Delivery
    from .links import Outgoing
    from .port import Connection


class Lines(Internal):
    """The straight ways of one endpoint, to all peers and from them."""

    def __init__(self, core: Core, delivery: Delivery) -> None:
        self._core = core
        self._state = core.context.state
        self._resolved, self._numbered = core.peers.resolved, core.peers.numbered
        self._delivery = delivery
        self._tally = delivery.tally
        self._links = delivery.links
        self._room = delivery.room
        self.channels = delivery.channels
        self.shelves = delivery.shelves
        self.takers: dict[type[Message], Callable[[WorkerId, Any, Later], bool]] = {}
        """The taker of each kind of plain message (`protocol.plain`); the parts add theirs. It
        returns false, with nothing changed, if the core is to take the message. Under the lock."""
        core.on_deaths.append(self._died)
        self._lines: dict[WorkerId, Connection] = {}

    # ---- out

    def to(self, worker: WorkerId) -> Connection | None:
        """The straight way to *worker*; None if messages have to go the general one now."""
        core, line, faulty = self._core, self._lines.get(worker), self._delivery.faulty
        if core.closed or (faulty is not None and faulty.active):
            return None
        if line is not None:
            return line
        connect, address = core.port.connection_to, core.peers.addresses.get(worker)
        if connect is None or address is None or core.address is None:
            return None
        line = connect(address)
        if line is not None:
            self._lines[worker] = line
        return line

    def idle(self, to: WorkerId) -> bool:
        """Whether *to* has taken nearly all that was sent to it. In any thread."""
        channel = self.channels.get(to)
        return channel is not None and channel.lighter(CROWD, ROOM_BYTES)

    def send(self, to: WorkerId, message: Plain, size: int) -> Packet | Outgoing:
        """`Delivery.send` for a plain *message* of *size* bytes; returns what to `post`.

        That is nothing if the message gathers. The tracer, if there is one, has stored the step
        then. Under the lock.
        """
        core, links, tally, state = self._core, self._links, self._tally, self._state
        kind = type(message)
        flow = FLOW_OF.get(kind)
        tally.kinds_sent[kind] += 1
        tally.payload_bytes += size
        packet = links.send_now(to, message, flow, size, state.now)
        if packet is not None:
            tally.packets_sent += 1
            if flow == "requests":  # it has new numbers
                core.mints.mark((state.forks, state.calls), state.now)
            if core.tracer is not None:
                core.tracer.sent(to, message, packet.first)
                core.tracer.flush()
            return packet
        if core.tracer is not None or size > GATHERED_BYTES:
            number = links.send(to, message, flow, size, prompt=size > GATHERED_BYTES)
            if number is not None:
                core.left(to, message, number)
        elif links.gather(to, message, flow, size):
            if not core.woken:
                core.wake()  # the mailbox thread sends it
            return []
        packets = self._delivery.packets(gather=True)
        if len(packets) == 1:
            ((_, packet),) = packets
            if packet.first and packet.messages == (message,):  # the first tells who we are
                return packet
        return packets

    def post(
        self,
        to: WorkerId,
        line: Connection,
        sent: Packet | Outgoing,
        before: Packet | Outgoing | None = None,
    ) -> None:
        """Send *sent*, which `send` has returned, without the lock; first *before*, from before."""
        me, first = self._core.me, b""
        data = encode(me, to, sent) if type(sent) is Packet else None
        if before is not None:
            first = encode(me, to, before) or b"" if type(before) is Packet else b""
            if not first:
                data = None
        if data is not None:
            if line.write_now(data, first):
                return  # nearly always
            self._lines.pop(to, None)  # it may be closed
        for each in (sent,) if before is None else (before, sent):
            packets = [(to, each)] if type(each) is Packet else each
            if packets:
                self._delivery.post(packets)  # type: ignore[arg-type]  # mypy does not narrow by `type`

    # ---- in; in the mailbox thread

    def take(self, data: Data, address: ActorAddress) -> None:
        """Let the messages of a parcel, or of a row, from *address* take effect.

        Raises `ProtocolError`.
        """
        core = self._core
        me = core.me
        if data[0] == PARCEL:
            plain = None if core.sites.wanted else unpack_plain(data)
            if plain is None:
                self._delivery.take_parcel(unpack(data), address)
                return
            sender, to, first, expects, message = plain
            to_me = to == me and type(message) not in OF_DELIVERY
            if to_me and self._take(sender, first, expects, message, special=False):
                return
            packet = Packet(first, (message,), expects)
            self._delivery.take_parcel(Parcel(sender, to, packet, (), False), address)
            return
        try:
            row = decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtocolError(f"it is neither a parcel nor a row: {error}") from None
        if row.to != me.incarnation:
            raise ProtocolError(f"{me} got a message that is for number {row.to}")
        who = self._numbered.get(row.sender)
        if who is None:  # it is dead; or its first packet was lost, and comes again, as this
            return
        kind, first, expects = type(row), row.first, row.expects
        if kind is SeveralRow:
            packet = Packet(first, messages_of(row, who, me), expects)
            parcel = Parcel(who, me, packet, (), False)
            self._delivery.take_parcel(parcel, address, self._hand_over)
            return
        message, shared = message_of(row, who, me), kind is BuffersReplyRow
        special = shared or getattr(row, "place", None) is not None
        if not self._take(who, first, expects, message, special=special):
            packet = Packet(first, (message,), expects)
            self._delivery.take_parcel(Parcel(who, me, packet, (), shared), address)

    def _take(
        self, who: WorkerId, first: int, expects: int, message: Message, *, special: bool
    ) -> bool:
        """Whether *message*, number *first* from *who*, is the next one, and was taken or refused.

        *special*: its payload is to be completed, by `_completed`.
        """
        core, links = self._core, self._links
        later: Later = []
        packets: Outgoing = []
        try:
            with core.lock:
                if core.closed or core.discards.ended or who not in self._resolved:
                    return False
                now = self._state.now = monotonic()
                channel = links.channels.get(who)
                if channel is None or not channel.receive_now(first, expects, now):
                    return False
                if channel.acknowledge_at < links.timed.get(who, LATER)[0]:  # type: ignore[operator]  # it acknowledges this
                    links.keep_time(who, channel)
                tally, tracer = self._tally, core.tracer
                tally.packets_received += 1
                tally.messages_received += 1
                taken = self._completed(who, message) if special else message
                if taken is not None:
                    if tracer is not None:
                        tracer.arrived(who, taken, first)
                    taker = self.takers.get(type(taken))
                    if taker is None or not taker(who, taken, later):  # no taker raises anything
                        if tracer is not None:
                            tracer.taken_back()
                        core.take_plain(who, taken, later, first)
                if self._room._waiters:
                    self._room.notify_all()
                if links.dirty or links.owing or tracer is not None:
                    packets = self._delivery.packets()
        finally:
            if packets:
                self._delivery.post(packets)
            if later:
                core.conclude(later)
        return True

    def _hand_over(
        self, who: WorkerId, messages: Sequence[Message], first: int, later: Later
    ) -> None:
        """Let the plain *messages* of *who*, from number *first* on, take effect."""
        core, tracer = self._core, self._core.tracer
        for number, message in enumerate(messages, first):
            if type(message) in OF_DELIVERY:
                continue
            if message.cargo.payload.functions:  # type: ignore[union-attr]  # a call
                taken = self._completed(who, message)
                if taken is None:
                    continue
                message = taken  # noqa: PLW2901 - the same
            if tracer is not None:
                tracer.arrived(who, message, number)
            if not self.takers[type(message)](who, message, later):
                if tracer is not None:
                    tracer.taken_back()
                core.take_plain(who, message, later, number)

    def _completed(self, who: WorkerId, message: Message) -> Message | None:
        """*message* with its functions, by their places on the shelf, and its shared memory.

        The memory is opened before the message is acknowledged. None if it is refused: the next
        messages take effect.
        """
        payload: Any = message.cargo.payload  # type: ignore[union-attr]  # it has one
        try:
            payload.take()
            return self._delivery.unshelve(who, message) if payload.functions else message
        except ProtocolError as error:
            self._core.refuse(f"{type(message).__name__} of {who}", error, who)
            return None

    def _died(self, dead: tuple[WorkerId, ...]) -> None:
        for worker in dead:
            self._lines.pop(worker, None)

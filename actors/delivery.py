"""Packets, out and in: what an endpoint's channels want sent, and what comes for it.

The channels are sans-IO (`Links`); this gives them a port and a clock. Packets are collected under
the endpoint's lock and posted after it is given back, by whichever thread had it. So two threads
may post to one peer in either order, which the channels put right as they do a link's disorder.

Posting never waits. What bounds memory are the window of each channel; the room that a receiver
gives, and gives nobody while too much waits here (see `protocol.room`, and `Intake` for the count);
and `room`, where the user's threads wait while a peer is far behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from ..protocol import room
from ..protocol.errors import ProtocolError
from ..protocol.ids import is_name
from ..protocol.messages import ABOUT_ROOM, FLOW_OF, FLOWS, NAMING, strangers_in
from ..protocol.packets import decode, encode
from ..serialization import shared
from ..serialization.failures import text_of
from ..serialization.payload import Payload
from . import parcels, ports, serving
from .base.framing import Raw
from .counters import Tally
from .faults import Counts, Faults, FaultyPort
from .intake import Intake
from .links import Links
from .packing import grounded, is_answer, payload_of, pieces
from .wire import Envelope, Meddle, WorkerInfo, check_payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from thespian.actors import ActorAddress

    from ..protocol.delivery import Packet
    from ..protocol.ids import WorkerId
    from ..protocol.messages import Cargo, Flow, Message
    from .effects import Later
    from .endpoint import Endpoint
    from .links import Outgoing
    from .ports import Port

log = logging.getLogger(__name__)

GATHERED_BYTES = 1 << 16
"""A larger message leaves at once, by the thread that sends it: it costs more than its packet."""
GATHERED_REFERENCES = 200
"""So does one with more references; they are not measured under the lock."""
PACKET_BYTES = 16 << 20
"""What one packet carries at most, unless it is a single message: there is memory for both ends."""


class Delivery:
    """Sends the packets of one endpoint, and takes those that come."""

    def __init__(self, endpoint: Endpoint, port: Port) -> None:
        self._endpoint = endpoint
        self._port = port
        self._faulty: FaultyPort | None = None
        """What packets leave by instead, in a test."""
        self._links = Links()
        self._links.on_release = self._released
        self.intakes = {flow: Intake(self._less_waits) for flow in FLOWS}
        """Payloads that came, and that nobody has begun with, by flow."""
        self.tally = Tally()
        self.room = threading.Condition(endpoint.lock)
        """Notified when a peer has sent something or died, and when this endpoint closes."""

    # ---- out; under the lock unless it says otherwise

    def send(self, to: WorkerId, message: Message) -> int | None:
        """Take *message* for *to*; it leaves with the packets of this step, if there is room.

        Returns its number, if it has one so far: see `Links.send`.
        """
        kind = type(message)
        flow = FLOW_OF.get(kind)
        size, large = 0, False
        cargo: Cargo | None = getattr(message, "cargo", None)
        if cargo is not None:
            payload: Any = cargo.payload
            if type(payload) is Payload and not payload.buffers:
                size = len(payload.data)
            elif payload is not None:
                size = payload.size
            if flow == "mail" and is_answer(payload):
                flow = "results"
            large = size > GATHERED_BYTES or len(cargo.descriptors) > GATHERED_REFERENCES
        self.tally.sent(kind, size)
        return self._links.send(to, message, flow, size, prompt=large)

    def _released(self, to: WorkerId, message: Message, number: int) -> None:
        """*message* had waited for room, and leaves."""
        self._endpoint.effects.left(to, message, number)

    @property
    def left(self) -> bool:
        """Whether something may leave that has not. In any thread, without the lock."""
        return self._links.left

    def packets(self, *, gather: bool = False) -> Outgoing:
        """Everything that can leave now: one packet for each peer.

        With *gather* some of it stays for a moment, until the mailbox thread sends it, if others
        would be busy with single messages otherwise.
        """
        if self._endpoint.tracer:
            self._endpoint.tracer.flush()
        now = time.monotonic()
        if self._links.owing:
            self._links.give(self._full)
        packets, news = self._links.packets(now, gather=gather)
        state = self._endpoint.context.state
        self._endpoint.mints.note((state.forks, state.calls), now)
        if news:
            self._endpoint.wake()  # the mailbox thread keeps the time
        return packets

    def post(self, packets: Outgoing) -> None:
        """Hand *packets* to the port, without the lock."""
        endpoint = self._endpoint
        for worker, packet in packets:
            address = endpoint.book.address_of(worker)
            if address is None or endpoint.address is None:
                if worker not in endpoint.context.dead:
                    log.error("%s has no address of %s, and cannot send to it", endpoint.me, worker)
                continue
            me = WorkerInfo(endpoint.me, endpoint.address)
            way = self._faulty or self._port
            try:
                if shared.unread or shared.early:  # it may relay what came shared
                    near = endpoint.registry.surely_near(worker)
                    if shared.early or not near:
                        packet = grounded(packet, near=near)  # noqa: PLW2901 - the same, elsewhere
                for piece in self._pieces(packet):
                    self.tally.packet_left()
                    way.post(address, self._wrapped(me, worker, piece))
            except Exception as error:  # it counts as lost, and is sent again
                if not endpoint.closed:
                    log.warning("%s could not send to %s: %s", endpoint.me, worker, text_of(error))

    def _pieces(self, packet: Packet) -> Iterable[Packet]:
        if len(packet.messages) < 2:
            return (packet,)
        return pieces(packet, min(PACKET_BYTES, self._port.largest()))

    def _wrapped(self, me: WorkerInfo, to: WorkerId, packet: Packet) -> Envelope | Raw:
        """*packet* as it travels."""
        introduced = self._introduce(packet)
        if self._port.takes_parcels and self._faulty is None:
            parcel = parcels.pack(me.id, to, packet, introduced)
            if parcel is not None:
                return Raw(parcel)
        return Envelope(me, to, *encode(packet), introduced)

    def resend(self, now: float) -> None:
        """Send what is due at *now*: again, or acknowledgements that found no ride. Locks."""
        with self._endpoint.lock:
            packets = [
                (worker, packet)
                for worker, packet in self._links.due(now)
                if not self._held_back(worker, packet)
            ]
        self.post(packets)

    def deadline(self) -> float | None:
        """When `resend` has something to do next; None while nothing is waited for."""
        return self._links.deadline()

    def load(self, worker: WorkerId, flow: Flow) -> tuple[int, int]:
        """What *worker*, maybe this endpoint itself, has not taken: messages, and bytes of *flow*.

        In any thread, without the lock.
        """
        if worker != self._endpoint.me:
            return self._links.load(worker, flow)
        if flow == "results":
            return 0, 0  # they are in its own futures already
        with self._endpoint.lock:
            return 0, self.intakes[flow].share(worker)

    def press(self, worker: WorkerId, flow: Flow) -> None:
        """Send *worker* what waits for room, as if it had some. In any thread."""

        def move() -> list[Any]:
            self._links.press(worker, flow)
            return []

        if worker != self._endpoint.me:
            self._endpoint.step(move)

    def unacknowledged(self, worker: WorkerId) -> list[Message]:
        """The messages to *worker* that it may not have received, in order."""
        return self._links.unacknowledged(worker)

    def waiting(self) -> Iterator[tuple[WorkerId, Message]]:
        """All messages that have not been acknowledged, and to whom each goes. Under the lock."""
        return self._links.waiting()

    def repeated(self) -> tuple[int, int]:
        """Messages that were sent again, and that came again and were dropped. Under the lock."""
        return self._links.repeated()

    def forget(self, worker: WorkerId) -> None:
        """*worker* is dead: nothing is sent again, and nobody waits for it."""
        self._links.forget(worker)
        self.room.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait until everything sent has been acknowledged, *seconds* at most; whether it is.

        In a thread of the user's, without the lock.
        """
        end = time.monotonic() + seconds
        while self._links.backlogged and time.monotonic() < end and self._port.call_in():
            time.sleep(0.001)
        with self.room:
            return self.room.wait_for(
                lambda: not self._links.backlogged, max(0.0, end - time.monotonic())
            )

    def _held_back(self, worker: WorkerId, packet: Packet) -> bool:
        """A retransmission is no use, and costs memory, while the last copy is not even written."""
        address = self._endpoint.book.address_of(worker)
        return bool(packet.messages) and address is not None and self._port.holds_back(address)

    def _introduce(self, packet: Packet) -> tuple[WorkerInfo, ...]:
        named = {
            worker
            for message in packet.messages
            if type(message) in NAMING
            for worker in strangers_in(message)
        }
        if not named:
            return ()
        known = ((worker, self._endpoint.address_of(worker)) for worker in named)
        return tuple(WorkerInfo(worker, address) for worker, address in known if address)

    # ---- in; in the mailbox thread

    def take(self, envelope: Envelope) -> None:
        """Have what *envelope* brings take effect, in order, and answer. Raises `ProtocolError`."""
        packet = decode(envelope.packet, envelope.payloads, check_payload)
        self._take(envelope.sender, envelope.to, packet, envelope.peers)

    def take_parcel(self, data: bytes | bytearray, address: ActorAddress) -> None:
        """The same for what came as a parcel, from *address*. Raises `ProtocolError`."""
        sender, to, packet, peers = parcels.unpack(data)
        self._take(WorkerInfo(sender, address), to, packet, peers)

    def _take(
        self, sender: WorkerInfo, to: WorkerId, packet: Packet, peers: tuple[WorkerInfo, ...]
    ) -> None:
        endpoint = self._endpoint
        if to != endpoint.me or sender.id == endpoint.me:
            raise ProtocolError(f"{sender} sent {endpoint.me} a packet that is for {to}")
        if not is_name(sender.id.name):  # it would be in what others are told
            raise ProtocolError("a packet of an endpoint whose name is no text")
        later: Later = []
        packets: Outgoing = []
        try:
            with endpoint.lock:
                if sender.id in endpoint.context.dead or endpoint.closed:
                    return
                now = endpoint.context.state.now = time.monotonic()
                self.tally.packets_received += 1
                endpoint.learn(sender, *peers)
                if endpoint.discards:
                    endpoint.discards.sweep(later)
                full = self._full(sender.id) if packet.messages else ()
                _open(packet, self._links.handed(sender.id))
                messages = self._links.receive(sender.id, packet, now, full)
                self.tally.messages_received += len(messages)
                first = self._links.handed(sender.id) - len(messages)
                for number, message in enumerate(messages, first):
                    if type(message) not in ABOUT_ROOM:
                        endpoint.receive(sender.id, message, later, number)
                self.room.notify_all()
                packets = [*self.packets(), *self._links.urgent(sender.id, time.monotonic())]
        finally:
            endpoint.conclude(packets, later)

    def note(self, sender: WorkerId, message: Message, payload: Payload) -> None:
        """*message* came, and its *payload* is large enough to count. Under the lock."""
        flow = FLOW_OF[type(message)]
        self.intakes["results" if is_answer(payload) else flow].add(sender, payload)

    def _full(self, sender: WorkerId) -> tuple[Flow, ...]:
        """The flows in which *sender* shall wait before it sends more, as too much waits here.

        If it has brought little of that itself, it is not held up by what others have brought.
        """
        mail, requests = self.intakes["mail"], self.intakes["requests"]
        share = room.ROOM_BYTES // 2
        full: tuple[Flow, ...] = ()
        if self._port.full():
            full = ("mail",)
        elif mail.bytes >= ports.MAX_INBOX_BYTES:
            full = ("mail",) if mail.over(ports.MAX_INBOX_BYTES, sender, share) else ()
        most = serving.MAX_WAITING_BYTES
        if requests.bytes >= most and requests.over(most, sender, share):
            full = (*full, "requests")
        return full

    def _less_waits(self) -> None:
        """Called by finalizers: something that came has been let go of."""
        if self._links.owing and self._endpoint.pid == os.getpid():
            self._endpoint.wake()

    # ---- faults on purpose; see `farref.testing`

    def suffer(self, faults: Faults | None) -> None:
        """Have the system's *faults*, if it has some, from now on."""
        if faults is not None and self._faulty is None:
            self._faulty = FaultyPort(self._port, self._endpoint.me, faults)

    def meddle(self, order: Meddle) -> Counts:
        """A test has packets lost, or no more."""
        if self._faulty is None:
            self._faulty = FaultyPort(self._port, self._endpoint.me, Faults())
        if order.faults is not None:
            self._faulty.adopt(order.faults)
        self._faulty.cut(*order.cut)
        self._faulty.heal(*order.heal)
        return self._faulty.counts()

    def close(self) -> None:
        """Forget what a fault has held up."""
        if self._faulty is not None:
            self._faulty.close()


def _open(packet: Packet, expected: int) -> None:
    """Open what of *packet*, from number *expected* on, is in shared memory.

    All of it before any of it is handed over: what is done then may send, even while the rest is
    still to be handed over; whatever is sent acknowledges all of it, and then its sender may let
    go of it.
    """
    for message in packet.messages[max(0, expected - packet.first) :]:
        payload = payload_of(message)
        if payload is not None and payload.buffers:
            with contextlib.suppress(ProtocolError):  # it is refused when it is handed over
                payload.take()

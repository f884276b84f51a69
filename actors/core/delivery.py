"""Packets, out and in: gives the endpoint's channels (`Links`) a port and a clock.

A thread collects packets while it holds the endpoint's lock, and posts them after it has given the
lock back. So two threads may post to one peer in either order; the channels restore the order.

Posting never waits. Three things bound the memory: the window of each channel; the room that a
receiver gives (see `protocol.credit`, and `Intake` for the count); and `progress`, where the user's
threads wait while a peer is far behind.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress

from ...printable import logger
from ...protocol import credit
from ...protocol.delivery import Packet
from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId, is_name
from ...protocol.messages import BY_NAME, FLOW_OF, FLOWS, OF_DELIVERY, Bulk, Cargo, Flow, Message
from ...serialization import shared
from ...serialization.failures import text_of
from ...serialization.payload import Payload
from ..base import forks
from ..base.framing import Raw
from ..base.interrupts import Condition
from ..wire import codec
from ..wire.cargoes import grounded, is_answer, payload_of, pieces
from ..wire.codec import LONGEST, PART_BYTES, Data
from ..wire.faults import Counts, Faults
from ..wire.messages import Envelope, Meddle, Meddled, WorkerInfo
from . import port
from .brief import Later
from .core import Core, Internal
from .counters import Tally
from .duties import in_mailbox_thread, under_lock, without_lock
from .exports import Exports
from .intake import Intake
from .links import Links, Outgoing
from .port import Connection
from .registrar_client import PATIENCE, RegistrarClient

if TYPE_CHECKING:
    from .faulty import Gate

log = logger(__name__)

GATHERED_BYTES = 1 << 16
"""A larger message leaves at once, from the thread that sends it: it costs more than its packet."""
GATHERED_REFERENCES = 200
"""A message with more references leaves at once too; they are not measured under the lock."""
PACKET_BYTES = 16 << 20
"""The most that one packet of several messages carries: both ends have memory for that."""
SAFE = 1024
"""A shorter packet is never too long for the transport."""
MAX_WAITING_BYTES = 64 << 20
"""When all requests that wait for a thread or their turn have this many bytes, more senders
wait."""


class Delivery(Internal):
    """Sends the packets of one endpoint, and takes those that arrive."""

    def __init__(self, core: Core, registrar_client: RegistrarClient) -> None:
        self._core = core
        self._registrar_client = registrar_client
        self._port = core.port
        self._gathers = core.port.runs_by_itself
        core.outlet = self
        core.takers |= {Envelope: self.take, Meddle: self.meddled}
        faults = core.settings.faults
        self.gate = self._made_gate(faults) if faults is not None else None
        """Applies the faults of a test to the packets that leave."""
        self._lines: dict[WorkerId, Connection] = {}
        """Connections to peers, which may have been closed in the meantime."""
        self.links = Links()
        self.links.on_release = core.left
        self.intakes = {flow: Intake(self._less_waits) for flow in FLOWS}
        """By flow: payloads that arrived and that no code has begun with."""
        self.exports = Exports(lambda gone: core.chores.submit(gone.clear))
        self.tally = Tally()
        self.channels = self.links.channels
        self.progress = Condition(core.lock)
        """Notified when a peer has sent something or has died, and when this endpoint closes."""

    # ---- out

    @under_lock
    def send(self, to: WorkerId, message: Message, now: float | None = None) -> Outgoing:
        """Queue *message* for *to*; it leaves with the packets of this step, if there is room.

        With the time *now* it is the only message of its step. Then this returns its packet, if
        nothing else can leave.
        """
        kind, known = type(message), message  # as the machines know it
        flow = FLOW_OF.get(kind)
        size, large, tally = 0, False, self.tally
        cargo: Cargo | None = getattr(message, "cargo", None)
        if cargo is not None:
            payload: Any = cargo.payload
            if payload is not None:
                if flow == "mail" and is_answer(payload):
                    flow = "results"
                plain = type(payload) is Payload and not payload.buffers
                size = len(payload.data) if plain else payload.size
                if payload.functions and flow is not None:
                    message, more = self.exports.export_functions(to, flow, message)
                    size += more
            large = size > GATHERED_BYTES or len(cargo.descriptors) > GATHERED_REFERENCES
        if kind is Bulk:
            tally.kinds_sent[BY_NAME[message.kind]] += len(message.numbers)  # type: ignore[union-attr]  # mypy does not narrow by `kind`
        else:
            tally.kinds_sent[kind] += 1
        tally.payload_bytes += size
        core, links = self._core, self.links
        if links.dirty or links.owing:
            now = None
        number, packet = links.send(to, message, flow, size, now, prompt=large)
        if core.tracer:
            if number is not None:
                core.left(to, known, number)
            if packet is not None:
                core.tracer.flush()
        if packet is None:
            return []
        tally.packets_sent += 1
        return [(to, packet)]

    @under_lock
    def packets(self, *, gather: bool = False) -> Outgoing:
        """Everything that can leave now: one packet for each peer.

        With *gather* messages to a peer stay here if many are in flight to it already. The mailbox
        thread sends them together a moment later, as single ones would keep the peer busy.
        """
        core, links = self._core, self.links
        if core.tracer:
            core.tracer.flush()
        if links.owing:
            links.give(self._full)
        if not links.dirty:
            return []
        packets, news = links.packets(core.context.state.now, gather=gather and self._gathers)
        if news:
            core.wake()  # the mailbox thread keeps the time
        self.tally.packets_sent += len(packets)
        return packets

    def post(self, packets: Outgoing, *, through: bool = False) -> None:
        """Write *packets*, or hand them to the port, without the lock.

        With *through* they have passed the gate.
        """
        if self.gate is not None and not through:
            for each in packets:
                self.gate.post(*each)
            return
        core, lines, encode = self._core, self._lines, codec.encode
        me, address_of = core.me, core.address_of
        for worker, packet in packets:
            try:
                if shared.unread or shared.early:  # a relayed payload may be in shared memory
                    near = self._registrar_client.surely_near(worker)
                    if shared.early or not near:
                        packet = grounded(packet, near=near)  # noqa: PLW2901 - the same, elsewhere
                one = len(packet.messages) < 2  # nearly always
                longest = LONGEST if one else PART_BYTES
                data, beside = encode(me, worker, packet, address_of, longest)
                fits = len(data) < SAFE or len(data) <= self._port.largest()
                if not one and (beside or not fits):
                    for piece in pieces(packet, min(PACKET_BYTES, self._port.largest())):
                        self._post(worker, *encode(me, worker, piece, address_of, LONGEST))
                    continue
                line = None if beside or not fits else lines.get(worker) or self._line_to(worker)
                if line is None or not line.write_now(data):
                    self._post(worker, data, beside)
            except Exception as error:  # it counts as lost, and is sent again
                if not core.closed:
                    log.warning("%s could not send to %s: %s", me, worker, text_of(error))

    def _line_to(self, worker: WorkerId) -> Connection | None:
        """The open connection to *worker*; None if there is none. In any thread."""
        core = self._core
        connect, address = self._port.connection_to, core.peers.addresses.get(worker)
        if connect is None or address is None or core.address is None or core.closed:
            return None
        line = connect(address)
        if line is not None:
            self._lines[worker] = line
        return line

    def _post(self, worker: WorkerId, data: bytes, beside: Sequence[object]) -> None:
        """Hand a packet to the port: its connection is closed, or others wait before this one."""
        self._lines.pop(worker, None)
        core, port, address = self._core, self._port, self._core.peers.addresses.get(worker)
        if address is None or core.address is None:
            if worker not in core.context.dead and not core.closed:
                log.error("%s has no address of %s, and cannot send to it", core.me, worker)
        elif beside or port.send_raw is None:
            port.post(address, Envelope(core.address, data, tuple(beside)))
        elif not port.send_raw(address, data):
            port.post(address, Raw(data))

    def resend(self, now: float) -> None:
        """Send the retransmissions and the lone acknowledgements that are due. Locks."""
        with self._core.lock:
            packets = [
                (worker, packet)
                for worker, packet in self.links.due(now)
                if not self._held_back(worker, packet)
            ]
            self.tally.packets_sent += len(packets)
        self.post(packets)

    def load(self, worker: WorkerId, flow: Flow) -> tuple[int, int]:
        """The load that *worker* has not taken yet: messages, and bytes of *flow*.

        *worker* may be this endpoint itself. In any thread, without the lock.
        """
        if worker != self._core.me:
            return self.links.load(worker, flow)
        if flow == "results":
            return 0, 0  # they are in its own futures already
        with self._core.lock:
            return 0, self.intakes[flow].share(worker)

    def press(self, worker: WorkerId, flow: Flow) -> None:
        """Send *worker* the messages that wait for room, as if it had some. In any thread."""

        def move() -> list[Any]:
            self.links.press(worker, flow)
            return []

        if worker != self._core.me:
            self._core.step(move)

    @under_lock
    def forget(self, worker: WorkerId) -> list[Message]:
        """Forget *worker*, which is dead: nothing is sent again, and nobody waits for it.

        Returns the messages that it may not have.
        """
        left = self.links.forget(worker)
        self._lines.pop(worker, None)
        self.exports.forget(worker)
        self.progress.notify_all()
        return left

    @without_lock
    def flush(self, seconds: float) -> bool:
        """Wait up to *seconds* until all sent messages are acknowledged; whether they are.

        In a user's thread.
        """
        end = time.monotonic() + seconds
        while self.links.backlogged and time.monotonic() < end and self._port.call_in():
            time.sleep(0.001)
        with self.progress:
            return self.progress.wait_for(
                lambda: not self.links.backlogged, max(0.0, end - time.monotonic())
            )

    def _held_back(self, worker: WorkerId, packet: Packet) -> bool:
        """Whether *packet* is a retransmission that can wait: its last copy is still unwritten."""
        address = self._core.peers.addresses.get(worker)
        return bool(packet.messages) and address is not None and self._port.holds_back(address)

    # ---- in; in the mailbox thread, or one that leads for it

    def take(self, envelope: Envelope) -> None:
        """The same as `take_raw` for a packet with something beside it, or of a stock base."""
        self.take_raw(envelope.packet, envelope.sender, envelope.beside)

    @in_mailbox_thread
    def take_raw(self, data: Data, address: ActorAddress, beside: tuple[object, ...] = ()) -> None:
        """Let the messages of a packet from *address* take effect, in order, and answer.

        Raises `ProtocolError`.
        """
        core, links, known = self._core, self.links, self._core.peers
        came = codec.read(data, core.me, known.numbered, beside)
        if came is None:  # it is dead; or its first packet was lost, and comes again, as this
            return
        who, packet, peers = came
        if who not in known.resolved:
            if not is_name(who.name):  # the name would go on to others
                raise ProtocolError("the packet's sender has no name")
            peers = (WorkerInfo(who, address), *peers)
        buffers = len(packet.messages) > 1 and _has_buffers(packet)
        later: Later = []
        packets: Outgoing = []
        try:
            with core.lock:
                context, tally = core.context, self.tally
                if core.closed or (context.dead.firsts and who in context.dead):
                    return
                now = context.state.now = time.monotonic()
                if now >= core.ages.due:
                    core.ages.mark(context.state, now)
                tally.packets_received += 1
                if peers:
                    core.learn(*peers)
                if core.discards.ended:
                    core.discards.sweep(context, core.carry_out, later)
                if buffers:
                    _open(packet, links.handed(who))
                messages, number = links.receive(who, packet, now, partial(self._full, who))
                tally.messages_received += len(messages)
                for message in messages:
                    if type(message) not in OF_DELIVERY:
                        core.receive(who, message, later, number)
                    elif isinstance(message, Bulk):
                        tally.messages_received += core.receive_all(who, message, later, number) - 1
                    number += 1
                if self.progress._waiters:
                    self.progress.notify_all()
                if links.dirty or links.owing:
                    packets = self.packets()
                elif core.tracer:
                    core.tracer.flush()
        finally:
            if packets:
                self.post(packets)
            if later:
                core.conclude(later)

    @under_lock
    def note(self, sender: WorkerId, message: Message, payload: Payload) -> None:
        """Count *payload*, which came with *message* and is large enough."""
        self.intakes[_flow_of(message, payload)].add(sender, payload)

    @under_lock
    def import_functions(self, sender: WorkerId, message: Message) -> Message:
        """*message* with the definitions of the functions that its payload names.

        Raises `ProtocolError`.
        """
        return self.exports.import_functions(
            sender, _flow_of(message, payload_of(message)), message
        )

    def _full(self, sender: WorkerId) -> tuple[Flow, ...]:
        """The flows in which *sender* must wait before it sends more, as too much waits here.

        A sender that has brought little of it does not wait because of the others.
        """
        mail, requests = self.intakes["mail"], self.intakes["requests"]
        share = credit.CREDIT_BYTES // 2
        full: tuple[Flow, ...] = ()
        if self._port.full():
            full = ("mail",)
        elif mail.bytes >= port.MAX_INBOX_BYTES:
            full = ("mail",) if mail.over(port.MAX_INBOX_BYTES, sender, share) else ()
        most = MAX_WAITING_BYTES
        if requests.bytes >= most and requests.over(most, sender, share):
            full = (*full, "requests")
        return full

    def _less_waits(self) -> None:
        """Give senders room, as a payload was let go of. Takes no lock, as finalizers call it."""
        if self.links.owing and self._core.pid == forks.pid:
            self._core.wake()

    # ---- faults on purpose; see `farref.testing`

    def meddle_with(self, to: WorkerInfo, **what: Any) -> Counts:
        """Have *to* change its faults, and return the counts of its packets so far."""
        if to.id == self._core.me:
            return self.meddle(Meddle(0, to.address, **what))
        counts: Counts = self._registrar_client.ask(
            Meddle, PATIENCE, to, asker=self._core.address, **what
        ).counts
        return counts

    def meddled(self, order: Meddle) -> None:
        """Carry out an order from a test at another endpoint."""
        self._port.post(order.asker, Meddled(order.token, self.meddle(order)))

    def _made_gate(self, faults: Faults) -> Gate:
        from .faulty import Gate  # noqa: PLC0415 - only tests have faults

        return Gate(self._core.me, faults, partial(self.post, through=True))

    def meddle(self, order: Meddle) -> Counts:
        if self.gate is None:
            self.gate = self._made_gate(Faults())
        if order.faults is not None:
            self.gate.adopt(order.faults)
        self.gate.cut(*order.cut)
        self.gate.heal(*order.heal)
        return self.gate.counts()

    def close(self) -> None:
        """Forget the packets that a fault has held up."""
        if self.gate is not None:
            self.gate.close()


def _flow_of(message: Message, payload: object) -> Flow:
    """The flow of a message that came with *payload*."""
    return "results" if is_answer(payload) else FLOW_OF[type(message)]


def _has_buffers(packet: Packet) -> bool:
    for message in packet.messages:
        payload = getattr(getattr(message, "cargo", None), "payload", None)
        if type(payload) is Payload and payload.buffers:
            return True
    return False


def _open(packet: Packet, expected: int) -> None:
    """Open the payloads in shared memory, from message number *expected* of *packet* on.

    All of them are opened before any message is handed over. A message that is handed over may make
    this endpoint send; each packet that it sends acknowledges the whole *packet*; and then the
    sender may let go of the shared memory.
    """
    for message in packet.messages[max(0, expected - packet.first) :]:
        payload = payload_of(message)
        if payload is not None and payload.buffers:
            with contextlib.suppress(ProtocolError):  # handing it over will refuse it
                payload.take()

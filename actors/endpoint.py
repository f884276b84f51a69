"""One endpoint at run time: the protocol's `Context`, its channels, and the user's code.

This is the shell of the sans-IO machines. Three kinds of threads meet here:

* the **mailbox thread** gives it what comes in (`take`, `tick`, `turn`);
* the **user's threads** make calls, pickle messages and drop handles;
* the **pool** and the **loop** run the user's functions (see `serving`).

One lock guards the context, the channels and the tables. Under it only protocol steps are
taken, never the user's code, and nothing is sent: what is to leave is collected as packets
and posted after the lock is given back, and so are futures completed. So control never
waits for user code, and the lock is never held while a transport's or a future's is taken.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress

from ..protocol.context import Context
from ..protocol.effects import (
    Confirmed,
    Fail,
    Free,
    Hand,
    Lose,
    Refuse,
    Run,
    Send,
    Settle,
    Stop,
)
from ..protocol.errors import (
    FarrefError,
    GivenUpError,
    OwnerDiedError,
    ProtocolError,
    RefLostError,
    SystemDownError,
    WorkerDiedError,
    WouldBlockError,
)
from ..protocol.ids import RRefId
from ..protocol.messages import (
    Create,
    ForkRequest,
    Message,
    Tell,
    borrowers_in,
    check_message,
)
from ..protocol.owner import Owner
from ..protocol.user import User
from ..serialization.failures import Failure, text_of
from .addresses import AddressBook
from .calls import Calls
from .faults import Counts, Faults, FaultyPort
from .links import Links
from .packing import Packer, pieces
from .pool import Pool
from .serving import Box, Server
from .settings import Settings
from .tracing import Tracer
from .wire import (
    Died,
    Envelope,
    Found,
    Joined,
    Meddle,
    Meddled,
    Spawned,
    WorkerInfo,
    check_wire,
    introduced_in,
)

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable, Iterable

    from ..protocol.delivery import Packet
    from ..protocol.effects import Effect
    from ..protocol.ids import WorkerId
    from ..protocol.messages import Descriptor
    from .futures import Future
    from .ports import Port
    from .registry import Registry

log = logging.getLogger("farref")

BEATS = 5
"""Times that an endpoint is heard of within the silence after which it would be given up."""
CHORES = 4
"""Threads for what no function may hold up: copying values, and letting go of them."""

PACKET_BYTES = 16 << 20
"""What one packet carries at most, unless it is a single message: there is memory for both ends."""


@dataclass(slots=True)
class Stored:
    """The value of an object that lives here, or the failure that took its place."""

    value: object
    on_delete: Callable[[Any], object] | None = None


class Endpoint:
    """The run-time half of one endpoint."""

    def __init__(
        self,
        me: WorkerId,
        port: Port,
        settings: Settings,
        *,
        threads: int,
        hand: Callable[[Any, ActorAddress], None],
    ) -> None:
        self.me = me
        self.settings = settings
        self.address: ActorAddress | None = None
        self.context = Context(me, settings.sharing)
        self.book = AddressBook()
        self.pool = Pool(threads, f"farref {me}")
        """Runs the functions that others call."""
        self.chores = Pool(CHORES, f"farref chores {me}")
        """Copies values and lets go of them, however busy the pool is."""
        self.values: dict[RRefId, Stored] = {}
        self.registry: Registry
        """How this endpoint finds the others; set by the shell that made it."""
        self.on_death: list[Callable[[tuple[WorkerId, ...]], None]] = []
        """Told, in the mailbox thread, of endpoints that died."""
        self.refused = 0
        """Malformed or foreign messages refused so far."""
        self.loop_thread: int | None = None
        self.closed = False
        self.ended: FarrefError | None = None
        """Once it is closed: why, as an error to copy and raise."""
        self._beat_at: float | None = None
        self.pid = os.getpid()
        self._port = port
        if settings.faults:
            self._port = FaultyPort(port, me, settings.faults)
        self._hand = hand
        self.calls = Calls(self)
        self.packer = Packer(self)
        self.server = Server(self)
        self._tracer = Tracer(settings.trace, me) if settings.trace else None
        self.lock = threading.RLock()
        self.room = threading.Condition(self.lock)
        self._links = Links()
        self._self_sent: deque[Message] = deque()
        self._dropped: deque[RRefId] = deque()
        self._given_up: deque[tuple[Descriptor, ...]] = deque()
        self._woken = False
        self._graves: dict[WorkerId, float] = {}

    # ---- steps: take the lock, run a machine, then send what it wants sent

    def step(self, move: Callable[[], list[Effect]]) -> None:
        """Make one protocol move and carry out its effects; nothing, once it is closed.

        Raises what *move* raises, after everything else that was to be done has been.
        """
        self.check_process()
        if self.closed:
            return
        later: list[Callable[[], None]] = []
        packets: list[tuple[WorkerId, Packet]] = []
        try:
            with self.lock:
                try:
                    self._sweep(later)
                    self._carry_out(move(), later)
                finally:
                    packets = self._packets()
        finally:
            self._conclude(packets, later)

    def _conclude(
        self, packets: list[tuple[WorkerId, Packet]], later: list[Callable[[], None]]
    ) -> None:
        """Send, and complete futures, after the lock is given back. One failure stops no other."""
        self._post(packets)
        for each in later:
            try:
                each()
            except Exception:
                self._failed("handing something over")

    def _failed(self, on: str) -> None:
        # As text: a log record that is kept would pin what is in the frames.
        log.error("%s failed on %s:\n%s", self.me, on, traceback.format_exc())

    def check_process(self) -> None:
        """Raise `SystemDownError` in a forked child, where this endpoint is inert."""
        if os.getpid() != self.pid:
            raise SystemDownError(
                f"this process was forked from the one of {self.me} and is no endpoint itself; "
                "start the system after the fork, or attach to it by name"
            )

    def turn(self) -> None:
        """The mailbox thread was woken: do what other threads left undone."""
        self._woken = False
        self.step(list)

    def tick(self) -> float | None:
        """Do what is due now. Returns the seconds until there is something to do again."""
        now = time.monotonic()
        for worker in [w for w, due in self._graves.items() if due <= now]:
            del self._graves[worker]
            if self._tracer:
                self._tracer.buried(worker)
            self.step(lambda worker=worker: self.context.bury(worker))  # type: ignore[misc]
        self.step(list)
        if self._beat_at is not None and self._beat_at <= now and self.settings.silence:
            self._beat_at = now + self.settings.silence / BEATS
            self.registry.beat()
        with self.lock:
            packets = [
                (worker, packet)
                for worker, packet in self._links.due(now)
                if not self._held_back(worker, packet)
            ]
        self._post(packets)
        return self.pause()

    def _held_back(self, worker: WorkerId, packet: Packet) -> bool:
        """A retransmission is no use, and costs memory, while the last copy is not even written."""
        address = self.book.address_of(worker)
        return bool(packet.messages) and address is not None and self._port.holds_back(address)

    def pause(self) -> float | None:
        """Seconds until `tick` has something to do; None if nothing is waited for."""
        now = time.monotonic()
        with self.lock:
            link_due = self._links.deadline()
            dues = [*self._graves.values()]
        dues += [due for due in (link_due, self._beat_at) if due is not None]
        return max(0.0, min(dues) - now) if dues else None

    def take(self, message: Envelope | Found | Spawned | Died | Joined | Meddle | Meddled) -> bool:
        """A packet came in, or an answer of the registrar's; whether it was one.

        Raises nothing: what is malformed is refused, counted and logged.
        """
        try:
            check_wire(message)
            match message:
                case Envelope():
                    self._take(message)
                case Joined():
                    self.settle_in(message)
                case Meddle():
                    self.registry.meddled(message)
                case _:
                    self.registry.receive(message)
        except Exception as error:
            self._refuse(f"a {type(message).__name__}", error)
            return False
        return True

    def _take(self, envelope: Envelope) -> None:
        sender, packet = envelope.sender, envelope.packet
        if envelope.to != self.me or sender.id == self.me:
            raise ProtocolError(f"{sender} sent {self.me} a packet that is for {envelope.to}")
        later: list[Callable[[], None]] = []
        packets: list[tuple[WorkerId, Packet]] = []
        try:
            with self.lock:
                if sender.id in self.context.dead or self.closed:
                    return
                for peer in (sender, *envelope.peers):
                    if peer.id not in self.context.dead:
                        self.book.learn(peer.id, peer.address)
                self._sweep(later)
                if packet.messages and self._port.full():
                    self._links.withhold(sender.id)
                for message in self._links.receive(sender.id, packet, time.monotonic()):
                    self._receive(sender.id, message, later)
                self.room.notify_all()
                packets = [*self._packets(), *self._links.urgent(sender.id, time.monotonic())]
        finally:
            self._conclude(packets, later)

    def _receive(self, sender: WorkerId, message: Message, later: list[Callable[[], None]]) -> None:
        try:
            effects = self._received(sender, message)
        except Exception as error:  # whatever is malformed, what follows it takes effect
            self._refuse(f"{type(message).__name__} of {sender}", error)
            return
        if self._tracer and isinstance(message, ForkRequest | Create):
            self._tracer.known(message, sender)
        try:
            self._carry_out(effects, later)
        except Exception:  # such as no thread to be had: what came with it takes effect still
            self._failed(f"{type(message).__name__} of {sender}")

    def _received(self, sender: WorkerId, message: Message) -> list[Effect]:
        if self._tracer:
            check_message(message)
            self._tracer.received(sender, message)
        for peer in introduced_in(message):
            if peer.id not in self.context.dead:
                self.book.learn(peer.id, peer.address)
        return self.context.receive(sender, message)

    def _refuse(self, what: str, error: Exception) -> None:
        self.refused += 1
        log.warning("%s refused %s: %s", self.me, what, text_of(error))  # text pins nothing

    def _carry_out(self, effects: list[Effect], later: list[Callable[[], None]]) -> None:
        for effect in effects:
            if self._tracer:
                self._tracer.effect(effect)
            match effect:
                case Send(to, message):
                    self._send(to, message)
                case Run(sender, request):
                    self.server.start(sender, request)
                case Refuse(sender, request, why):
                    self.server.refuse(sender, request, why)
                case Hand(sender, message):
                    later.append(lambda s=sender, m=message: self._hand_over(s, m))  # type: ignore[misc]
                case Settle(_, reply):
                    future = self.calls.answered(reply.call)
                    if future is None:
                        self._given_up.append(reply.cargo.descriptors)
                    else:
                        later.append(lambda f=future, c=reply.cargo: f.arrived(c))  # type: ignore[misc]
                case Fail(call, worker, rref):
                    future = self.calls.answered(call)
                    if future is not None:
                        error = _death(worker, rref)
                        later.append(lambda f=future, e=error: f.failed(e))  # type: ignore[misc]
                case Stop(sender, call):
                    self.server.stop(sender, call)
                case Lose(rref):
                    self._store_lost(rref, later)
                case Free(rref):
                    self._free(rref)
                case Confirmed():
                    pass
        while self._self_sent:
            self._receive(self.me, self._self_sent.popleft(), later)

    def _send(self, to: WorkerId, message: Message) -> None:
        if self._tracer:
            self._tracer.sent(to, message)
        if to == self.me:
            self._self_sent.append(message)
            return
        self._links.send(to, message)

    def _packets(self) -> list[tuple[WorkerId, Packet]]:
        """Everything that can leave now: one packet for each peer."""
        packets, news = self._links.packets(time.monotonic())
        if self._links.withholding and not self._port.full():
            self._links.resume(time.monotonic())
            news = True
        if news:
            self.wake()  # the mailbox thread keeps the time
        return packets

    def _post(self, packets: list[tuple[WorkerId, Packet]]) -> None:
        for worker, packet in packets:
            address = self.book.address_of(worker)
            if address is None or self.address is None:
                if worker not in self.context.dead:
                    log.error("%s has no address of %s, and cannot send to it", self.me, worker)
                continue
            me = WorkerInfo(self.me, self.address)
            try:
                for piece in pieces(packet, min(PACKET_BYTES, self._port.largest())):
                    self._port.post(address, Envelope(me, worker, piece, self._introduce(piece)))
            except Exception as error:  # it counts as lost, and is sent again
                if not self.closed:
                    log.warning("%s could not send to %s: %s", self.me, worker, text_of(error))

    def _introduce(self, packet: Packet) -> tuple[WorkerInfo, ...]:
        named = {worker for message in packet.messages for _, worker in borrowers_in(message)}
        known = ((worker, self.address_of(worker)) for worker in named)
        return tuple(WorkerInfo(worker, address) for worker, address in known if address)

    def _sweep(self, later: list[Callable[[], None]]) -> None:
        """Settle the handles and messages that other threads gave up."""
        while self._dropped:  # all at once: the fewer messages are needed to say so
            gone = [self._dropped.popleft() for _ in range(len(self._dropped))]
            self._carry_out(self.context.drop(*gone), later)
        while self._given_up:
            self._carry_out(self.context.release(self._given_up.popleft()), later)

    def wake(self) -> None:
        """Have the mailbox thread take a turn; once is enough until it has."""
        if not self._woken:
            self._woken = True
            self._port.wake()

    # ---- handles and messages that come to an end (any thread, lock-free)

    def discard_handle(self, rref: RRefId) -> None:
        """A handle was collected."""
        if not self.closed:
            self._dropped.append(rref)
            self.wake()

    def discard(self, descriptors: tuple[Descriptor, ...]) -> None:
        """A message was given up before it was unpickled."""
        if not self.closed:
            self._given_up.append(descriptors)
            self.wake()

    def release(self, descriptors: tuple[Descriptor, ...]) -> None:
        """A message was handled: its own hold on its references ends."""
        if descriptors and not self.closed:
            self.step(lambda: self.context.release(descriptors))

    # ---- the objects that live here

    def own(self, value: object, on_delete: Callable[[Any], object] | None) -> RRefId:
        """Own *value*; the caller makes the handle that is counted here."""
        self.check_process()
        with self.lock:
            rref = self.context.own()
            self.values[rref] = Stored(value, on_delete)
        return rref

    def resolve(self, rref: RRefId, box: Box) -> None:
        """The value of a creation, or its `Failure`, is there, in *box*."""

        def move() -> list[Effect]:
            self.values[rref] = Stored(box.take())
            return self.context.resolve(rref)

        self.step(move)

    def _store_lost(self, rref: RRefId, later: list[Callable[[], None]]) -> None:
        error = RefLostError(
            f"{rref} is lost: its creator {rref.creator} died before it was created, or it was "
            "freed before this reference was announced; drop it and create the object again"
        )
        stored = Failure.of(error, self.me.name, "its creation", str(rref))
        self.values[rref] = Stored(stored)
        self._carry_out(self.context.resolve(rref), later)

    def _free(self, rref: RRefId) -> None:
        stored = self.values.pop(rref, None)
        if stored is not None and stored.on_delete is not None:
            self.server.run_on_delete(rref, stored.on_delete, stored.value)
        elif stored is not None:
            self.chores.submit(_let_go, [stored])  # its own __del__ is the user's code

    def local_value(self, rref: RRefId) -> Any:
        """The very object; raises what its creation raised, `ValueError` at a user."""
        with self.lock:
            if rref not in self.context.owners:
                owner = self.context.owner_of(rref)
                raise ValueError(
                    f"{rref} is owned by {owner}, not by {self.me}; use to_here() for a copy"
                )
            stored = self.values.get(rref)
        if stored is None:
            raise ValueError(f"{rref} has no value yet; wait for it with to_here() or await")
        if isinstance(stored.value, Failure):
            raise stored.value.rebuild()
        return stored.value

    # ---- questions

    def owner(self, rref: RRefId) -> WorkerInfo:
        """Who owns *rref*."""
        with self.lock:
            owner = self.context.owner_of(rref)
            address = self.address_of(owner)
        if address is None:
            raise ProtocolError(f"nobody introduced {owner}, the owner of {rref}")
        return WorkerInfo(owner, address)

    def address_of(self, worker: WorkerId) -> ActorAddress | None:
        """Where *worker*, maybe this endpoint itself, is reached; None if nobody said."""
        return self.address if worker == self.me else self.book.address_of(worker)

    @property
    def runs_by_itself(self) -> bool:
        """See `Port.runs_by_itself`."""
        return self._port.runs_by_itself

    def largest(self) -> int:
        """Bytes that one message may have."""
        return self._port.largest()

    def backlog(self, worker: WorkerId) -> int:
        """Messages to *worker* that it has not acknowledged."""
        return self._links.backlog(worker)

    def is_owner(self, rref: RRefId) -> bool:
        """Whether the object lives here."""
        return rref in self.context.owners

    def is_confirmed(self, rref: RRefId) -> bool:
        """Whether the owner counts this endpoint."""
        with self.lock:
            user = self.context.users.get(rref)
            return user is None or user.confirmed

    def in_loop(self) -> bool:
        """Whether the running thread is the one that runs this endpoint's handlers."""
        return self.loop_thread == threading.get_ident()

    def check_may_block(self, what: str, instead: str = "`await`") -> None:
        """Raise `WouldBlockError` where a wait for *what* would stop this endpoint's handlers.

        Asked before anything is sent, so that it depends on nobody's speed.
        """
        if self.in_loop():
            raise WouldBlockError(
                f"waiting for {what} here would stop {self.me}, which runs one handler at a "
                f"time; make the handler `async` and write {instead} instead"
            )

    def wait(self, future: Future[Any], timeout: float) -> bool:
        """Block until *future* is done, lending this thread's place in the pool meanwhile."""
        with self.pool.waiting():
            return self._port.wait(future, timeout)

    def call_in(self) -> bool:
        """See `Port.call_in`."""
        return self._port.call_in()

    def wait_for(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Block for a short question to the registrar, in any thread of the user's."""
        return self._port.wait(future, timeout)

    def rows(self) -> list[tuple[Owner | User, Stored | None]]:
        """The entries of the tables, for `references`."""
        with self.lock:
            entries: list[Owner | User] = [
                *self.context.owners.values(),
                *self.context.users.values(),
            ]
            return [(entry, self.values.get(entry.rref)) for entry in entries]

    # ---- the mailbox of one-way messages

    def _hand_over(self, sender: WorkerId, message: Tell) -> None:
        tag = getattr(message.cargo.payload, "tag", None)
        if isinstance(tag, tuple) and tag[0] == "answer":
            future = self.calls.ask_answered(tag[1])
            if future is None:
                self.discard(message.cargo.descriptors)
            else:
                future.arrived(message.cargo)
            return
        address = self.address_of(sender)
        if address is None:
            self.discard(message.cargo.descriptors)
            return
        self._hand(message.cargo, address)

    # ---- joining

    def settle_in(self, joined: Joined) -> None:
        """The registrar said how this system works and who is dead already."""
        self.address = joined.address
        if joined.settings.sharing != self.settings.sharing:  # nothing has been shared so far
            self.context = Context(self.me, joined.settings.sharing)
        self.settings = joined.settings
        if self.settings.silence is not None and self._port.runs_by_itself:
            self._beat_at = time.monotonic()
        if self.settings.trace and self._tracer is None:
            self._tracer = Tracer(self.settings.trace, self.me)
        if self.settings.faults and not isinstance(self._port, FaultyPort):
            self._port = FaultyPort(self._port, self.me, self.settings.faults)
        self.died(joined.dead)
        self.wake()

    def meddle(self, order: Meddle) -> Counts:
        """A test has packets lost, or no more; see `farref.testing`."""
        if not isinstance(self._port, FaultyPort):
            self._port = FaultyPort(self._port, self.me, Faults())
        if order.faults is not None:
            self._port.adopt(order.faults)
        self._port.cut(*order.cut)
        self._port.heal(*order.heal)
        return self._port.counts()

    # ---- leaving

    def drain(self, seconds: float) -> bool:
        """Wait until everything sent has been acknowledged, *seconds* at most; whether it is."""
        end = time.monotonic() + seconds
        while self._links.backlogged and time.monotonic() < end and self.call_in():
            time.sleep(0.001)
        with self.room:
            return self.room.wait_for(
                lambda: not self._links.backlogged, max(0.0, end - time.monotonic())
            )

    # ---- death

    def died(self, workers: Iterable[WorkerId]) -> None:
        """These endpoints are dead: fail what waits for them now, release what they held later."""
        if self.me in workers and not self.closed:
            self._give_up()
            return
        now = time.monotonic()
        news = tuple(w for w in workers if w not in self.context.dead and w != self.me)
        for worker in news:
            if self._tracer:
                self._tracer.died(worker)
            self.step(lambda worker=worker: self._died(worker))  # type: ignore[misc]
            for ask in self.calls.asked(worker):
                ask.failed(_death(worker, None))
            with self.lock:
                self._links.forget(worker)
                self.room.notify_all()
                self.book.forget(worker)
                self._graves[worker] = 0.0
                # A further death restarts the graces that run: orphans of two announce later.
                self._graves = dict.fromkeys(self._graves, now + self.settings.orphan_grace)
        for tell in self.on_death:
            tell(news)
        self.wake()

    def _died(self, worker: WorkerId) -> list[Effect]:
        return self.context.died(worker, self._links.unacknowledged(worker))

    def _give_up(self) -> None:
        """This endpoint counts as dead: it is closed, and never believed again (fencing)."""
        error = GivenUpError(
            f"{self.me} was silent for too long and counts as dead: all that it held was released; "
            "start it again, under the same name if you like"
        )
        log.error("%s", str(error))
        self._beat_at = None
        self.close("it was given up for dead", error)
        self._port.given_up()

    def check_open(self) -> None:
        """Raise why this endpoint has ended, if it has."""
        self.check_process()
        if self.closed:
            ended = self.ended or SystemDownError(f"{self.me} has ended; start a new system")
            raise type(ended)(str(ended))  # a new one: the other would collect frames

    def close(self, reason: str, error: FarrefError | None = None) -> None:
        """End: every wait fails, with a `SystemDownError` or *error*; nothing more is sent."""
        with self.lock:
            if error is not None:
                self.ended = error
            self.closed = True
            waiting = self.calls.end()
            self.room.notify_all()
        forgotten = self.pool.close()
        self.chores.close()
        why = f"{reason}; {self.me} waits for nothing any more"
        for future in waiting:
            future.failed(type(error)(str(error)) if error else SystemDownError(why))
        if hasattr(self, "registry"):
            self.registry.end(why)
        self.server.close(forgotten)
        if isinstance(self._port, FaultyPort):
            self._port.close()
        if self._tracer:
            self._tracer.close()


def _death(worker: WorkerId, rref: RRefId | None) -> FarrefError:
    if rref is not None:
        return OwnerDiedError(
            f"{worker}, the owner of {rref}, died, and the value with it; create it again"
        )
    return WorkerDiedError(
        f"worker {worker} died before it replied; whether the call took effect is unknown: "
        "call another one if doing it twice does no harm"
    )


def _let_go(values: list[object]) -> None:
    values.clear()

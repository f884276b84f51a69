"""One endpoint at run time: the protocol's `Context`, its channels, and the user's code.

This is the shell of the sans-IO machines. Three kinds of threads meet here:

* the **mailbox thread** gives it what comes in (`take`, `tick`, `turn`);
* the **user's threads** make calls, pickle messages and drop handles;
* the **pool** and the **loop** run the user's functions (see `serving`).

One lock guards the context, the channels and the tables. Under it only protocol steps are
taken, never the user's code, and nothing is sent: what is to leave is collected as packets
and posted after the lock is given back, and so are futures completed. So control never
waits for user code, and no two locks are ever held at once.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress

from ..protocol.context import Context
from ..protocol.delivery import Channel, Packet
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
    ForeignReferenceError,
    OwnerDiedError,
    ProtocolError,
    RefLostError,
    SystemDownError,
    WorkerDiedError,
)
from ..protocol.ids import RRefId
from ..protocol.messages import Cargo, Create, ForkRequest, Tell
from ..protocol.owner import Owner
from ..protocol.user import User
from ..serialization.failures import Failure
from ..serialization.payload import Payload
from ..serialization.pickling import dumps, loads
from .addresses import AddressBook
from .futures import Future, outcome
from .pool import Pool
from .rref import RRef
from .serving import Server
from .settings import Settings, check_timeout
from .tracing import Tracer
from .wire import Envelope, Joined, WorkerInfo

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable, Iterable

    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, WorkerId
    from ..protocol.messages import Descriptor, Message
    from ..serialization.pickling import Reference
    from .ports import Port
    from .registry import Registry

log = logging.getLogger("farref")

MAX_BACKLOG = 10_000
"""Messages that one peer has not acknowledged; a user's thread that sends more waits (G6)."""


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
        self.context = Context(me)
        self.book = AddressBook()
        self.pool = Pool(threads, f"farref {me}")
        self.values: dict[RRefId, Stored] = {}
        self.registry: Registry
        """How this endpoint finds the others; set by the shell that made it."""
        self.refused = 0
        """Malformed or foreign messages refused so far."""
        self.loop_thread: int | None = None
        self.closed = False
        self._port = port
        self._hand = hand
        self.server = Server(self)
        self._tracer = Tracer(settings.trace, me) if settings.trace else None
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)
        self._channels: dict[WorkerId, Channel] = {}
        self._dirty: set[WorkerId] = set()
        self._timed: set[WorkerId] = set()
        self._self_sent: deque[Message] = deque()
        self._garbage: deque[RRefId | tuple[Descriptor, ...]] = deque()
        self._woken = False
        self._calls: dict[CallId, Future[Any]] = {}
        self._asks: dict[int, Future[Any]] = {}
        self._ask_numbers = itertools.count(1)
        self._graves: dict[WorkerId, float] = {}

    # ---- steps: take the lock, run a machine, then send what it wants sent

    def step(self, move: Callable[[], list[Effect]]) -> None:
        """Make one protocol move and carry out its effects."""
        later: list[Callable[[], None]] = []
        with self._lock:
            self._sweep(later)
            self._carry_out(move(), later)
            packets = self._packets()
        self._post(packets)
        for each in later:
            each()

    def turn(self) -> None:
        """The mailbox thread was woken: do what other threads left undone."""
        self._woken = False
        self.step(list)

    def tick(self) -> float | None:
        """Do what is due now. Returns the seconds until there is something to do again."""
        now = time.monotonic()
        for worker in [w for w, due in self._graves.items() if due <= now]:
            del self._graves[worker]
            self.step(lambda worker=worker: self.context.bury(worker))  # type: ignore[misc]
        self.step(list)
        packets = []
        with self._lock:
            for worker in list(self._timed):
                packet = self._channels[worker].tick(now)
                if packet is not None:
                    packets.append((worker, packet))
        self._post(packets)
        return self.pause()

    def pause(self) -> float | None:
        """Seconds until `tick` has something to do; None if nothing is waited for."""
        now = time.monotonic()
        with self._lock:
            dues = list(self._graves.values())
            for worker in list(self._timed):
                due = self._channels[worker].deadline
                if due is None:
                    self._timed.discard(worker)
                else:
                    dues.append(due)
        return max(0.0, min(dues) - now) if dues else None

    def take(self, envelope: Envelope) -> None:
        """A packet came in. Raises nothing: what is malformed is refused, counted and logged."""
        try:
            self._take(envelope)
        except (FarrefError, AttributeError, TypeError) as error:
            self._refuse(f"a packet of {getattr(envelope, 'sender', '?')}", error)

    def _take(self, envelope: Envelope) -> None:
        sender, packet = envelope.sender, envelope.packet
        if envelope.to != self.me:
            raise ProtocolError(f"{self.me} got a packet that is meant for {envelope.to}")
        later: list[Callable[[], None]] = []
        with self._lock:
            if sender.id in self.context.dead:
                return
            self.book.learn(sender.id, sender.address)
            self._sweep(later)
            channel = self._channel(sender.id)
            for message in channel.receive(packet, time.monotonic()):
                self._receive(sender.id, message, later)
            self._dirty.add(sender.id)
            self._room.notify_all()
            packets = self._packets()
            urgent = channel.tick(time.monotonic())
            if urgent is not None:
                packets.append((sender.id, urgent))
        self._post(packets)
        for each in later:
            each()

    def _receive(self, sender: WorkerId, message: Message, later: list[Callable[[], None]]) -> None:
        if self._tracer:
            self._tracer.received(sender, message)
        cargo = getattr(message, "cargo", None)
        payload = cargo.payload if cargo is not None else None
        if isinstance(payload, Payload):
            for peer in payload.peers:
                if isinstance(peer, WorkerInfo):
                    self.book.learn(peer.id, peer.address)
        try:
            effects = self.context.receive(sender, message)
        except ProtocolError as error:
            self._refuse(f"{type(message).__name__} of {sender}", error)
            return
        if self._tracer and isinstance(message, ForkRequest | Create):
            self._tracer.known(message, sender)
        self._carry_out(effects, later)

    def _refuse(self, what: str, error: Exception) -> None:
        self.refused += 1
        log.warning("%s refused %s: %s", self.me, what, error)

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
                    future = self._calls.pop(reply.call, None)
                    if future is None:
                        self._garbage.append(reply.cargo.descriptors)
                    else:
                        later.append(lambda f=future, c=reply.cargo: f.arrived(c))  # type: ignore[misc]
                case Fail(call, worker, rref):
                    future = self._calls.pop(call, None)
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
        self._channel(to).send(message)
        self._dirty.add(to)

    def _channel(self, worker: WorkerId) -> Channel:
        channel = self._channels.get(worker)
        if channel is None:
            channel = self._channels[worker] = Channel()
        return channel

    def _packets(self) -> list[tuple[WorkerId, Packet]]:
        """Everything that can leave now: one packet for each peer."""
        now = time.monotonic()
        packets = []
        dirty, self._dirty = self._dirty, set()
        for worker in dirty:
            channel = self._channels.get(worker)
            if channel is None:
                continue
            packet = channel.packet(now)
            if packet is not None:
                packets.append((worker, packet))
            if channel.deadline is not None and worker not in self._timed:
                self._timed.add(worker)
                self.wake()
        return packets

    def _post(self, packets: list[tuple[WorkerId, Packet]]) -> None:
        for worker, packet in packets:
            address = self.book.address_of(worker)
            if address is None or self.address is None:
                log.error("%s has no address of %s, and cannot send to it", self.me, worker)
                continue
            self._port.post(address, Envelope(WorkerInfo(self.me, self.address), worker, packet))

    def _sweep(self, later: list[Callable[[], None]]) -> None:
        """Settle the handles and messages that other threads gave up."""
        while self._garbage:
            gone = self._garbage.popleft()
            if isinstance(gone, RRefId):
                self._carry_out(self.context.drop(gone), later)
            else:
                self._carry_out(self.context.release(gone), later)

    def wake(self) -> None:
        """Have the mailbox thread take a turn; once is enough until it has."""
        if not self._woken:
            self._woken = True
            self._port.wake()

    # ---- handles and messages that come to an end (any thread, lock-free)

    def discard_handle(self, rref: RRefId) -> None:
        """A handle was collected."""
        if not self.closed:
            self._garbage.append(rref)
            self.wake()

    def discard(self, descriptors: tuple[Descriptor, ...]) -> None:
        """A message was given up before it was unpickled."""
        if not self.closed:
            self._garbage.append(descriptors)
            self.wake()

    def release(self, descriptors: tuple[Descriptor, ...]) -> None:
        """A message was handled: its own hold on its references ends."""
        if descriptors and not self.closed:
            self.step(lambda: self.context.release(descriptors))

    # ---- pickling (the hooks)

    def pack(self, to: WorkerId, value: object, tag: object = None) -> Cargo:
        """Pickle *value* for *to*, forking the references in it."""
        hooks = _Hooks(self, to)
        payload, descriptors = dumps(
            value, hooks, inert=ActorAddress, peers=self._introduce, tag=tag
        )
        return Cargo(payload=payload, descriptors=descriptors)

    def _introduce(self, descriptors: list[Descriptor]) -> tuple[WorkerInfo, ...]:
        infos = []
        for owner in {d.owner for d in descriptors}:
            address = self.address if owner == self.me else self.book.address_of(owner)
            if address is not None:
                infos.append(WorkerInfo(owner, address))
        return tuple(infos)

    def open(self, cargo: Cargo) -> Any:
        """Unpickle what came, or raise what came in its place."""
        if isinstance(cargo.payload, Failure):
            raise cargo.payload.rebuild()
        if not isinstance(cargo.payload, Payload):
            raise ProtocolError(f"{self.me} got a message without content")
        return outcome(loads(cargo.payload, cargo.descriptors, _Hooks(self, self.me)))

    def join(self, descriptor: Descriptor) -> RRef[Any]:
        """A handle for a reference that is being unpickled."""
        with self._lock:
            self.context.hold(descriptor.rref)
        return RRef._of(self, descriptor.rref)

    # ---- calls of the user's

    def remote(
        self, to: WorkerInfo, call: tuple[Any, ...], target: RRefId | None = None
    ) -> RRef[Any]:
        """Have *to* own the result of *call*; returns its reference at once."""
        self._admit(to)
        cargo = self.pack(to.id, call, tag=_label(call))
        made: list[RRefId] = []

        def move() -> list[Effect]:
            rref, effects = self._or_abandon(
                cargo, lambda: self.context.create(to.id, cargo, target)
            )
            made.append(rref)
            return effects

        self.step(move)
        return RRef._of(self, made[0])

    def call(
        self,
        to: WorkerInfo,
        call: tuple[Any, ...],
        timeout: float | None,
        chain: tuple[RRefId, ...],
    ) -> Future[Any]:
        """Run *call* on *to*."""
        future: Future[Any] = Future(
            self, f"the reply of {to} to {_label(call)}()", self._timeout(timeout)
        )
        self._admit(to)
        cargo = self.pack(to.id, call, tag=_label(call))
        self._request(
            future,
            lambda: self._or_abandon(cargo, lambda: self.context.call(to.id, cargo, chain)),
        )
        return future

    def fetch(
        self,
        rref: RRefId,
        timeout: float | None,
        chain: tuple[RRefId, ...],
        *,
        copy: bool = True,
    ) -> Future[Any]:
        """Ask for a copy of the value, or with *copy* false whether there is one."""
        future: Future[Any] = Future(self, f"the value of {rref}", self._timeout(timeout), rref)
        self._request(future, lambda: self.context.fetch(rref, chain, copy=copy))
        return future

    def invoke(
        self,
        rref: RRef[Any],
        call: tuple[str, tuple[Any, ...], dict[str, Any]],
        timeout: float | None,
        chain: tuple[RRefId, ...],
    ) -> Future[Any]:
        """Run a method of the object."""
        method = call[0]
        future: Future[Any] = Future(
            self, f"the reply of {method}() of {rref.id}", self._timeout(timeout), rref.id
        )
        to = self.owner(rref.id)
        self._admit(to)
        cargo = self.pack(to.id, call, tag=method)
        self._request(
            future,
            lambda: self._or_abandon(cargo, lambda: self.context.invoke(rref.id, cargo, chain)),
        )
        return future

    def remote_method(
        self, rref: RRef[Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RRef[Any]:
        """Run a method of the object; its owner owns the result too."""
        return self.remote(self.owner(rref.id), (method, args, kwargs), rref.id)

    def tell(self, to: WorkerInfo, message: object, tag: object = None) -> None:
        """Send a one-way message."""
        self._admit(to)
        cargo = self.pack(to.id, message, tag=tag)
        self.step(
            lambda: self._or_abandon(cargo, lambda: (None, self.context.tell(to.id, cargo)))[1]
        )

    def ask(self, to: WorkerInfo, message: object, timeout: float) -> Future[Any]:
        """Send a message and wait for what is sent back to the address it came from."""
        number = next(self._ask_numbers)
        future: Future[Any] = Future(self, f"the answer of {to}", timeout)
        self._asks[number] = future
        try:
            self.tell(to, message, tag=("ask", number))
        except BaseException:
            del self._asks[number]
            raise
        return future

    def forget_ask(self, future: Future[Any]) -> None:
        """Nobody waits for this answer any more: if it comes, it is dropped."""
        self._asks = {n: f for n, f in self._asks.items() if f is not future}

    def cancel(self, call: CallId) -> None:
        """Take back a call that has not started."""
        self.step(lambda: self.context.cancel(call))

    def _request(
        self, future: Future[Any], move: Callable[[], tuple[CallId, list[Effect]]]
    ) -> None:
        def step() -> list[Effect]:
            call, effects = move()
            future.call = call
            self._calls[call] = future
            return effects

        self.step(step)

    def _or_abandon(
        self, cargo: Cargo, move: Callable[[], tuple[Any, list[Effect]]]
    ) -> tuple[Any, list[Effect]]:
        """Make *move*; if it is refused, undo the forks of the message that it would send."""
        try:
            return move()
        except FarrefError:
            self._garbage_forks(cargo.descriptors)
            raise

    def _garbage_forks(self, descriptors: tuple[Descriptor, ...]) -> None:
        later: list[Callable[[], None]] = []
        self._carry_out(self.context.abandon(descriptors), later)
        for each in later:
            each()

    def _timeout(self, timeout: float | None) -> float:
        return check_timeout(timeout, self.settings.timeout)

    def _admit(self, to: WorkerInfo) -> None:
        """Refuse the dead, learn the address, and wait while the peer is far behind."""
        if self.closed:
            raise SystemDownError(f"{self.me} has ended; start a new system")
        with self._room:
            if to.id in self.context.dead:
                raise WorkerDiedError(f"worker {to} died; nothing can be sent to it")
            self.book.learn(to.id, to.address)
            if self.in_loop():
                return  # a handler may not block; what it sends is bounded by what it received
            channel = self._channel(to.id) if to.id != self.me else None
            if channel and not self._room.wait_for(
                lambda: channel.backlog < MAX_BACKLOG or to.id in self.context.dead or self.closed,
                self.settings.timeout,
            ):
                raise ProtocolError(
                    f"{to} has not acknowledged {channel.backlog} messages for "
                    f"{self.settings.timeout:g} s; it is stopped or cut off"
                )

    # ---- the objects that live here

    def own(self, value: object, on_delete: Callable[[Any], object] | None) -> RRefId:
        """Own *value*; the caller makes the handle that is counted here."""
        with self._lock:
            rref = self.context.own()
            self.values[rref] = Stored(value, on_delete)
        return rref

    def resolve(self, rref: RRefId, value: object) -> None:
        """The value of a creation, or its `Failure`, is there."""

        def move() -> list[Effect]:
            if rref not in self.context.owners:
                return []
            self.values[rref] = Stored(value)
            return self.context.resolve(rref)

        self.step(move)

    def _store_lost(self, rref: RRefId, later: list[Callable[[], None]]) -> None:
        error = RefLostError(f"{rref} was never created: its creator {rref.creator} died before")
        self.values[rref] = Stored(Failure.of(error, self.me.name, "its creation"))
        self._carry_out(self.context.resolve(rref), later)

    def _free(self, rref: RRefId) -> None:
        stored = self.values.pop(rref, None)
        if stored is not None and stored.on_delete is not None:
            self.server.run_on_delete(rref, stored.on_delete, stored.value)
        elif stored is not None:
            self.pool.submit(_let_go, [stored])  # its own __del__ is the user's code

    def local_value(self, rref: RRefId) -> Any:
        """The very object; raises what its creation raised, `ValueError` at a user."""
        with self._lock:
            if rref not in self.context.owners:
                owner = self.context.owner_of(rref)
                raise ValueError(
                    f"{rref} is owned by {owner}, not by {self.me}; use to_here() for a copy"
                )
            stored = self.values.get(rref)
        if stored is None:
            raise ValueError(f"{rref} has no value yet; wait for it with to_here() or await")
        return outcome(stored.value)

    # ---- questions

    def owner(self, rref: RRefId) -> WorkerInfo:
        """Who owns *rref*."""
        with self._lock:
            owner = self.context.owner_of(rref)
            address = self.address if owner == self.me else self.book.address_of(owner)
        if address is None:
            raise ProtocolError(f"nobody introduced {owner}, the owner of {rref}")
        return WorkerInfo(owner, address)

    def is_owner(self, rref: RRefId) -> bool:
        """Whether the object lives here."""
        return rref in self.context.owners

    def is_confirmed(self, rref: RRefId) -> bool:
        """Whether the owner counts this endpoint."""
        with self._lock:
            user = self.context.users.get(rref)
            return user is None or user.confirmed

    def in_loop(self) -> bool:
        """Whether the running thread is the one that runs this endpoint's handlers."""
        return self.loop_thread == threading.get_ident()

    def wait(self, future: Future[Any], timeout: float) -> bool:
        """Block until *future* is done, lending this thread's place in the pool meanwhile."""
        with self.pool.waiting():
            return self._port.wait(future, timeout)

    def wait_for(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Block for a short question to the registrar, in any thread of the user's."""
        return self._port.wait(future, timeout)

    def rows(self) -> list[tuple[Owner | User, Stored | None]]:
        """The entries of the tables, for `references`."""
        with self._lock:
            entries: list[Owner | User] = [
                *self.context.owners.values(),
                *self.context.users.values(),
            ]
            return [(entry, self.values.get(entry.rref)) for entry in entries]

    def idle(self) -> bool:
        """Whether everything sent has been acknowledged."""
        with self._lock:
            return not any(channel.backlog for channel in self._channels.values())

    # ---- the mailbox of one-way messages

    def _hand_over(self, sender: WorkerId, message: Tell) -> None:
        tag = getattr(message.cargo.payload, "tag", None)
        if isinstance(tag, tuple) and tag[0] == "answer":
            future = self._asks.pop(tag[1], None)
            if future is None:
                self.discard(message.cargo.descriptors)
            else:
                future.arrived(message.cargo)
            return
        address = self.address if sender == self.me else self.book.address_of(sender)
        if address is None:
            self.discard(message.cargo.descriptors)
            return
        self._hand(message.cargo, address)

    # ---- joining

    def settle_in(self, joined: Joined) -> None:
        """The registrar said how this system works and who is dead already."""
        self.address = joined.address
        self.settings = joined.settings
        if self.settings.trace and self._tracer is None:
            self._tracer = Tracer(self.settings.trace, self.me)
        self.died(joined.dead)
        self.wake()

    # ---- death

    def died(self, workers: Iterable[WorkerId]) -> None:
        """These endpoints are dead: fail what waits for them now, release what they held later."""
        now = time.monotonic()
        for worker in workers:
            if worker in self.context.dead or worker == self.me:
                continue
            self.step(lambda worker=worker: self.context.died(worker))  # type: ignore[misc]
            with self._lock:
                self._channels.pop(worker, None)
                self._timed.discard(worker)
                self._room.notify_all()
                self.book.forget(worker)
                self._graves[worker] = 0.0
                # A further death restarts the graces that run: orphans of two announce later.
                self._graves = dict.fromkeys(self._graves, now + self.settings.orphan_grace)
        self.wake()

    def close(self, reason: str) -> None:
        """End: every wait fails with `SystemDownError`, nothing more is sent."""
        with self._lock:
            self.closed = True
            waiting = [*self._calls.values(), *self._asks.values()]
            self._calls.clear()
            self._asks.clear()
            self._room.notify_all()
        for future in waiting:
            future.failed(SystemDownError(f"{reason}; {self.me} waits for nothing any more"))
        self.pool.close()
        if self._tracer:
            self._tracer.close()


class _Hooks:
    """The pickler's hooks for one message to one receiver."""

    __slots__ = ("_endpoint", "_to")

    def __init__(self, endpoint: Endpoint, to: WorkerId) -> None:
        self._endpoint = endpoint
        self._to = to

    def fork(self, reference: Reference) -> Descriptor:
        endpoint = self._endpoint
        if not isinstance(reference, RRef) or reference._endpoint is not endpoint:
            raise ForeignReferenceError(
                f"{reference!r} belongs to another endpoint than {endpoint.me}, which sends this "
                "message; a reference can be passed on only by the endpoint that holds it"
            )
        with endpoint._lock:
            return endpoint.context.fork(reference.id, self._to)

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        endpoint, forks = self._endpoint, tuple(descriptors)
        if forks:
            endpoint.step(lambda: endpoint.context.abandon(forks))

    def join(self, descriptor: Descriptor) -> RRef[Any]:
        return self._endpoint.join(descriptor)


def _death(worker: WorkerId, rref: RRefId | None) -> FarrefError:
    if rref is not None:
        return OwnerDiedError(
            f"{worker}, the owner of {rref}, died, and the value with it; create it again"
        )
    return WorkerDiedError(
        f"worker {worker} died before it replied; whether the call took effect is unknown"
    )


def _label(call: tuple[Any, ...]) -> str:
    function = call[0]
    return str(getattr(function, "__name__", function))


def _let_go(values: list[object]) -> None:
    values.clear()

"""One endpoint at run time: the protocol's `Context`, and the steps that are made with it.

This is the shell of the sans-IO machines. Three kinds of threads meet here:

* the **mailbox thread** gives it what comes in (`take`, `tick`, `turn`);
* the **user's threads** make calls, pickle messages and drop handles;
* the **pool** and the **loop** run the user's functions (see `serving`).

One lock guards the context, the channels and the tables. Under it only protocol steps are
taken, never the user's code, and nothing is sent: what is to leave is collected as packets
and posted after the lock is given back, and so are futures completed. So control never
waits for user code, and the lock is never held while a transport's or a future's is taken.

An endpoint's parts, each in its file: `Delivery` (packets), `Effects` (what a step has us do),
`Discards` (what finalizers leave), `Objects` (values), `Deaths`; `Calls` and `Server` (the user's
calls, and others'), `Packer` (pickling), `Registry` (the others).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from thespian.actors import ActorAddress

from ..protocol.context import Context
from ..protocol.errors import FarrefError, ProtocolError, SystemDownError, WouldBlockError
from ..protocol.messages import Create
from ..protocol.packets import Malformed
from ..serialization.failures import details_of
from . import events, telemetry
from .addresses import AddressBook
from .base.interrupts import undisturbed
from .brief import Brief
from .calls import Calls
from .deaths import Deaths
from .delivery import Delivery
from .discards import Discards
from .effects import Effects
from .inspector import Inspector
from .intake import NOTED
from .mints import Mints
from .objects import Objects
from .packing import Packer, payload_of
from .pool import Pool
from .recording import Recorded
from .serving import Server
from .settings import Settings
from .sites import Sites
from .tables_json import tables_of
from .tracefile import FileSink
from .tracing import NOTHING, Tracer
from .waits import ON_OBJECTS, Waits
from .watching import Watchers
from .wire import (
    Died,
    Down,
    Envelope,
    Found,
    Heard,
    Inspect,
    Inspected,
    Joined,
    Meddle,
    Meddled,
    Minted,
    Spawned,
    Traced,
    Watch,
    WorkerInfo,
    check_wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.effects import Effect
    from ..protocol.ids import RRefId, WorkerId
    from ..protocol.messages import Cargo, Descriptor, Message, ObjectRequest
    from .effects import Later
    from .links import Outgoing
    from .ports import Port
    from .registry import Registry
    from .spans import Spans

log = logging.getLogger(__name__)

CHORES = 4
"""Threads for what no function may hold up: copying values, and letting go of them."""


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
        self.port = port
        self.settings = settings
        self.address: ActorAddress | None = None
        self.lock = threading.RLock()
        self.context = Context(me, settings.sharing)
        self.book = AddressBook()
        self.pool = Pool(threads, f"farref {me}")
        """Runs the functions that others call."""
        self.chores = Pool(CHORES, f"farref chores {me}")
        """Copies values and lets go of them, however busy the pool is."""
        self.brief = Brief()
        """Does, between two messages, what takes no time."""
        self.registry: Registry
        """How this endpoint finds the others; set by the shell that made it."""
        self.tracer: Tracer | None = None
        self.delivery = Delivery(self, port)
        self.effects = Effects(self, hand)
        self.discards = Discards(self)
        self.objects = Objects(self)
        self.deaths = Deaths(self)
        self.calls = Calls(self)
        self.packer = Packer(self)
        self.server = Server(self)
        self.waits = Waits(self)
        self.mints = Mints()
        """How old the forks and calls are that were named here."""
        self.sites = Sites()
        self.inspector = Inspector(self)
        self.actor: object = None
        """Whose endpoint it is, if it is an actor's."""
        self.watchers = Watchers(self)
        self.refused = 0
        """Malformed or foreign messages refused so far."""
        self.loop_thread: int | None = None
        self.closed = False
        self.closing: list[Callable[[], None]] = []
        """Told, once each, that it closes; in whatever thread, and they must not wait."""
        self.ended: FarrefError | None = None
        """Once it is closed: why, as an error to copy and raise."""
        self.pid = os.getpid()
        self.spans: Spans | None = None
        """What tells OpenTelemetry of its calls, if the system is to (`telemetry`)."""
        self._woken = False
        self.sites.wanted = settings.sites
        self.delivery.suffer(settings.faults)
        if settings.telemetry is not None:
            telemetry.begin(self)

    # ---- joining

    def settle_in(self, joined: Joined) -> None:
        """The registrar has answered: this endpoint is there, and its first step can come.

        Nothing that came before has taken effect, so nothing here is of those who are dead already.
        """
        self.address = joined.address
        with self.lock:
            self.context.outlive(joined.dead)
            if self.settings.trace:
                known = tables_of(self.context) if joined.dead else NOTHING
                sink = FileSink(self.settings.trace, self.me)
                self.record().begin(sink, self.settings.sharing, known)
        if self.settings.silence is not None and self.port.runs_by_itself:
            self.deaths.begin_to_beat()
        self.registry.answered = joined.answered
        self.deaths.live_with(joined.pids)
        self.deaths.died(joined.dying)
        self.wake()

    # ---- recording; see `tracing`

    def record(self) -> Tracer:
        """What records the steps of this endpoint, from now on if it did not. Under the lock."""
        if self.tracer is None:
            self.tracer = Tracer(self.me, gathers=True)
            self.context = Recorded(self.context, self.tracer)
        return self.tracer

    def record_no_more(self) -> None:
        """Nobody wants to know any more. Under the lock."""
        if self.tracer is not None and isinstance(self.context, Recorded):
            self.tracer.close()
            self.context, self.tracer = self.context.plain, None

    # ---- steps: take the lock, run a machine, then send what it wants sent

    def step(self, move: Callable[[], list[Effect]], *, gather: bool = True) -> None:
        """Make one protocol move and carry out its effects; nothing, once it is closed.

        With *gather* what it sends may leave a moment later: see `Delivery.packets`.

        Raises what *move* raises, after everything else that was to be done has been.
        """
        self.check_process()
        if self.closed:
            return
        later: Later = []
        packets: Outgoing = []
        with undisturbed:
            try:
                with self.lock:
                    self.context.state.now = time.monotonic()
                    try:
                        if self.discards:
                            self.discards.sweep(later)
                        self.effects.carry_out(move(), later)
                    finally:
                        packets = self.delivery.packets(gather=gather and self.port.runs_by_itself)
            finally:
                self.conclude(packets, later)

    def conclude(self, packets: Outgoing, later: Later) -> None:
        """Send, and complete futures, after the lock is given back. One failure stops no other."""
        self.delivery.post(packets)
        for each in later:
            try:
                each()
            except Exception as error:
                self._failed("handing something over", error)

    def receive(
        self, sender: WorkerId, message: Message, later: Later, number: int | None = None
    ) -> None:
        """*message* of *sender*, its *number*, takes effect, or is refused. Under the lock."""
        try:
            effects = self._received(sender, message, number)
        except Exception as error:  # whatever is malformed, what follows it takes effect
            self._refuse(f"{type(message).__name__} of {sender}", error, sender)
            return
        try:
            self.effects.carry_out(effects, later, noted=True)
        except Exception as error:  # such as no thread to be had: later messages take effect
            self._failed(f"{type(message).__name__} of {sender}", error)

    def _received(self, sender: WorkerId, message: Message, number: int | None) -> list[Effect]:
        if isinstance(message, Malformed):
            raise ProtocolError(f"a message that is malformed: {message.why}")
        payload = payload_of(message)
        if payload is not None:
            self.learn(*cast("tuple[WorkerInfo, ...]", payload.peers))
            payload.take()  # it has been opened, or is refused
            if payload.buffers or len(payload.data) >= NOTED:
                self.delivery.note(sender, message, payload)
        if self.sites.wanted and isinstance(message, Create):
            self.note_site(message.rref, message.cargo)
        effects = self.context.take(sender, message)
        if type(message) in ON_OBJECTS:
            self.waits.arrived(cast("ObjectRequest", message))
        if self.tracer:
            self.tracer.received(sender, message, number, effects)
        return effects

    def note_site(self, rref: RRefId, cargo: Cargo) -> None:
        """*rref* is made by what is in *cargo*, which may say where. Under the lock."""
        origin = getattr(cargo.payload, "origin", None)
        if origin is not None and origin.site is not None:
            self.sites.note(rref, origin.site, self.context.owners, self.context.users)

    def _refuse(self, what: str, error: Exception, sender: WorkerId | str = "") -> None:
        self.refused += 1
        events.refused(log, self.me, what, error, system=self.settings.system, sender=sender)

    def _failed(self, on: str, error: BaseException) -> None:
        log.error("%s failed on %s:\n%s", self.me, on, details_of(error))

    def release(self, descriptors: tuple[Descriptor, ...]) -> None:
        """A message was handled: its own hold on its references ends."""
        if descriptors and not self.closed:
            self.step(lambda: self.context.release(descriptors))

    # ---- the mailbox thread

    def take(
        self,
        message: Envelope
        | Found
        | Spawned
        | Minted
        | Died
        | Heard
        | Down
        | Joined
        | Meddle
        | Meddled
        | Inspect
        | Inspected
        | Watch
        | Traced,
    ) -> bool:
        """A packet came in, or an answer of the registrar's; whether it was one.

        Raises nothing: what is malformed is refused, counted and logged.
        """
        with undisturbed:  # on the in-process base this is the program's own thread
            try:
                check_wire(message)
                self._take(message)
            except Exception as error:
                self._refuse(f"a {type(message).__name__}", error)
                return False
            return True

    def _take(self, message: Any) -> None:
        match message:
            case Envelope():
                self.delivery.take(message)
            case Joined():
                self.settle_in(message)
            case Inspect():
                self.inspector.asked(message)
            case Meddle():
                self.registry.meddled(message)
            case Watch():
                self.watchers.watch(message)
            case Traced():
                self.watchers.traced(message)
            case Down(reason=reason, orderly=orderly):
                self.deaths.lose(reason, orderly=orderly)
            case _:
                self.registry.receive(message)

    def take_parcel(self, data: bytes | bytearray, address: ActorAddress) -> None:
        """A packet came from *address* as a parcel. Raises nothing, as `take`."""
        try:
            self.delivery.take_parcel(data, address)
        except Exception as error:
            self._refuse("a parcel", error)

    def turn(self) -> None:
        """The mailbox thread was woken: do what other threads left undone."""
        with undisturbed:
            self._woken = False
            self.deaths.leave()
            if self.discards or self.delivery.left:  # or a step of another thread's did it all
                self.step(list, gather=False)

    def tick(self) -> float | None:
        """Do what is due now. Returns the seconds until there is something to do again."""
        now = time.monotonic()
        with undisturbed:
            self._woken = False  # an interrupt may have kept the bell from ringing: see `wake`
            self.deaths.bury(now)
            self.step(list, gather=False)
            self.deaths.beat(now)
            self.waits.look(now)
            self.delivery.resend(now)
        return self.pause()

    def pause(self) -> float | None:
        """Seconds until `tick` has something to do; None if nothing is waited for."""
        now = time.monotonic()
        with self.lock:
            ends = (self.delivery.deadline(), self.deaths.deadline(), self.waits.deadline())
        dues = [due for due in ends if due is not None]
        return max(0.0, min(dues) - now) if dues else None

    def wake(self) -> None:
        """Have the mailbox thread take a turn; once is enough until it has. Lock-free.

        In a finalizer it may be interrupted half way. Then the turn comes with the next `tick`.
        """
        if not self._woken:
            self._woken = True
            self.port.wake()

    # ---- who is where

    def learn(self, *peers: WorkerInfo) -> None:
        """Somebody introduced *peers*. Under the lock: the dead must not stay in the book."""
        for peer in peers:
            if peer.id not in self.context.dead:
                self.book.learn(peer.id, peer.address)

    def address_of(self, worker: WorkerId) -> ActorAddress | None:
        """Where *worker*, maybe this endpoint itself, is reached; None if nobody said."""
        return self.address if worker == self.me else self.book.address_of(worker)

    def owner(self, rref: RRefId) -> WorkerInfo:
        """Who owns *rref*."""
        with self.lock:
            owner = self.context.owner_of(rref)
            address = self.address_of(owner)
        if address is None:
            raise ProtocolError(f"nobody introduced {owner}, the owner of {rref}")
        return WorkerInfo(owner, address)

    def is_owner(self, rref: RRefId) -> bool:
        """Whether the object lives here."""
        with self.lock:
            return self.context.whereabouts(rref) in self.context.owners

    def canonical(self, rref: RRefId) -> RRefId | None:
        """The object behind *rref*, maybe itself; None while that is not known here."""
        with self.lock:
            return self.context.names.canonical(rref)

    def where_asked(self, rref: RRefId) -> tuple[RRefId, RRefId]:
        """The ids that requests on *rref* may go to: its own, and that of what it stands for."""
        with self.lock:
            return rref, self.context.whereabouts(rref)

    def trail(self, rref: RRefId) -> str:
        """For an alias, the way from it to its value; otherwise empty."""
        with self.lock:
            path = self.context.names.path(rref)
        return " -> ".join(map(str, (rref, *path))) if path else ""

    def is_confirmed(self, rref: RRefId) -> bool:
        """Whether the owner counts this endpoint."""
        with self.lock:
            user = self.context.users.get(self.context.whereabouts(rref))
            return user is None or user.confirmed

    # ---- whether a thread of the user's may go on

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

    def check_process(self) -> None:
        """Raise `SystemDownError` in a forked child, where this endpoint is inert."""
        if os.getpid() != self.pid:
            raise SystemDownError(
                f"this process was forked from the one of {self.me} and is no endpoint itself; "
                "start the system after the fork, or attach to it by name"
            )

    def check_open(self) -> None:
        """Raise why this endpoint has ended, if it has."""
        self.check_process()
        if self.closed:
            ended = self.ended or SystemDownError(f"{self.me} has ended; start a new system")
            raise type(ended)(str(ended))  # a new one: the other would collect frames

    # ---- the end

    def close(self, reason: str, error: FarrefError | None = None) -> None:
        """End: every wait fails, with a `SystemDownError` or *error*; nothing more is sent."""
        with self.lock:
            if error is not None:
                self.ended = error
            self.closed = True
            self.discards.close()
            waiting = self.calls.end()
            self.delivery.room.notify_all()
        self.deaths.close()
        forgotten = self.pool.close()
        self.chores.close()
        self.inspector.close()
        why = f"{reason}; {self.me} waits for nothing any more"
        for future in waiting:
            future.failed(type(error)(str(error)) if error else SystemDownError(why))
        if hasattr(self, "registry"):
            self.registry.end(why)
        self.server.close(forgotten)
        self.delivery.close()
        told, self.closing = self.closing, []
        for tell in told:
            tell()
        with self.lock:
            if self.tracer:
                self.tracer.close()

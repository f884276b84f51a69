"""The core of one endpoint: the protocol's `Context`, and its steps.

Three kinds of threads meet here: the *mailbox thread* brings incoming messages; the *user's
threads* make calls, pickle messages and drop handles; the *pool* and the *loop* run the user's
functions.

One lock guards the context, the channels and the tables. A thread that holds it takes protocol
steps, and pickles a small value for a fetch. It runs no user code and sends nothing: packets are
posted, and futures are completed, after the lock is given back. So control messages never wait for
user code, and no thread takes a transport's or a future's lock while it holds this one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from thespian.actors import ActorAddress

from ...printable import logger
from ...protocol.bulk import apart, together
from ...protocol.columns import MANY
from ...protocol.context import Context
from ...protocol.effects import Confirmed, Effect, Run, Send
from ...protocol.errors import FarrefError, ProtocolError, SystemDownError, WouldBlockError
from ...protocol.ids import CallId, RRefId, WorkerId
from ...protocol.messages import Bulk, Cargo, Create, Descriptor, Fetch, Invoke, Message
from ...serialization.errors import Failure
from ...serialization.failures import details_of
from ...serialization.payload import Payload
from ..base import forks
from ..base.interrupts import undisturbed
from ..hosting import events
from ..recording.recorded import Recorded
from ..recording.tracing import EFFECTS, RARE, Tracer
from ..wire.codec import Malformed
from ..wire.messages import WorkerInfo
from ..wire.settings import Settings
from . import notices
from .ages import Ages
from .brief import Brief, Later
from .callbacks import Callbacks
from .discards import Discards
from .duties import in_section, under_lock
from .hooks import EndpointHooks
from .intake import NOTED
from .links import Outgoing
from .notices import What
from .peers import Peers
from .pool import Pool
from .port import Port
from .sites import Sites
from .threads import Threads

Handler = Callable[[Any, Later], None]
"""Carries out one kind of effect, now or later."""

log = logger(__name__)

CHORES = 4
"""Threads for work that no function may hold up: copying values, and letting go of them."""
_ON_OBJECTS = (Fetch, Invoke)


def runs_loop() -> bool:
    """Whether an asyncio loop runs in this thread."""
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return running is not None and running() is not None


class Internal:
    """A part of an endpoint. A search of the user's values does not look into it."""

    __slots__ = ()


class Outlet(Protocol):
    """The part that sends (`Delivery`)."""

    def send(self, to: WorkerId, message: Message, now: float | None = None) -> Outgoing:
        """Take *message* for *to*. Under the lock.

        With the time *now* it is the only message of its step. Then this returns its packet, if
        nothing else can leave.
        """

    def packets(self, *, gather: bool = False) -> Outgoing:
        """Everything that can leave now. Under the lock."""

    def post(self, packets: Outgoing) -> None:
        """Send *packets*, without the lock."""

    def note(self, sender: WorkerId, message: Message, payload: Payload) -> None:
        """Count the *payload* of a message that came. Under the lock."""

    def import_functions(self, sender: WorkerId, message: Message) -> Message:
        """*message*, which came with functions, with their definitions. Under the lock."""


class Core(Internal):
    """The state that the parts of one endpoint share."""

    debugged: Mapping[tuple[WorkerId, int], str] = MappingProxyType({})
    """The threads of the system that are in the debugger, as far as this endpoint knows: each with
    the place of its breakpoint. While there is one, no request ends by its timeout."""
    hooks: EndpointHooks | None = None

    def __init__(self, me: WorkerId, port: Port, settings: Settings, *, threads: int) -> None:
        self.me = me
        self.port = port
        self.settings = settings
        self.address: ActorAddress | None = None
        self.lock = threading.RLock()
        self.context = Context(me, settings.sharing)
        self.peers = Peers()
        self.threads = Threads(self.wake)
        self.pool = Pool(threads, f"farref {me}", self.threads)
        """Runs the functions that others call."""
        self.chores = Pool(CHORES, f"farref chores {me}", self.threads)
        """Copies values and lets go of them, however busy the pool is."""
        self.brief = Brief()
        """Does brief jobs between two messages."""
        self.discards = Discards(self.wake, self.step)
        self.ages = Ages()
        """How old the forks and calls are that this endpoint named."""
        self.sites = Sites()
        self.sites.wanted = settings.sites
        self.tracer: Tracer | None = None
        self.handlers: dict[type[Effect], Handler | None] = {Send: self._send, Confirmed: None}
        """The handler of each kind of effect; the parts add theirs. None: the effect needs no
        work."""
        self.observers: dict[type[Message], Callable[[Any], None]] = {}
        """Told of each message of a kind, after it has taken effect, unless it runs at once. Under
        the lock."""
        self.takers: dict[type, Callable[[Any], object]] = {}
        """The taker of each kind of incoming message; the parts add theirs. Called in the mailbox
        thread."""
        self.outlet: Outlet
        self.front: Any
        """The `Front` of this endpoint, for the functions of the program that run in it."""
        self.handles: Callable[[list[RRefId]], list[Any]]
        """Makes the handles (`RRef`) of objects that were counted in the same step."""
        self.on_deaths: list[Callable[[tuple[WorkerId, ...]], None]] = []
        """Told of endpoints that died. Called in the mailbox thread."""
        self.soon: deque[Callable[[], object]] = deque()
        """What finalizers leave to a thread, as they may take no lock; see `Endpoint.drain`."""
        self.callbacks = Callbacks(self.pool, str(me))
        self.refused = 0
        """Malformed or foreign messages refused so far."""
        self.loop_thread: int | None = None  # 0: there is a loop, which has not begun
        self.actor: object = None
        """The actor that has this endpoint, if an actor has it."""
        self.closed = False
        self.closing: list[Callable[[], None]] = []
        """Each is called once when the endpoint closes, in any thread; it must not wait."""
        self.ended: FarrefError | None = None
        """After it has closed: the reason, as an error to copy and raise."""
        self.pid = forks.pid
        self.woken = False
        """The mailbox thread is to call `Endpoint.drain`, and has not begun."""
        self._self_sent: deque[Message] = deque()

    # ---- recording; see `tracing`

    @under_lock
    def record(self) -> Tracer:
        """The tracer of this endpoint's steps; begins to record if need be."""
        if self.tracer is None:
            self.tracer = Tracer(self.me, gathers=True)
            self.context = Recorded(self.context, self.tracer)
        return self.tracer

    @under_lock
    def record_no_more(self) -> None:
        if self.tracer is not None and isinstance(self.context, Recorded):
            self.tracer.close()
            self.context, self.tracer = self.context.plain, None

    # ---- steps: take the lock, run a machine, then send its messages

    def step(self, move: Callable[[], list[Effect]], *, gather: bool = True) -> None:
        """Make one protocol move and carry out its effects; nothing after the endpoint has closed.

        With *gather* the messages may leave a moment later: see `Delivery.packets`.

        An error of *move* is raised after all other work is done.
        """
        with undisturbed:
            self.step_within(move, gather=gather)

    @in_section
    def step_within(
        self, move: Callable[..., list[Effect]], *arguments: Any, gather: bool = True
    ) -> None:
        """`step`, within a section of the caller's: see `base.interrupts`."""
        if os.getpid() != self.pid:
            self.check_process()
        if self.closed:
            return
        later: Later = []
        packets: Outgoing = []
        try:
            with self.lock:
                now = self.context.state.now = time.monotonic()
                if now >= self.ages.due:
                    self.ages.mark(self.context.state, now)
                try:
                    if self.discards.ended:
                        self.discards.sweep(self.context, self.carry_out, later)
                    effects = move(*arguments)
                    alone = effects[0] if len(effects) == 1 else None
                    if type(alone) is Send and alone.to != self.me:  # nearly always
                        packets = self.outlet.send(alone.to, alone.message, now)
                    elif effects:
                        self.carry_out(effects, later)
                finally:
                    packets = packets or self.outlet.packets(gather=gather)
        finally:
            if packets:
                self.outlet.post(packets)
            if later:
                self.conclude(later)

    def conclude(self, later: Later) -> None:
        """Complete futures, after the lock is given back. One failure stops no other."""
        for each in later:
            try:
                each()
            except Exception as error:
                self._failed("handing something over", error)

    @under_lock
    def carry_out(self, effects: list[Effect], later: Later, *, noted: bool = False) -> None:
        """Carry out *effects*, now or *later*, and those of messages to this endpoint itself.

        No user code runs, nothing is sent and no future is completed: an effect changes tables,
        gives work to a pool, or is put off.

        *noted*: the tracer has these effects already, except the `RARE` ones.
        """
        if len(effects) >= MANY and self.tracer is None:
            effects = together(effects, self.me)
        for effect in effects:
            kind = type(effect)
            if isinstance(effect, Send) and effect.to != self.me:
                self.outlet.send(effect.to, effect.message)
                continue
            if self.tracer is not None and kind in (RARE if noted else EFFECTS):
                self.tracer.effect(effect)
            handler = self.handlers[kind]
            if handler is not None:
                handler(effect, later)
        while self._self_sent:
            self.receive(self.me, self._self_sent.popleft(), later)

    def _send(self, effect: Send, _: Later) -> None:
        self._self_sent.append(effect.message)
        self.left(effect.to, effect.message, None)

    @under_lock
    def left(self, to: WorkerId, message: Message, number: int | None) -> None:
        """*message*, the *number*-th to *to*, is to leave with the next packet."""
        if self.tracer:
            relays = self._relayed(message) if isinstance(message, _ON_OBJECTS) else None
            self.tracer.sent(to, message, number, relays)

    def _relayed(self, message: Fetch | Invoke) -> CallId | None:
        """The request on an alias that *message* passes on."""
        waiting = self.context.waiting.get(message.call)
        return waiting.relay.request.call if waiting is not None and waiting.relay else None

    @under_lock
    def receive(
        self, sender: WorkerId, message: Message, later: Later, number: int | None = None
    ) -> None:
        """Let *message*, number *number* of *sender*, take effect, or refuse it."""
        kind = type(message)
        try:
            payload: Any = getattr(getattr(message, "cargo", None), "payload", None)
            if type(payload) is Payload or isinstance(payload, Failure):
                if payload.functions and sender != self.me:  # first: a refused message counts, too
                    message = self.outlet.import_functions(sender, message)
                    payload = message.cargo.payload  # type: ignore[union-attr]  # it had one
                if payload.peers:
                    self.learn(*payload.peers)
                if type(payload) is Payload and (payload.buffers or len(payload.data) >= NOTED):
                    payload.take()  # it is opened already, or will be refused
                    self.outlet.note(sender, message, payload)
            elif isinstance(message, Malformed):
                raise ProtocolError(f"the message is malformed: {message.why}")  # noqa: TRY301 - handled below
            if self.sites.wanted and isinstance(message, Create):
                self.note_site(message.rref, message.cargo)
            effects = self.context.take(sender, message)
            observer = self.observers.get(kind)
            if observer is not None and not (effects and type(effects[-1]) is Run):
                observer(message)
            if self.tracer is not None:
                self.tracer.received(sender, message, number, effects)
        except Exception as error:  # malformed in any way: the next messages take effect
            self.refuse(f"{kind.__name__} of {sender}", error, sender)
            return
        try:
            self.carry_out(effects, later, noted=True)
        except Exception as error:  # for example no thread to be had: the next messages take effect
            self._failed(f"{kind.__name__} of {sender}", error)

    @under_lock
    def receive_all(self, sender: WorkerId, bulk: Bulk, later: Later, number: int) -> int:
        """`receive` the messages in *bulk*, in one go. Returns their number."""
        try:
            messages = apart(bulk)
        except ProtocolError as error:
            self.refuse(f"Bulk of {sender}", error, sender)
            return 1
        if self.tracer is not None:
            for each in messages:
                self.receive(sender, each, later, number)
            return len(messages)
        effects, errors = self.context.take_all(sender, messages)
        for wrong in errors:
            self.refuse(f"{bulk.kind} of {sender}", wrong, sender)
        observer = self.observers.get(type(messages[0]))
        if observer is not None:
            for each in messages:
                observer(each)
        self.carry_out(effects, later, noted=True)
        return len(messages)

    @under_lock
    def note_site(self, rref: RRefId, cargo: Cargo) -> None:
        """Note where *rref* was created, if the payload of *cargo* has it."""
        origin = getattr(cargo.payload, "origin", None)
        if origin is not None and origin.site is not None:
            self.sites.note(rref, origin.site, self.context.owners, self.context.users)

    def refuse(self, what: str, error: Exception, sender: WorkerId | str = "") -> None:
        """Count a malformed message or packet, and log *error*. *what* describes it."""
        self.refused += 1
        events.refused(log, self.me, what, error, system=self.settings.system, sender=sender)

    def _failed(self, on: str, error: BaseException) -> None:
        log.error("%s failed on %s:\n%s", self.me, on, details_of(error))

    def release(self, descriptors: tuple[Descriptor, ...]) -> None:
        """End the hold of a message on its references, as it was handled."""
        if descriptors and not self.closed:
            self.step(lambda: self.context.release(descriptors))

    def wake(self) -> None:
        """Have the mailbox thread call `Endpoint.drain`, unless it is about to. Takes no lock.

        A signal may interrupt it half way in a finalizer. Then the next `tick` does that work.
        """
        if not self.woken:
            self.woken = True
            self.port.wake()

    def do_soon(self) -> None:
        """Do what finalizers have left. Code of the user's may run."""
        while self.soon:
            self.soon.popleft()()

    # ---- the addresses of endpoints

    @under_lock
    def learn(self, *infos: WorkerInfo) -> None:
        """Learn the addresses in *infos*, which another endpoint gave, but not of the dead."""
        for info in infos:
            if info.id not in self.peers.resolved and info.id not in self.context.dead:
                self.peers.learn(info.id, info.address)

    def address_of(self, worker: WorkerId) -> ActorAddress | None:
        """Return the address of *worker*, maybe this endpoint; None if nobody introduced it."""
        return self.address if worker == self.me else self.peers.addresses.get(worker)

    def owner(self, rref: RRefId) -> WorkerInfo:
        with self.lock:
            owner = self.context.owner_of(rref)
            address = self.address_of(owner)
        if address is None:
            raise ProtocolError(f"{self.me} has no address of {owner}, the owner of {rref}")
        return WorkerInfo(owner, address)

    def owner_id(self, rref: RRefId) -> WorkerId:
        with self.lock:
            return self.context.owner_of(rref)

    def is_owner(self, rref: RRefId) -> bool:
        with self.lock:
            return self.context.whereabouts(rref) in self.context.owners

    def canonical(self, rref: RRefId) -> RRefId | None:
        """The object behind *rref*, maybe itself; None while that is not known here."""
        with self.lock:
            return self.context.names.canonical(rref)

    def trail(self, rref: RRefId) -> str:
        """The ids from an alias to the object with the value as text; empty for no alias."""
        with self.lock:
            path = self.context.names.path(rref)
        return " -> ".join(map(str, (rref, *path))) if path else ""

    def is_confirmed(self, rref: RRefId, *, lent: bool = False) -> bool:
        """Whether the owner counts this endpoint; with *lent* also whether a lender of it does."""
        with self.lock:
            user = self.context.users.get(self.context.whereabouts(rref))
            return user is None or user.confirmed or (lent and bool(user.loans))

    # ---- whether a user's thread may go on

    def in_loop(self) -> bool:
        """Whether the running thread is the one that runs this endpoint's handlers."""
        return self.loop_thread == threading.get_ident()

    def check_may_block(self, what: What, instead: str = "`await`") -> None:
        """Raise `WouldBlockError` where a wait for *what* would stop this endpoint's handlers.

        Callers ask before they send anything, so the result does not depend on timing. On another
        asyncio loop, a program's own, the wait only gets a `RuntimeWarning`, once for each line.
        """
        if self.loop_thread is not None and self.in_loop():
            raise WouldBlockError(
                f"waiting for {notices.in_words(what)} here would stop {self.me}, which runs one "
                f"handler at a time; write {instead} instead, in an `async def`"
            )
        if runs_loop():
            notices.blocks_loop(notices.in_words(what), instead)

    def check_no_step(self) -> None:
        """Raise `WouldBlockError` in code that has interrupted this thread in a step."""
        if self.lock._is_owned() and self.port.runs_by_itself:  # type: ignore[attr-defined]  # of any `RLock`
            raise WouldBlockError(
                "Python runs this code, a finalizer for example, in the midst of a step of "
                f"{self.me}, which takes no answer before that ends: a wait here would not end. "
                "If it has sent a request, that has left; let another thread wait for the answer"
            )

    def check_process(self) -> None:
        """Raise `SystemDownError` in a forked child, where this endpoint is inert."""
        if os.getpid() != self.pid:
            raise SystemDownError(
                f"this process was forked from that of {self.me}, and is not an endpoint itself; "
                "start the system after the fork, or attach to it by name"
            )

    def check_open(self) -> None:
        """Raise the reason why this endpoint has ended, if it has."""
        if forks.pid != self.pid:
            self.check_process()
        if self.closed:
            ended = self.ended or SystemDownError(f"{self.me} has ended; start a new system")
            raise type(ended)(str(ended))  # a new one: the stored one would collect frames

"""The mailbox of a `RefActor`: Thespian's thread on one side, the user's code on the other.

Thespian calls the mailbox with every message that reaches the actor, in Thespian's thread. That
thread does the protocol's work at once, and passes the user's messages on, in order of arrival, to
the actor's `Loop`. There `Handlers` run one at a time, and interleave only where an `async` one
awaits. So control messages never wait for a handler, however long it takes. Everything that the
actor sends goes through its `ActorPort`.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from multiprocessing import current_process
from multiprocessing.util import Finalize
from random import SystemRandom
from typing import Any

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystemMessage,
    ChildActorExited,
    DeadEnvelope,
    PoisonMessage,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)

from ...printable import logger
from ...protocol.errors import FarrefError, NotAnEndpointError, WorkerDiedError
from ...protocol.ids import WorkerId
from ...serialization.failures import details_of
from ..base import farewell, signals, titles
from ..base.children import forget_unused
from ..base.framing import Raw
from ..cluster.registrar import REGISTRAR, Registrar
from ..core.current import enter_program
from ..core.notices import flush as flush_notices
from ..core.notices import notice
from ..hosting import bases, outputs, processes
from ..hosting.children import Children
from ..hosting.classes import class_of, make_findable
from ..inspect import breakpointhook
from ..serving.loop import Loop
from ..telemetry import switch as telemetry
from ..wire import messages as wire
from ..wire.settings import THREADS, Settings
from . import surroundings
from .actor_port import ActorPort
from .endpoint import Endpoint
from .handling import Handlers
from .ordinary import refuse_references
from .ports import Alarm

log = logger(__name__)

SWITCH_INTERVAL = 5e-5
"""Seconds after which a computing thread must give the mailbox the interpreter.

Python's default is 5 ms. A share takes several hops, and at each hop several busy threads may come
first: together they take tenths of a second. A loop of system calls is worse. Each call lets go of
the interpreter, and the loop nearly always takes it back before the mailbox gets it. Only a thread
that has waited for a whole interval is sure to get in, and each round of the loop begins the
interval anew. So the mailbox may wait for seconds, unless the interval is shorter than one round.
The price: computing threads lose up to a tenth of their time, and only where there are several.
"""
LAST_HANDLERS = 8.0
"""Seconds that an actor has, after its exit request, for the handlers of earlier messages.

Thespian waits 10 seconds for an actor's exit.
"""
LAST_WORDS = 1.0
"""Seconds that functions have to end after the actor's end has failed their waits."""


_OURS = {wire.__name__, Raw.__module__}
"""The modules of the messages between farref's own actors."""


class Mailbox:
    """One actor, as Thespian calls it: it becomes an endpoint, works, and ends."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self.endpoint: Endpoint | None = None
        self.loop = Loop()
        self.handlers = Handlers(actor, self.loop, self.send)
        self.port = ActorPort(actor, self.loop)
        self._children = Children(actor)
        self._stash: list[tuple[Any, ActorAddress]] = []
        """Messages that came before the registrar told this actor the system's settings."""
        self._joined = False
        self._registrar: ActorAddress | None = None
        """The registrar, once this actor has introduced itself there. Only for an actor whose
        creator is not an endpoint."""
        self._nobody = False
        """Whether it ends before the registrar has given it an identity."""
        self._alarm = Alarm(self.port.nudge_after)

    # ---- Thespian's thread

    def receive(self, message: Any, sender: ActorAddress) -> ThespianWatch | None:
        """Take one Thespian message. Raises nothing, or the framework would repeat the message."""
        try:
            if self.port.enter():
                # Objects inherited by a forked process are not ours to collect, and each
                # collection would copy every page of them.
                gc.freeze()
                sys.setswitchinterval(SWITCH_INTERVAL)
                outputs.adopt()
                if self.port.send_raw is None:  # our own base has done it
                    signals.die_of_faults()
                    forget_unused(self._actor._myRef)
                    farewell.begin()
            self._receive(message, sender)
            self.port.do_left()
            if self.endpoint is not None:
                self._alarm.set(self.endpoint.pause)
        except Exception as error:
            name, text = type(message).__name__, details_of(error)
            log.error("%s failed on %s:\n%s", self._name(), name, text)
        return self.port.watch()

    def drain(self) -> None:
        """Do the work that other threads left. Raises nothing."""
        self.receive(wire.Nudge(), self._actor.myAddress)

    def _receive(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case wire.Welcome():
                wire.check_wire(message)
                self._welcome(message)
                return
            case wire.Joined():
                self._take_joined(message)
                return
            case WatchMessage():
                self.port.silence()
            case wire.Nudge():
                pass
            case WakeupMessage(payload=wire.Nudge()):
                self._alarm.rang()
            case ActorExitRequest() if self.endpoint is None:
                self._end_as_nobody()
            case DeadEnvelope(deadMessage=dead) if type(dead).__module__ in _OURS:
                return  # it was no user's
            case _ if self.endpoint is None:
                self._stash.append((message, sender))
                if not isinstance(message, wire.Envelope | Raw):  # they need the welcome's id
                    self._introduce_myself()
        endpoint = self.endpoint
        if endpoint is None:
            return
        match message:
            case Raw() if self._joined:
                endpoint.take_packet(message.data, sender)
            case wire.Envelope() | wire.Watch() if not self._joined:
                self._stash.append((message, sender))  # nothing is recorded before that
            case _ if isinstance(message, wire.TO_ENDPOINTS):
                endpoint.take(message)
            case WatchMessage() | wire.Nudge():
                endpoint.drain()
            case WakeupMessage(payload=wire.Nudge()):
                endpoint.tick()
            case ActorExitRequest():
                self._unstash()  # the framework ends the actor after this, joined or not
                self._exit(message, sender)
            case _ if not self._joined:
                self._stash.append((message, sender))
            case _:
                if isinstance(message, ChildActorExited):
                    cause = self._children.cause(message.childAddress)
                    endpoint.registrar_client.exited(message.childAddress, cause)
                self.handlers.queue(message, sender)

    # ---- becoming an endpoint

    def _welcome(self, message: wire.Welcome) -> None:
        if self.endpoint is not None or self._registrar is not None:
            return  # the actor introduced itself before the welcome came
        me, registrar = message.me, message.registrar
        if message.surroundings is not None:
            try:
                surroundings.take_over(message.surroundings)
            except OSError as error:
                gone = wire.Exited(self._actor.myAddress, me, f"it cannot run there: {error}")
                Actor.send(self._actor, registrar, gone)
                Actor.send(self._actor, self._actor.myAddress, ActorExitRequest())
                return
        self._become(me, registrar, message.settings, message.threads)
        self._join(me, registrar)

    def _become(
        self, me: WorkerId, registrar: ActorAddress, settings: Settings, threads: int | None
    ) -> None:
        hand = self.handlers.queue_cargo
        endpoint = Endpoint(
            me, self.port, settings, registrar, threads=threads or THREADS, hand=hand
        )
        telemetry.try_to_prepare(settings.telemetry, str(me))
        endpoint.core.address = self._actor.myAddress
        endpoint.core.actor = self._actor
        if self.port.runs_by_itself:
            titles.name_process(str(me), settings.system)
            current_process().name = str(me)  # log records have it
            enter_program(endpoint.core)  # threads that users start find it
            breakpointhook.install(endpoint.core, endpoint.debugging)
            # When the actor ends, functions that wait get an error, and some time to end. A waiting
            # function may lead the loop, and so handle the exit itself: it cannot wait for its own
            # end. So Python waits for the functions, in its main thread, when the process ends.
            Finalize(None, endpoint.core.pool.finish, (LAST_WORDS,), exitpriority=0)
            Finalize(None, endpoint.core.callbacks.finish, exitpriority=0)
            Finalize(None, telemetry.flush, exitpriority=-1)
            farewell.held.append(self._let_go)
        self.endpoint = self.handlers.endpoint = endpoint
        endpoint.server.spawn = self.loop.spawn
        self.loop.start(endpoint.core)

    def _join(self, me: WorkerId, registrar: ActorAddress) -> None:
        place = bases.capabilities_of(self._actor).get(bases.HOST, "")
        beats = self.port.runs_by_itself
        join = wire.EndpointJoin(me, os.getpid(), processes.host(), beats=beats, place=place)
        Actor.send(self._actor, registrar, join)

    def _introduce_myself(self) -> None:
        """Find the registrar by its global name, for an actor whose creator is not an endpoint.

        The registrar's answer gives this actor its identity.
        """
        if self._registrar is None:
            self._registrar = bases.of_the_system(self._actor, Registrar, REGISTRAR)
            self._join(WorkerId(self._nickname(), 0), self._registrar)

    def _nickname(self) -> str:
        return f"{type(self._actor).__name__}-{SystemRandom().randrange(10**6):06}"

    def _take_joined(self, message: wire.Joined) -> None:
        if self.endpoint is None and self._registrar is not None:
            wire.check_wire(message)
            self._become(message.me, self._registrar, message.settings, None)
        if self.endpoint is not None and not self._joined and self.endpoint.take(message):
            self._unstash()

    def _end_as_nobody(self) -> None:
        """End under a random number, as the registrar has not given this actor an identity."""
        registrar = self._registrar or bases.of_the_system(self._actor, Registrar, REGISTRAR)
        me = WorkerId(self._nickname(), SystemRandom().getrandbits(63))
        self._nobody = True
        self._become(me, registrar, Settings(), None)

    def _unstash(self) -> None:
        """Handle the messages that came before the registrar's answer, and then all others."""
        if self._joined:
            return
        self._joined = True
        if self.endpoint is not None:
            self.port.serve(self.endpoint, self._alarm, self.drain)
        stash, self._stash = self._stash, []
        for early, sender in stash:
            self._receive(early, sender)

    # ---- the end

    def _exit(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        self.loop.release(drop=True)  # it was not constructed
        # An actor that waits for the end of its children gets another request when the system ends.
        if self.loop.open and (self.loop.begun or self._actor._has_handlers):
            done = self.handlers.queue_last(message, sender)
            end = time.monotonic() + LAST_HANDLERS
            while not done.wait(0.01) and time.monotonic() < end:
                self._do_left()
        self._do_left()
        if self.endpoint is not None:
            self.endpoint.registrar_client.leave()  # its parent, which would report it, may be gone
            if self._nobody:
                # In case the registrar has already let it join.
                self.endpoint.registrar_client.leave(WorkerId(self._nickname(), 0))
        self.close()

    def _do_left(self) -> None:
        """Do what the last handlers have left: send their messages, and create their actors."""
        self.port.do_left()
        if self.endpoint is not None:
            self.endpoint.drain()

    def close(self) -> None:
        """End the endpoint and its loop; open waits fail. Safe to call again."""
        if self.endpoint is not None:
            flush_notices()
            self.endpoint.close(f"{self._name()} exits")
        self.loop.stop()

    def _let_go(self) -> None:
        """Let go of the actor, and of the objects that live here, as the process ends."""
        for part in (self, self.handlers, self.port, self._children):
            del part._actor
        if self.endpoint is not None:
            self.endpoint.core.actor = None
            self.endpoint.objects.end()

    # ---- the actor's own methods, in any thread

    def send(self, address: ActorAddress, message: Any) -> None:
        """Send to an endpoint as a reference message, to a plain actor as an ordinary one."""
        endpoint = self._running()
        if isinstance(message, ActorSystemMessage) and not isinstance(message, PoisonMessage):
            self.port.post(address, message)
            return
        tag = ("answer", address.ask) if isinstance(address, wire.ReplyAddress) else None
        try:
            info = endpoint.registrar_client.at(address)
            if info is not None:
                endpoint.calls.tell(info, message, tag)
                return
        except WorkerDiedError:
            # As in Thespian, `send` does not raise: its transport makes it a dead letter.
            if tag is not None:
                return
            try:
                refuse_references(message, address)
            except NotAnEndpointError:
                why = "which died, is lost: dead letters hold no references"
                notice(log, logging.WARNING, f"a message to {address}, {why}")
                return
        refuse_references(message, address)
        self.port.post(address, message)

    def create(self, actor_class: Any, *args: Any, **kwargs: Any) -> ActorAddress:
        """Create a child. A `RefActor` gets its identity at once, so it can be sent to at once.

        Waits for the registrar, which gives the child its number.
        """
        endpoint = self._running()
        if isinstance(actor_class, type):
            make_findable(actor_class)

        def make() -> ActorAddress:
            made: ActorAddress = Actor.createActor(self._actor, actor_class, *args, **kwargs)
            self._children.made(made)
            return made

        global_name = kwargs.get("globalName") or (args[1] if len(args) > 1 else None)
        kind = class_of(actor_class)
        me = None
        if not global_name and kind is not None and hasattr(kind, "_is_ref_actor"):
            suffix = SystemRandom().randrange(10**6)
            me = endpoint.registrar_client.allocate(
                f"{endpoint.core.me}/{kind.__name__}-{suffix:06}"
            )
        try:
            address: ActorAddress = self.port.run(make)
        except BaseException:
            if me is not None:
                endpoint.registrar_client.leave(me)
            raise
        if me is not None:
            endpoint.core.peers.learn(me, address)
            registrar, settings = endpoint.registrar_client.registrar, endpoint.core.settings
            self.port.post(address, wire.Welcome(me, registrar, settings))
        return address

    def _running(self) -> Endpoint:
        if self.endpoint is None:
            raise FarrefError(
                f"{type(self._actor).__name__} is no endpoint yet, as `createActor` runs its "
                "__init__: use references and messages in its handlers, or create it with "
                "`farref.create`"
            )
        return self.endpoint

    def _name(self) -> str:
        return str(self.endpoint.core.me) if self.endpoint else type(self._actor).__name__

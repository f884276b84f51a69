"""The mailbox of a `RefActor`: Thespian's thread on one side, the user's code on the other.

Thespian calls it with every message that reaches the actor. Protocol work is done at once,
in that thread. What is the user's goes, in order of arrival, to the actor's *loop*: a real
asyncio loop in a thread of its own, where handlers run one at a time and interleave only
where an `async` one awaits. So control never waits for a handler, however long it takes.

Only Thespian's thread may touch a stock transport. Other threads leave what they want sent
or done in ``_left`` and ring the bell, a pipe that Thespian watches; on the in-process base,
which has neither threads nor watches, they put a `Nudge` into its queue.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import importlib
import inspect
import logging
import os
import secrets
import sys
import threading
import time
import traceback
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystemMessage,
    ChildActorExited,
    PoisonMessage,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)

from ..protocol.delivery import ACK_DELAY
from ..protocol.errors import FarrefError, NotAnEndpointError
from ..protocol.ids import WorkerId
from ..serialization.contains import references_in
from ..serialization.failures import Failure
from ..serialization.pickling import dumps
from . import bases, ports, processes, simple
from .current import enter_program, running_in
from .endpoint import Endpoint
from .making import make_findable
from .ports import Bell, SelfRunning
from .registrar import REGISTRAR, Registrar
from .registry import Registry
from .settings import Settings
from .wire import (
    Died,
    Down,
    Envelope,
    Found,
    Heard,
    Join,
    Joined,
    Meddle,
    Meddled,
    Nudge,
    ReplyAddress,
    Spawned,
    Welcome,
    check_wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.messages import Cargo, Descriptor
    from ..serialization.pickling import Reference
    from .ref_actor import RefActor

log = logging.getLogger("farref")

THREADS = 16
"""Functions that one endpoint runs at once unless it says otherwise."""
SWITCH_INTERVAL = 5e-5
"""Seconds for which computing threads of the user's may keep the interpreter from the mailbox.

Python's own 5 ms, for each hop of a share and each busy thread, add up to tenths of a second.
Worse, a loop that lets go of the interpreter for a moment (any system call) and takes it back
before the interval is over wins that race nearly always, and the mailbox waits for seconds: only
a thread that has waited for a whole interval is let in for certain. So it is shorter than such
loops are. Computing threads pay up to a tenth, and only where there are several.
"""
LAST_WORDS = 2.0
"""Seconds for which an `async` handler of `ActorExitRequest` may await."""
LAST_HANDLERS = 8.0
"""Seconds that an actor has for the handlers of what came before its exit request.

Thespian gives up waiting for an actor's exit after 10.
"""


class Mailbox(SelfRunning):
    """The `Port` of one actor's endpoint, and the driver of its handlers."""

    def __init__(self, actor: RefActor) -> None:
        self._actor = actor
        self.endpoint: Endpoint | None = None
        self._bell: Bell | None = None
        self._direct = False
        """Any thread may send through the transport."""
        self._thread: int | None = None
        self._left: deque[Callable[[], object]] = deque()
        self._stash: list[tuple[Any, ActorAddress]] = []
        """What came before the registrar said how this system works."""
        self._joined = False
        self._ticks_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[Callable[[], Any]] = deque()
        self._starting = False
        self._tasks: set[asyncio.Task[Any]] = set()
        """Handlers that await; the loop itself holds tasks only weakly."""

    # ---- Thespian's thread

    def receive(self, message: Any, sender: ActorAddress) -> ThespianWatch | None:
        """Take one Thespian message. Nothing escapes, or the framework would repeat it."""
        try:
            self._thread = threading.get_ident()
            if self._bell is None and not simple.hosts(self._actor):
                self._bell = Bell()
                self._direct = bases.is_thread_safe(self._actor._myRef.transport)
                # What a forked process inherited is not ours to collect, and collecting it
                # again and again would copy every page of it.
                gc.freeze()
                sys.setswitchinterval(SWITCH_INTERVAL)
            self._receive(message, sender)
            self._do_left()
            self._arm()
        except Exception:
            # As text: a log record that is kept would pin what is in the frames.
            text = traceback.format_exc()
            log.error("%s failed on %s:\n%s", self._name(), type(message).__name__, text)  # noqa: TRY400
        return ThespianWatch([self._bell.fileno()]) if self._bell else None

    def _receive(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case Welcome():
                check_wire(message)
                self._found(message.me, message.registrar, message.settings, message.threads)
                return
            case Joined() if self.endpoint is not None:
                self._settle_in(message)
                return
            case WatchMessage():
                if self._bell:
                    self._bell.silence()
            case Nudge():
                pass
            case WakeupMessage(payload=Nudge()):
                self._ticks_at = None
            case Envelope() if self.endpoint is None:
                self._stash.append((message, sender))  # sent to who the welcome says we are
            case _ if self.endpoint is None:
                self._introduce_myself()
        endpoint = self.endpoint
        if endpoint is None:
            return
        match message:
            case Envelope() if self._joined:
                endpoint.take(message)
            case Found() | Spawned() | Died() | Heard() | Down() | Meddled() | Meddle():
                endpoint.take(message)
            case WatchMessage() | Nudge():
                endpoint.turn()
            case WakeupMessage(payload=Nudge()):
                endpoint.tick()
            case ActorExitRequest():
                self._unstash()  # the framework ends the actor after this, joined or not
                self._exit(message, sender)
            case _ if not self._joined:
                self._stash.append((message, sender))
            case _:
                if isinstance(message, ChildActorExited):
                    endpoint.registry.exited(message.childAddress)
                self._queue(lambda: self._plain(message, sender))

    def _found(
        self, me: WorkerId, registrar: ActorAddress, settings: Settings, threads: int | None
    ) -> None:
        if self.endpoint is not None:
            return  # it introduced itself before the welcome came
        endpoint = Endpoint(me, self, settings, threads=threads or THREADS, hand=self._hand)
        endpoint.registry = Registry(endpoint, self, registrar)
        endpoint.address = self._actor.myAddress
        if self._bell is not None:
            enter_program(endpoint)  # in a process of its own: for threads that users start
        self.endpoint = endpoint
        self._start_loop(endpoint)
        place = bases.capabilities_of(self._actor).get(bases.HOST, "")
        host = processes.host()
        join = Join(me, os.getpid(), host, beats=self.runs_by_itself, place=place)
        Actor.send(self._actor, registrar, join)

    def _introduce_myself(self) -> None:
        """Created by an actor that knows nothing of us: find the registrar by its name."""
        registrar = bases.of_the_system(self._actor, Registrar, REGISTRAR)
        number = secrets.randbits(63)
        me = WorkerId(f"{type(self._actor).__name__}-{number % 10**6:06}", number)
        self._found(me, registrar, Settings(), None)

    def _settle_in(self, message: Joined) -> None:
        endpoint = self.endpoint
        if endpoint is not None and not self._joined and endpoint.take(message):
            self._unstash()

    def _unstash(self) -> None:
        """Handle what came before the registrar had answered."""
        self._joined = True
        stash, self._stash = self._stash, []
        for early, sender in stash:
            self._receive(early, sender)

    def _exit(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        done = threading.Event()

        async def last() -> None:
            try:
                handler = self._plain(message, sender)
                if handler is not None:
                    await asyncio.wait_for(handler, LAST_WORDS)
            finally:
                done.set()

        self._queue(last)
        end = time.monotonic() + LAST_HANDLERS
        while not done.wait(0.01) and time.monotonic() < end:
            self._do_left()  # what the handlers before it want sent, or created
        self._do_left()
        self.close()

    def close(self) -> None:
        """End the endpoint and its loop; what still waits fails. Safe to call again."""
        if self.endpoint is not None:
            self.endpoint.close(f"{self._name()} exits")
        loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # another thread was faster
                loop.call_soon_threadsafe(loop.stop)

    def _do_left(self) -> None:
        while self._left:
            self._left.popleft()()

    def _arm(self) -> None:
        """One wakeup for everything that is waited for; the framework's cannot be cancelled."""
        now = time.monotonic()
        if self._ticks_at is not None and self._ticks_at <= now + ACK_DELAY:
            return  # nothing can be due sooner than that
        pause = self.endpoint.pause() if self.endpoint is not None else None
        if pause is None:
            return
        due = now + max(pause, 0.005)
        if self._ticks_at is None or due < self._ticks_at - 0.01:
            self._ticks_at = due
            Actor.wakeupAfter(self._actor, timedelta(seconds=max(pause, 0.005)), Nudge())

    # ---- the port: any thread

    @property
    def runs_by_itself(self) -> bool:
        """See `Port.runs_by_itself`."""
        return self._bell is not None

    def post(self, address: ActorAddress, message: object) -> None:
        """See `Port.post`."""
        if self._bell is None:
            simple.send(self._actor, address, message)
        elif self._direct and isinstance(message, Envelope):
            bases.post_as(self._actor, address, message)
        elif not self._direct and not isinstance(message, Envelope):
            bases.check_plain(self._actor._myRef.transport, address, message)
            self._send(address, message)
        else:
            self._send(address, message)

    def _send(self, address: ActorAddress, message: object) -> None:
        if self._direct or threading.get_ident() == self._thread:
            Actor.send(self._actor, address, message)
        elif self._bell is not None:
            self._left.append(lambda: Actor.send(self._actor, address, message))
            self._bell.ring()

    def wake(self) -> None:
        """See `Port.wake`."""
        if self._bell is None:
            simple.send(self._actor, self._actor.myAddress, Nudge())
        else:
            self._bell.ring()

    def given_up(self) -> None:
        """See `Port.given_up`: an actor whom nobody believes any more ends."""
        Actor.send(self._actor, self._actor.myAddress, ActorExitRequest())

    def holds_back(self, address: ActorAddress) -> bool:
        """See `Port.holds_back`."""
        return self._direct and bases.holds_back(self._actor._myRef.transport, address)

    def largest(self) -> int:
        """See `Port.largest`."""
        return bases.largest(None if self._bell is None else self._actor._myRef.transport)

    def full(self) -> bool:
        """See `Port.full`."""
        return len(self._inbox) >= ports.MAX_INBOX

    def run(self, work: Callable[[], Any]) -> Any:
        """Run *work* in Thespian's thread and return what it returns."""
        if threading.get_ident() == self._thread and self._bell is not None:
            return work()
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def task() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._left.append(task)
        self.wake()
        return done.result(60)

    # ---- the loop: the user's handlers

    def _start_loop(self, endpoint: Endpoint) -> None:
        self._loop = endpoint.server.loop = asyncio.new_event_loop()
        threading.Thread(
            target=self._run_loop,
            args=(self._loop,),
            name=f"farref loop {endpoint.me}",
            daemon=True,
        ).start()

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        if self.endpoint is not None:
            self.endpoint.loop_thread = threading.get_ident()
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _queue(self, work: Callable[[], Any]) -> None:
        """Run *work* on the loop after everything queued before; it may return a coroutine."""
        self._inbox.append(work)
        loop = self._loop  # another thread may close it at any time
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if not self._starting and self._inbox:
            self._starting = True
            self._next()

    def _next(self) -> None:
        """Start one queued handler; an `async` one takes its first step before the next starts."""
        loop = self._loop  # the handler may take longer than the mailbox, and that ends it
        if loop is None:
            return
        try:
            work = self._inbox.popleft()
            if len(self._inbox) == ports.MAX_INBOX // 2 and self.endpoint is not None:
                self.endpoint.wake()  # those who wait may send again
            result = work()
            if inspect.iscoroutine(result):
                task = loop.create_task(result)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:  # whatever happened to one, the next gets its turn
            self._starting = bool(self._inbox)
            if self._starting:
                loop.call_soon(self._next)

    def _hand(self, cargo: Cargo, address: ActorAddress) -> None:
        tag = getattr(cargo.payload, "tag", None)
        sender = ReplyAddress(address, tag[1]) if isinstance(tag, tuple) else address
        self._queue(lambda: self._deliver(cargo, sender))

    def _deliver(self, cargo: Cargo, sender: ActorAddress) -> Any:
        """Unpickle and handle one message of another endpoint's."""
        endpoint = self._running()
        try:
            message = endpoint.packer.open(cargo)
        except BaseException as error:
            endpoint.release(cargo.descriptors)
            self._report(None, sender, error)
            return None
        return self._handle(message, sender, cargo.descriptors)

    def _plain(self, message: Any, sender: ActorAddress) -> Any:
        """Handle an ordinary Thespian message."""
        return self._handle(message, sender, ())

    def _handle(
        self, message: Any, sender: ActorAddress, descriptors: tuple[Descriptor, ...]
    ) -> Any:
        endpoint = self._running()
        result = None
        try:
            with running_in(endpoint):
                # The class's method, not the instance's (which is this mailbox): a decorator
                # such as Thespian's `troupe` may have put its own in that place.
                result = type(self._actor).receiveMessage(self._actor, message, sender)
        except BaseException as error:  # `sys.exit()` in a handler must not end the loop
            self._report(message, sender, error)
        if inspect.iscoroutine(result):
            return self._finish(result, message, sender, descriptors)
        del message
        endpoint.release(descriptors)
        return None

    async def _finish(
        self,
        handler: Any,
        message: Any,
        sender: ActorAddress,
        descriptors: tuple[Descriptor, ...],
    ) -> None:
        endpoint = self._running()
        try:
            with running_in(endpoint):
                await handler
        except BaseException as error:  # a CancelledError too: nothing else tells the sender
            self._report(message, sender, error)
        del message
        endpoint.release(descriptors)

    def _report(self, message: Any, sender: ActorAddress, error: BaseException) -> None:
        """A handler raised: once, and its sender is told, as Thespian tells it."""
        endpoint = self._running()
        details = "".join(traceback.format_exception(error))
        # As text: a log record that is kept would pin the references among the arguments (G5).
        log.error("%s raised in a handler:\n%s", self._name(), details)
        try:
            with running_in(endpoint):
                if isinstance(sender, ReplyAddress):
                    what = f"the handler of {type(message).__name__}"
                    self.send(sender, Failure.of(error, endpoint.me.name, what))
                elif not isinstance(message, PoisonMessage | ActorSystemMessage):
                    self.send(sender, PoisonMessage(message, details))
        except Exception as second:
            log.warning("%s cannot report its error to %s: %s", self._name(), sender, str(second))

    # ---- what the actor's own methods do

    def send(self, address: ActorAddress, message: Any) -> None:
        """Send to an endpoint as a reference message, to a plain actor as Thespian does."""
        endpoint = self._running()
        if isinstance(message, ActorSystemMessage) and not isinstance(message, PoisonMessage):
            self.post(address, message)
            return
        info = endpoint.registry.at(address)
        if info is None:
            refuse_references(message, address)
            self.post(address, message)
            return
        tag = ("answer", address.ask) if isinstance(address, ReplyAddress) else None
        endpoint.calls.tell(info, message, tag)

    def create(self, actor_class: Any, *args: Any, **kwargs: Any) -> ActorAddress:
        """Create a child; a `RefActor` is told who it is, so that it can be sent to at once."""
        endpoint = self._running()
        if isinstance(actor_class, type):
            make_findable(actor_class)
        address = self.run(lambda: Actor.createActor(self._actor, actor_class, *args, **kwargs))
        global_name = kwargs.get("globalName") or (args[1] if len(args) > 1 else None)
        kind = _class_of(actor_class)
        if not global_name and kind is not None and hasattr(kind, "_is_ref_actor"):
            number = secrets.randbits(63)
            me = WorkerId(f"{endpoint.me}/{kind.__name__}-{number % 10**6:06}", number)
            endpoint.book.learn(me, address)
            self.post(address, Welcome(me, endpoint.registry.registrar, endpoint.settings))
        return address

    def _running(self) -> Endpoint:
        if self.endpoint is None:
            raise FarrefError(
                f"{type(self._actor).__name__} is no endpoint yet; references and messages work "
                "in its handlers, not in __init__"
            )
        return self.endpoint

    def _name(self) -> str:
        return str(self.endpoint.me) if self.endpoint else type(self._actor).__name__


class _NoReferences:
    """Hooks for a message to a plain actor."""

    def __init__(self, address: ActorAddress) -> None:
        self._address = address

    def fork(self, reference: Reference) -> Descriptor:
        raise NotAnEndpointError(
            f"{reference!r} cannot be sent to the plain Thespian actor at {self._address}, which "
            "cannot hold references; make it a RefActor, or send the value"
        )

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        pass

    def join(self, _descriptor: Descriptor) -> Reference:
        raise AssertionError("nothing is unpickled here")


def refuse_references(message: object, address: ActorAddress) -> None:
    """Raise `NotAnEndpointError` if *message*, for a plain actor, contains a reference."""
    hooks = _NoReferences(address)
    try:
        dumps(message, hooks, inert=ActorAddress)
    except NotAnEndpointError:
        raise
    except FarrefError:  # whether it can be pickled is the framework's business
        for reference in references_in(message, opaque=(Endpoint,)).references:
            hooks.fork(reference)


def _class_of(actor_class: Any) -> Any:
    if not isinstance(actor_class, str):
        return actor_class
    module, _, name = actor_class.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None

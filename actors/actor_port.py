"""The port of an actor's endpoint: how its threads reach Thespian's, and through it the others.

Only Thespian's thread may touch a stock transport. Other threads leave what they want sent
or done in ``_left`` and ring the bell, a pipe that Thespian watches; on the in-process base,
which has neither threads nor watches, they put a `Nudge` into its queue.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ThespianWatch,
    WakeupMessage,
)

from . import bases, simple
from .ports import Bell, SelfRunning
from .wire import Envelope, Nudge

if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop
    from .ref_actor import RefActor


class ActorPort(SelfRunning):
    """The `Port` of one actor."""

    def __init__(self, actor: RefActor, loop: Loop) -> None:
        self._actor = actor
        self._loop = loop
        self._bell: Bell | None = None
        """In an actor process; on the in-process base there is none."""
        self._direct = False
        """Any thread may send through the transport."""
        self._thread: int | None = None
        self._left: deque[Callable[[], object]] = deque()

    # ---- Thespian's thread

    def enter(self) -> bool:
        """Thespian's thread is here; whether it is for the first time, in an actor process."""
        self._thread = threading.get_ident()
        if self._bell is not None or simple.hosts(self._actor):
            return False
        self._bell = Bell()
        self._direct = bases.is_thread_safe(self._actor._myRef.transport)
        return True

    def watch(self) -> ThespianWatch | None:
        """What Thespian shall watch until it calls again."""
        return ThespianWatch([self._bell.fileno()]) if self._bell else None

    def silence(self) -> None:
        """The bell was heard."""
        if self._bell:
            self._bell.silence()

    def do_left(self) -> None:
        """Do what other threads left."""
        while self._left:
            self._left.popleft()()

    # ---- any thread

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

    def wake(self) -> None:
        """See `Port.wake`."""
        if self._bell is None:
            simple.send(self._actor, self._actor.myAddress, Nudge())
        else:
            self._bell.ring()

    def nudge_after(self, seconds: float) -> None:
        """Have a wakeup with a `Nudge` come in *seconds*. In Thespian's thread."""
        after = timedelta(seconds=seconds)
        if self._bell is None:
            simple.send_later(self._actor, seconds, WakeupMessage(after, Nudge()))
        else:
            Actor.wakeupAfter(self._actor, after, Nudge())

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
        return self._loop.full()

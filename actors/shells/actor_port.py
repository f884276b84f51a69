"""The port of an actor's endpoint: how its threads reach Thespian's thread, and the other actors.

Only Thespian's thread may touch a stock transport. The other threads put messages to send and work
to do into ``left`` and ring the bell, a pipe that Thespian watches. The in-process base has
neither threads nor watches: there they put a `Nudge` into its queue. Through our own base any
thread sends, and the thread that runs its loop is the mailbox thread.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorExitRequest, ThespianWatch, WakeupMessage

from ..base.bell import Bell
from ..base.framing import Raw
from ..base.interrupts import new_future
from ..base.transport import Transport
from ..calls.futures import Future, is_over
from ..hosting import bases, simple
from ..serving.loop import Loop
from ..wire.messages import Envelope, Nudge
from .endpoint import Endpoint
from .ports import Alarm, SelfRunning, check_not_receiving


class ActorPort(SelfRunning):
    def __init__(self, actor: Actor, loop: Loop) -> None:
        self._actor = actor
        self._loop = loop
        self._bell: Bell | None = None
        """In an actor process of a stock base."""
        self._own: Transport | None = None
        """In an actor process of our own."""
        self._thread: int | None = None
        self.left: deque[Callable[[], object]] = deque()
        """Work that other threads left."""

    # ---- the mailbox thread

    def enter(self) -> bool:
        """Note the mailbox thread. Returns true for the first message in an actor process."""
        self._thread = threading.get_ident()
        if self.runs_by_itself or simple.hosts(self._actor):
            return False
        self._own = bases.own(self._actor._myRef.transport)
        if self._own is None:
            self._bell = Bell()
        else:
            self.send_raw = self._own.send_raw
            self.connection_to = self._own.connection_to
        return True

    def serve(self, endpoint: Endpoint, alarm: Alarm, drain: Callable[[], object]) -> None:
        """On our own base, have *endpoint* run on its loop: see `Endpoint.run_on`."""
        if self._own is not None:
            endpoint.core.pool.on_end = self._own.loop.leadership.call_standby
            endpoint.run_on(self._own.loop, alarm, drain, guests=False)

    def watch(self) -> ThespianWatch | None:
        """Return the watch for Thespian. It is valid until the next call of the actor."""
        return ThespianWatch([self._bell.descriptor]) if self._bell else None

    def silence(self) -> None:
        if self._bell:
            self._bell.silence()

    def do_left(self) -> None:
        while self.left:
            self.left.popleft()()

    # ---- any thread

    @property
    def runs_by_itself(self) -> bool:
        return self._bell is not None or self._own is not None

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Wait, and receive meanwhile unless other threads need the loop."""
        if self._own is None:
            return super().wait(future, timeout)
        loop, end = self._own.loop, time.monotonic() + timeout
        lead = loop.leadership
        check_not_receiving(loop)
        lead.waiting.append(None)
        try:
            if isinstance(future, Future):
                future.leader = lead
                loop.lead_briefly(partial(is_over, future), timeout)
                if future.over:
                    return True
            else:  # it tells no leader that it is over
                lead.crowd()
            return super().wait(future, max(0.0, end - time.monotonic()))
        finally:
            lead.waiting.pop()

    def post(self, address: ActorAddress, message: object) -> None:
        if not self.runs_by_itself:
            simple.send(self._actor, address, message)
            return
        if self._own is not None and isinstance(message, Envelope | Raw):
            bases.post_as(self._actor, address, message)
            return
        if self._own is None and not isinstance(message, Envelope):
            bases.check_plain(self._actor._myRef.transport, address)
        if self._bell is None or threading.get_ident() == self._thread:
            Actor.send(self._actor, address, message)
        else:
            self.left.append(lambda: Actor.send(self._actor, address, message))
            self._bell.ring()

    def run(self, work: Callable[[], Any]) -> Any:
        """Run *work* in the mailbox thread and return its result."""
        if self._in_mailbox_thread():
            return work()
        done: concurrent.futures.Future[Any] = new_future()

        def task() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self.left.append(task)
        self.wake()
        return done.result(60)

    def _in_mailbox_thread(self) -> bool:
        if self._own is not None:
            return self._own.loop.is_leader()
        return self._bell is not None and threading.get_ident() == self._thread

    def wake(self) -> None:
        if self._own is not None:
            self._own.loop.nudge()
        elif self._bell is not None:
            self._bell.ring()
        else:
            simple.send(self._actor, self._actor.myAddress, Nudge())

    def nudge_after(self, seconds: float) -> None:
        """Arrange for a wakeup with a `Nudge` in *seconds*. In the mailbox thread."""
        after = timedelta(seconds=seconds)
        if self.runs_by_itself:
            Actor.wakeupAfter(self._actor, after, Nudge())
        else:
            simple.send_later(self._actor, seconds, WakeupMessage(after, Nudge()))

    def given_up(self) -> None:
        """End the actor, because the others count it as dead."""
        Actor.send(self._actor, self._actor.myAddress, ActorExitRequest())

    def holds_back(self, address: ActorAddress) -> bool:
        return self._own is not None and self._own.queued_bytes(address) > 0

    def largest(self) -> int:
        return bases.largest(self._actor._myRef.transport if self.runs_by_itself else None)

    def queued(self) -> int:
        return self._loop.queued

    def timers(self) -> int:
        return self._own.wakeups if self._own is not None else 0

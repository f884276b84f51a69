"""A request for whose answer one thread waits at once: a future without locks and callbacks.

Most requests are made by `rpc_sync` and `to_here`. While their thread leads the loop of our own
base, it receives the answer itself (`Leader`). A wait that needs more becomes a `Future`.
"""

from __future__ import annotations

import time
import weakref
from functools import partial
from typing import Any, Protocol

import msgspec

from ...protocol.ids import CallId, RRefId
from ...serialization.frozen import Frozen
from ...serialization.payload import Payload
from ...serialization.shared import used
from ..base.loop import RunLoop
from ..core import notices
from ..core.core import Core, Internal
from ..core.current import CurrentRun
from ..core.hooks import RequestHooks
from ..core.notices import What
from ..values.packing import opened
from .futures import Future, is_over
from .waits import Waits


class FutureMaker(Protocol):
    """Makes the futures of answers (`Calls`)."""

    def new_future(
        self, what: What, timeout: float | None, *, rref: RRefId | None = None
    ) -> Future[Any]:
        """A future of a request; *what* is the awaited thing in words."""

    def future_of(self, pending: Waiter) -> Future[Any]:
        """The future for the rest of the wait for *pending*."""


class Waiter(msgspec.Struct, eq=False):
    """The awaited answer. Filled under the endpoint's lock."""

    calls: FutureMaker
    leader: Leader
    run: CurrentRun | None
    """The request that the waiting thread runs, if it runs one."""
    awaited: What
    timeout: float
    """In seconds."""
    rref: RRefId | None = None
    """The object that the request is about."""
    asked: RequestHooks | None = None
    """The request, as the hooks have it."""
    fetches: bool = False
    """The request is for the value of this object."""
    asker: weakref.ref[Any] | None = None
    """The handle that may keep the value."""
    call: CallId | None = None
    """The request, as soon as it is made."""
    began: float = 0.0
    """When it was made; it ends `timeout` seconds later."""
    over: bool = False
    """The answer is here, or `future` has taken over the wait."""
    payload: Payload | None = None
    """The answer, pickled. The thread that leads takes it: this one, or one that leads for it while
    a signal handler waits. So nobody has to be woken."""
    future: Future[Any] | None = None
    """The future that it has become."""

    @property
    def what(self) -> str:
        return notices.in_words(self.awaited)

    def result_or_cancel(self) -> Any:
        """The value, or its error. Blocks. In the thread that has made the request."""
        payload = self.payload
        if payload is not None:
            if self.asked is not None:
                self.asked.over()
            return self._thawed(payload) if payload.frozen else opened(payload)
        try:
            return self.calls.future_of(self).result_or_cancel()
        finally:
            del self  # an error's traceback holds this frame

    def _thawed(self, payload: Payload) -> Any:
        """The frozen value in *payload*. The handle that has asked for it keeps it."""
        frozen = Frozen.arrived(payload, ())
        value = frozen.thaw()
        keeper = self.asker() if self.asker is not None else None
        if keeper is not None:
            keeper._frozen = frozen
        if payload.buffers:
            used(payload.buffers)
        return value

    def give_up(self, *, interrupt: bool = False) -> bool:
        """Nobody waits any more. Returns false if the answer is there."""
        if self.payload is not None or self.call is None:
            return False
        return self.calls.future_of(self).give_up(interrupt=interrupt)

    def become(self) -> Future[Any]:
        """The future that takes over the wait.

        It is needed if the answer is an error or has references, or if another thread may get it.
        """
        if self.future is None:
            future: Future[Any] = self.calls.new_future(self.awaited, self.timeout, rref=self.rref)
            future.began, future.deadline = self.began, self.began + self.timeout
            future.asker = self.asker
            future.fetches, future.asked = self.fetches, self.asked
            self.future = future
        self.over = True
        self.leader.lead.look()
        return self.future


class Leader(Internal):
    """Lets the threads of one endpoint on our own base receive while they wait.

    A thread that runs a function may lead if nobody else needs the loop
    (`RunLoop.lead_briefly`). Its wait is noted, for the search for rings.
    """

    def __init__(self, core: Core, waits: Waits, loop: RunLoop, *, guests: bool) -> None:
        """*guests*: threads that run no function may lead, as in a program."""
        self._core = core
        self._waits = waits
        self._loop = loop
        self.lead = loop.leadership
        self.poller = loop.poller
        """A waiting thread sleeps in it. The section of its request lasts until that wait ends."""
        self._guests = guests

    def receive(self, pending: Waiter) -> None:
        """Receive until *pending* is over, if the calling thread may lead.

        The thread is in a section with the loop's poller: see `base.interrupts`.
        """
        if pending.asked is not None:
            pending.asked.sent()
        if self._core.lock._is_owned():  # type: ignore[attr-defined]  # of any `RLock`
            return  # a signal handler, or a finalizer, in the midst of a step: it must not wait
        over, pool, loop = partial(is_over, pending), self._core.pool, self._loop
        if not pool.mine.inside:
            if self._guests:
                loop.lead(over, pending.timeout, held=True)
        elif not loop.is_leader():  # it may be: in a finalizer
            waiting, run = self._waits.pending, pending.run
            # The wait that a finalizer, which runs this, has interrupted.
            before = None if run is None else waiting.get(run.call)
            began = time.perf_counter()
            self.lead.waiting.append(None)
            try:
                if run is not None:
                    waiting[run.call] = pending
                pool.lend()
                loop.lead_briefly(over, pending.timeout)
            finally:
                pool.mine.waited += time.perf_counter() - began
                pool.take_back()
                if run is not None:
                    if before is None:
                        del waiting[run.call]
                    else:
                        waiting[run.call] = before
                self.lead.waiting.pop()

"""An actor's loop: a real asyncio loop in a thread of its own, and its queue of work.

Work starts in the order in which it was queued, each piece when the one before has ended or has
reached its first `await`.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..core import port
from ..core.core import Core, Internal
from .turns import no_turn

if TYPE_CHECKING:
    import asyncio

END = 2.0
"""Seconds for which `Loop.end` waits for its thread."""


class Loop(Internal):
    """Runs the handlers of one actor, and the `async def` functions that others call."""

    def __init__(self, *, cancels: bool = False) -> None:
        """With *cancels*, work that awaits at the end is cancelled, and has time to clean up."""
        self._cancels = cancels
        self.begun = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """None before the first work, and after the actor has ended."""
        self._lock = threading.Lock()
        """Guards the beginning of the loop, and its end."""
        self.open = False
        """Whether the actor is an endpoint that has not ended."""
        self._core: Core | None = None
        self._context = contextvars.Context()
        """The context of new work. The context of the thread that queues it will not do: that
        thread may have run user functions."""
        self._inbox: deque[Callable[[], Any]] = deque()
        self._starting = False
        self._held = False
        """Whether queued work has to wait for `release`. Coroutines that are spawned do not."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """Tasks that await; the loop itself holds tasks only weakly."""

    # ---- any thread

    def start(self, core: Core) -> None:
        """Run work from now on, for the endpoint of *core*. The first work starts the thread."""
        self._core = core
        self._context = contextvars.copy_context()
        core.loop_thread = 0
        self.open = True

    def _running(self) -> asyncio.AbstractEventLoop | None:
        """The loop, which is started if need be. None before `start` and after `stop`."""
        if self._loop is None and self.open:
            self._begin_thread()
        return self._loop

    def _begin_thread(self) -> None:
        from . import tasks  # noqa: PLC0415 - it loads asyncio

        with self._lock:
            core = self._core
            if core is None or self._loop is not None or not self.open:
                return  # another thread was faster
            self._loop = loop = tasks.make_loop()
            self.begun = True
            core.threads.start(self._run, f"farref loop {core.me}", loop, core)

    def queue(self, work: Callable[[], Any]) -> None:
        """Run *work* after everything that was queued before it. It may return a coroutine."""
        self._inbox.append(work)
        loop = self._running()  # another thread may stop it at any time
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._begin, context=self._context.copy())

    def hold(self) -> None:
        """Start no queued work before `release`. Call it before `start`."""
        self._held = self._starting = True

    def release(self, *, drop: bool = False) -> None:
        """Start the queued work after all. With *drop*, forget it first."""
        loop = self._running() if self._held else None
        if loop is None:
            return
        with self._lock:
            held, self._held = self._held, False
        if not held:
            return  # another thread was faster
        if drop:
            self._inbox.clear()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._begin_at_last, context=self._context.copy())

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine that *work* makes, beside other work. Does nothing after the end."""
        loop = self._running()
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._begin_beside, loop, work)

    @property
    def queued(self) -> int:
        return len(self._inbox)

    def stop(self) -> None:
        """Start no more work. May be called again."""
        with self._lock:
            self.open = False
            loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # another thread was faster
                loop.call_soon_threadsafe(loop.stop)

    def end(self) -> None:
        """Stop, and wait until the thread has ended, unless the loop itself runs this."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(END)

    # ---- the loop's thread

    def _run(self, loop: asyncio.AbstractEventLoop, core: Core) -> None:
        from . import tasks  # noqa: PLC0415 - as above

        core.loop_thread = threading.get_ident()
        self._thread = threading.current_thread()
        try:
            tasks.run(loop, cancels=self._cancels)
        finally:
            # The futures that they await go with them.
            self._tasks.difference_update(tasks.close(loop))

    def _begin_at_last(self) -> None:
        self._starting = False
        self._begin()

    def _begin(self) -> None:
        if not self._starting and self._inbox:
            self._starting = True
            self._next()

    def _next(self) -> None:
        """Start one piece of work; an `async` one takes its first step before the next starts."""
        loop = self._loop  # the handler may take longer than the mailbox, and that ends it
        if loop is None:
            return
        try:
            work = self._inbox.popleft()
            if len(self._inbox) == port.MAX_INBOX // 2 and self._core is not None:
                self._core.wake()  # senders that wait may send again
            result = work()
            if inspect.iscoroutine(result):
                self._keep(loop.create_task(result))
        finally:  # the next piece starts after any outcome of this one
            self._starting = bool(self._inbox)
            if self._starting:
                loop.call_soon(self._next)

    def _begin_beside(
        self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        no_turn()  # the thread that has spawned it may run a method
        self._keep(loop.create_task(work()))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

"""An actor's loop: a real asyncio loop in a thread of its own, and its queue of work.

Work starts in the order in which it was queued. Each piece runs to its end, or to the first `await`
of the coroutine that it returned, before the next one starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ..core import port
from ..core.core import Internal
from .turns import make_task, no_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..core.core import Core

LAST_AWAITS = 1.0
"""Seconds that cancelled work has to end."""


class Loop(Internal):
    """Runs the handlers of one actor, and the `async def` functions that others call."""

    def __init__(self, *, cancels: bool = False) -> None:
        """With *cancels*, work that still awaits at the end is cancelled, and gets a moment."""
        self._cancels = cancels
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """None before the actor is an endpoint, and after it has ended."""
        self._core: Core | None = None
        self._context = contextvars.Context()
        """The context of new work. The context of the thread that queues it will not do: that
        thread may have run user functions."""
        self._inbox: deque[Callable[[], Any]] = deque()
        self._starting = False
        self._held = False
        """No queued work starts, until `release`. Coroutines that are spawned run."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """Tasks that await; the loop itself holds tasks only weakly."""

    # ---- any thread

    def start(self, core: Core) -> None:
        """Begin to run the queued work, for the endpoint of *core*."""
        self._core = core
        self._context = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(make_task)
        self._thread = threading.Thread(
            target=self._run, args=(self._loop, core), name=f"farref loop {core.me}", daemon=True
        )
        self._thread.start()

    def queue(self, work: Callable[[], Any]) -> None:
        """Run *work* after everything queued before; it may return a coroutine."""
        self._inbox.append(work)
        loop = self._loop  # another thread may stop it at any time
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._begin, context=self._context.copy())

    def hold(self) -> None:
        """Start no queued work before `release`. Call it before `start`."""
        self._held = self._starting = True

    def release(self, *, drop: bool = False) -> None:
        """Start the queued work after all. With *drop*, forget it first."""
        loop = self._loop
        if not self._held or loop is None:
            return
        if drop:
            self._inbox.clear()

        def begin() -> None:
            if self._held:
                self._held = self._starting = False
                self._begin()

        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(begin, context=self._context.copy())

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine that *work* makes, beside all other work. After the end do nothing."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._begin_beside, loop, work)

    def full(self) -> bool:
        """Whether so much work is queued that senders of more must wait."""
        return self.queued >= port.MAX_INBOX

    @property
    def queued(self) -> int:
        """The number of pieces of work that have not begun."""
        return len(self._inbox)

    def stop(self) -> None:
        """Start no more work. May be called again."""
        loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # another thread was faster
                loop.call_soon_threadsafe(loop.stop)

    def end(self) -> None:
        """Stop, and wait until the thread has ended, unless the loop itself runs this."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2 * LAST_AWAITS)

    # ---- the loop's thread

    def _run(self, loop: asyncio.AbstractEventLoop, core: Core) -> None:
        asyncio.set_event_loop(loop)
        core.loop_thread = threading.get_ident()
        try:
            loop.run_forever()
            if self._cancels:
                self._cancel_all(loop)
        finally:
            # The remaining tasks wait for nothing any more. Python would only complain about them,
            # wherever the collector happens to run.
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio has it, typeshed does not
                coroutine = task.get_coro()
                if inspect.iscoroutine(coroutine) and _unstarted(coroutine):
                    coroutine.close()
                    self._tasks.discard(task)  # the future that it awaits goes with it
            loop.close()

    def _cancel_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel what still awaits. It has a moment for its `except` and `finally`."""
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_AWAITS))
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())

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
        finally:  # after any outcome of one piece, the next gets its turn
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


def _unstarted(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED

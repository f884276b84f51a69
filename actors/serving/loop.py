"""An actor's loop: a real asyncio loop in a thread of its own, and the work that waits for it.

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

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..core.core import Core


class Loop:
    """Runs the handlers of one actor, and the `async def` functions that others call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        """None before the actor is an endpoint, and when it has ended."""
        self._core: Core | None = None
        self._context = contextvars.Context()
        """What work starts in: the thread that queues it may have run functions of the user's."""
        self._inbox: deque[Callable[[], Any]] = deque()
        self._starting = False
        self._tasks: set[asyncio.Task[Any]] = set()
        """What awaits; the loop itself holds tasks only weakly."""

    # ---- any thread

    def start(self, core: Core) -> None:
        """Begin to run what is queued, for the endpoint of *core*."""
        self._core = core
        self._context = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        threading.Thread(
            target=self._run,
            args=(self._loop, core),
            name=f"farref loop {core.me}",
            daemon=True,
        ).start()

    def queue(self, work: Callable[[], Any]) -> None:
        """Run *work* after everything queued before; it may return a coroutine."""
        self._inbox.append(work)
        loop = self._loop  # another thread may stop it at any time
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._begin, context=self._context.copy())

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine that *work* makes, beside everything else. None is made at the end."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(lambda: self._keep(loop.create_task(work())))

    def full(self) -> bool:
        """Whether so much is queued that whoever sends more shall wait."""
        return self.queued >= port.MAX_INBOX

    @property
    def queued(self) -> int:
        """Pieces of work that have not begun."""
        return len(self._inbox)

    def stop(self) -> None:
        """Start nothing more. Safe to call again."""
        loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # another thread was faster
                loop.call_soon_threadsafe(loop.stop)

    # ---- the loop's thread

    def _run(self, loop: asyncio.AbstractEventLoop, core: Core) -> None:
        asyncio.set_event_loop(loop)
        core.loop_thread = threading.get_ident()
        try:
            loop.run_forever()
        finally:
            # Who still waits waits for nothing any more. Python has no word for that but
            # complaints, made by the collector wherever it happens to run.
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                if inspect.iscoroutine(coroutine) and _unstarted(coroutine):
                    coroutine.close()
                    self._tasks.discard(task)  # what it was to await goes with it
            loop.close()

    def _begin(self) -> None:
        if not self._starting and self._inbox:
            self._starting = True
            self._next()

    def _next(self) -> None:
        """Start one piece; an `async` one takes its first step before the next starts."""
        loop = self._loop  # the handler may take longer than the mailbox, and that ends it
        if loop is None:
            return
        try:
            work = self._inbox.popleft()
            if len(self._inbox) == port.MAX_INBOX // 2 and self._core is not None:
                self._core.wake()  # those who wait may send again
            result = work()
            if inspect.iscoroutine(result):
                self._keep(loop.create_task(result))
        finally:  # whatever happened to one, the next gets its turn
            self._starting = bool(self._inbox)
            if self._starting:
                loop.call_soon(self._next)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _unstarted(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED

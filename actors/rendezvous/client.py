"""An endpoint's side of the rendezvous: finds the service, asks it, and finds its successor.

Each endpoint has one thread with an asyncio loop for this, started with the first rendezvous. It
keeps asking while handlers and functions compute, sends the keep-alives of the nodes here, and
receives the news of their rounds. Programs block until the loop is done; handlers await it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import functools
import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from ...protocol.errors import (
    CreationError,
    FarrefError,
    FetchTimeoutError,
    NameTakenError,
    RendezvousConnectionError,
    SystemDownError,
    WorkerDiedError,
    WorkerNotFoundError,
)
from ...protocol.ids import WorkerId
from ...protocol.store import Op
from ..handles.front import Front
from ..wire.messages import WorkerInfo
from ..wire.settings import LONGEST
from .service import NotLeadingError, ask, leads
from .starting import NAME, start_service

P = ParamSpec("P")
T = TypeVar("T")

TAKEOVER = 5.0
"""Seconds for which a client looks for the service. A standby takes over much sooner."""
LOOK = 0.05
"""Seconds between two tries to find it."""
END_PATIENCE = 2.0
"""Seconds that a program's end waits until the loop has failed all its waits."""
PATIENCE = 2.0
"""Seconds that a candidate has to say whether it leads."""


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The *method* of an awaitable, as a method that blocks. See `Client.block`."""

    def block(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._block(method(self.awaitable, *args, **kwargs))
        return result

    functools.update_wrapper(block, method)
    return block


class Client:
    """An endpoint's requests to the service."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.core = core = front.core
        self.loop = asyncio.new_event_loop()
        self._ended = False
        """No coroutine begins any more."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """The running tasks: the loop itself holds tasks only weakly."""
        self._numbers = itertools.count(1)
        self._open: OrderedDict[int, None] = OrderedDict()
        """Changes of stores without an answer yet, the first one first."""
        self._leader: WorkerInfo | None = None
        self._finding = asyncio.Lock()
        self._beating: dict[tuple[str, WorkerId], float] = {}
        """The nodes here, each with its interval of keep-alives."""
        self._beats: asyncio.Task[None] | None = None
        self._over = threading.Event()
        core.closing.append(self._end)
        if core.closed:  # closed just before `_end` was added to `closing`
            self._end()
        core.threads.start(self._run, f"farref rendezvous {core.me}")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._ended = True
            self.loop.run_until_complete(asyncio.sleep(0))  # every task takes its first step
            left = asyncio.all_tasks(self.loop)  # their waiters get an error (G6)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.close()
            _clients.pop(self.front, None)
            self._over.set()

    def _end(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if not self._ended:  # a second one would stop the loop while it fails the waits
            self.loop.stop()

    def end(self) -> None:
        """End, and wait until all waits have failed."""
        if self.core.pid == os.getpid():
            self._end()
            self._over.wait(END_PATIENCE)

    # ---- for other threads and loops

    def block(self, doing: Coroutine[Any, Any, T], what: str, instead: str) -> T:
        """Block the calling thread until *doing*, which is called *what* in errors, is done.

        Raises `WouldBlockError` in a handler, where *instead* is the code to write.
        """
        try:
            self.core.check_open()
            self.core.check_may_block(what, instead)
        except BaseException:
            doing.close()
            raise
        future = self.submit(doing)
        run = self.front.waits.block((), future)
        try:
            with self.core.pool.waiting():
                if not self.core.port.wait(future, LONGEST):
                    raise AssertionError("every coroutine here has a timeout of its own (G6)")
            return future.result(0)
        finally:
            self.front.waits.unblock(run)
            future.cancel()  # an interrupt ends the wait and *doing*
            del future, doing, self  # an error's traceback holds this frame

    async def wait(self, doing: Coroutine[Any, Any, T]) -> T:
        """Wait for *doing* in a handler, which runs on another loop, or on this loop."""
        loop = asyncio.get_running_loop()
        if loop is self.loop:
            return await doing
        future = self.submit(doing)
        done = asyncio.Event()

        def wake(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the other loop ended: nobody waits any more
                loop.call_soon_threadsafe(done.set)

        future.add_done_callback(wake)
        try:
            await done.wait()
            return future.result(0)
        finally:
            future.cancel()
            del future, doing, self  # as in `block`

    def submit(self, doing: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin *doing* on the loop.

        (`asyncio.run_coroutine_threadsafe` makes cycles. They would keep an error's frames, and
        the references in them, until they are collected: G5.)
        """
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        waiting = [doing]  # the thread that takes it out begins it, or refuses it
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._begin, waiting, future)
        if self._ended:  # a finalizer may call this, so no lock guards it
            self._refuse(waiting, future)
        return future

    def _refuse(
        self, waiting: list[Coroutine[Any, Any, T]], future: concurrent.futures.Future[T]
    ) -> None:
        with contextlib.suppress(IndexError):  # it has begun
            waiting.pop().close()
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # its waiter gave up
                future.set_exception(self._system_down())

    def _system_down(self) -> SystemDownError:
        return SystemDownError(f"{self.core.me} has ended; start a new system")

    def _begin(
        self, waiting: list[Coroutine[Any, Any, T]], future: concurrent.futures.Future[T]
    ) -> None:
        if self._ended:
            self._refuse(waiting, future)
            return
        task = self.loop.create_task(self._answer(waiting.pop(), future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        future.add_done_callback(functools.partial(self._cancelled, task))

    async def _answer(
        self, doing: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]
    ) -> None:
        """Give *future* the outcome of *doing*.

        The task itself has no outcome. It would keep an error's traceback, whose frames keep the
        task, and with them the references in the frames of the code that waits (G5).
        """
        try:
            result = await doing
        except BaseException as error:
            cut = isinstance(error, asyncio.CancelledError)
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # its waiter gave up
                future.set_exception(self._system_down() if cut else error.with_traceback(None))
        else:
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                future.set_result(result)

    def _cancelled(self, task: asyncio.Task[None], future: concurrent.futures.Future[T]) -> None:
        if future.cancelled():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(task.cancel)

    # ---- on the loop

    async def ask(self, what: str, *args: Any, seconds: float, standby: bool = True) -> Any:
        """Have the service do *what*, also when another process has taken over.

        If there was never a service, it is started, with or without a *standby*.

        Raises:
            RendezvousConnectionError: the service cannot be found, or does not answer in time.
        """
        leader = await self._find(standby)
        end = time.monotonic() + seconds
        while True:
            try:
                left = max(0.1, end - time.monotonic())
                return await self._call(leader, left, ask, what, *args)
            except (WorkerDiedError, NotLeadingError):
                if self._leader is leader:
                    self._leader = None
            except SystemDownError as error:
                raise RendezvousConnectionError(str(error)) from None
            leader = await self._find(standby)

    async def change(self, what: str, *where: Any, op: Op, seconds: float) -> Any:
        """Have the service change a store by its request *what*. *op* takes effect once."""
        number = next(self._numbers)
        self._open[number] = None
        try:
            op = replace(op, number=number, settled=next(iter(self._open)))
            return await self.ask(what, *where, op, seconds=seconds)
        finally:
            del self._open[number]

    async def _call(self, to: WorkerInfo, seconds: float, function: Any, *args: Any) -> Any:
        future = self.front.calls.call(to, (function, args, {}), LONGEST, ())
        future.overlooked = True  # the end of a program does not wait for it
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await future
        except TimeoutError:
            if not limit.expired():
                raise  # it is the service's answer
            raise RendezvousConnectionError(
                f"{to} did not answer within {seconds:.3g} s: it is stopped, cut off, or overloaded"
            ) from None
        finally:
            future.cancel()
            del future  # it holds the error, whose traceback holds this frame

    async def _find(self, standby: bool) -> WorkerInfo:
        """The service that leads."""
        end = time.monotonic() + TAKEOVER
        async with self._finding:  # one task finds it for all
            while self._leader is None:
                for info in await self._candidates():
                    with contextlib.suppress(WorkerDiedError, RendezvousConnectionError):
                        if await self._call(info, PATIENCE, leads, standby):
                            self._leader = info
                            break
                else:
                    if time.monotonic() >= end:
                        raise RendezvousConnectionError(
                            "the rendezvous service does not answer: it is stopped, or cut off. "
                            "Its process may still run, so no other takes its place"
                        )
                    await asyncio.sleep(LOOK)
            return self._leader

    async def _candidates(self) -> list[WorkerInfo]:
        """The services that run. If there was never one, the first is started here."""
        try:
            infos = await asyncio.to_thread(self.front.registrar_client.workers)
            found = [info for info in infos if info.name.startswith(NAME)]
            if not found:
                found = [await asyncio.to_thread(self._start)]
        except NameTakenError:
            return []  # another endpoint starts it at this moment
        except WorkerDiedError:
            raise RendezvousConnectionError(
                "the rendezvous service died, and any standby too, so the lists of members are "
                "lost. End the members, and start them in a new system"
            ) from None
        except (SystemDownError, CreationError, FetchTimeoutError) as error:
            raise RendezvousConnectionError(f"no rendezvous service: {error}") from None
        return sorted(found, key=lambda info: (len(info.name), info.name))

    def _start(self) -> WorkerInfo:
        registrar_client = self.front.registrar_client
        with contextlib.suppress(WorkerNotFoundError):
            return registrar_client.find(NAME)
        return start_service(registrar_client, NAME)

    # ---- keep-alives

    def keep_alive(self, run: str, node: WorkerId, interval: float) -> None:
        """Begin to send keep-alives for *node*. On the loop."""
        self._beating[run, node] = interval
        if self._beats is None and self.core.port.runs_by_itself:
            self._beats = self.loop.create_task(self._beat())

    def let_go(self, run: str, node: WorkerId) -> None:
        """Stop the keep-alives of *node*."""
        self._beating.pop((run, node), None)

    async def _beat(self) -> None:
        while True:
            pause = min(self._beating.values(), default=1.0)
            if self._beating:
                with contextlib.suppress(FarrefError):  # the next one may arrive
                    await self.ask("beat", list(self._beating), seconds=pause)
            await asyncio.sleep(pause / 2)


_clients: dict[Front, Client] = {}
_making = threading.Lock()


@atexit.register  # registered before any system's hook, so it is called after them
def _end_all() -> None:
    """End all clients: a thread cut off at the interpreter's end would leave tasks that warn."""
    for client in list(_clients.values()):
        client.end()


def client_of(front: Front) -> Client:
    with _making:
        if front not in _clients:
            _clients[front] = Client(front)
        return _clients[front]

"""A pool of workers, as an executor of `concurrent.futures`.

Tasks wait in the program. A worker gets one when it has a free thread, so no task waits behind
another one while a worker is idle. If a worker dies, its tasks fail, and another worker takes its
place.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from functools import partial
from typing import Any, NoReturn, ParamSpec, TypeVar, overload

from thespian.actors import ActorExitRequest

from ...printable import logger
from ...protocol.errors import FarrefError, WorkerDiedError, WorkerNotFoundError
from ...serialization.failures import text_of
from ..base.interrupts import Condition, Guard, new_future
from ..handles.front import Front
from ..handles.rref import RRef
from ..values.cell import LATER
from ..wire.messages import WorkerInfo
from .rpc import Coming

P = ParamSpec("P")
T = TypeVar("T")

log = logger(__name__)

ENDING = 0.01
"""Seconds between two looks whether the workers have gone."""


class _Member:
    def __init__(self, info: WorkerInfo) -> None:
        self.info = info
        self.running = 0


class _Task:
    """A call that waits for a worker, or runs there."""

    def __init__(self, call: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> None:
        self.call = call
        self.future: concurrent.futures.Future[Any] = new_future()
        self.taken = False
        """A worker has it, or had it, or it was cancelled."""


class WorkerPool(Executor):
    """Workers that share the tasks of this program. `System.pool` makes it.

    It is a `concurrent.futures.Executor`, so ``loop.run_in_executor(pool, fn)`` and
    `concurrent.futures.as_completed` take it and its futures. Tasks have no timeout of their own.
    The task of a worker that dies fails with `WorkerDiedError`, and is not repeated.
    """

    def __init__(
        self, front: Front, make: Callable[[str], WorkerInfo], name: str, size: int, threads: int
    ) -> None:
        """Make *size* workers by *make*, each with *threads* threads. Blocks.

        Raises `ValueError` if one of the two is less than 1.
        """
        if size < 1 or threads < 1:
            raise ValueError(
                f"a pool needs at least 1 worker and 1 thread, not {size} and {threads}"
            )
        self._front, self._make, self._name, self._threads = front, make, name, threads
        self._changed = Condition(Guard())  # type: ignore[arg-type]  # a reentrant lock
        self._tasks: deque[_Task] = deque()
        """Those that wait for a worker."""
        self._unanswered = 0
        """The tasks that a worker has, or whose future is about to be set."""
        self._ended = False
        self._coming = 0
        """The workers that are being made."""
        self._members: list[_Member] = []
        self._ending: set[str] = set()
        """Workers that have been told to end."""
        self._numbers = itertools.count(1)
        try:
            for _ in range(size):
                self._members.append(_Member(make(f"{name}-{next(self._numbers)}")))
        except BaseException:
            self.shutdown()
            raise

    # ---- tasks

    @overload
    def submit(
        self, fn: Callable[P, Coming[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]: ...
    @overload
    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]: ...
    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        """Run ``fn(*args, **kwargs)`` on a worker. Returns its future. Does not block.

        An ``async def`` *fn* is awaited there, as in `farref.rpc_sync`; so in the methods below.
        Raises `RuntimeError` after `shutdown`.
        """
        return self._submit(fn, args, kwargs)

    @overload
    def keep(
        self, fn: Callable[P, Coming[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[RRef[T]]: ...
    @overload
    def keep(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[RRef[T]]: ...
    def keep(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[RRef[Any]]:
        """As `submit`; the result stays at its worker, and the future has a reference to it.

        The result lives as long as its worker: until `shutdown`, or the worker's death.
        """
        return self._submit(_kept, (fn, *args), kwargs)

    @overload
    def map(
        self,
        fn: Callable[..., Coming[T]],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]: ...
    @overload
    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]: ...
    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """As `Executor.map`: all tasks are submitted now, and the results come in order.

        *chunksize* calls make one task, which pays if they are short. *timeout* is in seconds.
        """
        groups = _chunks(zip(*iterables, strict=False), chunksize)
        results = super().map(partial(_each, fn), groups, timeout=timeout)
        return itertools.chain.from_iterable(results)

    @overload
    def imap(
        self, fn: Callable[..., Coming[T]], *iterables: Iterable[Any], chunksize: int = 1
    ) -> Iterator[T]: ...
    @overload
    def imap(
        self, fn: Callable[..., T], *iterables: Iterable[Any], chunksize: int = 1
    ) -> Iterator[T]: ...
    def imap(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], chunksize: int = 1
    ) -> Iterator[Any]:
        """As `map`, for long or endless *iterables*: few items are taken ahead of the results."""
        return self._iterated(fn, iterables, chunksize, ordered=True)

    @overload
    def imap_unordered(
        self, fn: Callable[..., Coming[T]], *iterables: Iterable[Any], chunksize: int = 1
    ) -> Iterator[T]: ...
    @overload
    def imap_unordered(
        self, fn: Callable[..., T], *iterables: Iterable[Any], chunksize: int = 1
    ) -> Iterator[T]: ...
    def imap_unordered(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], chunksize: int = 1
    ) -> Iterator[Any]:
        """As `imap`; each result comes as soon as it is there."""
        return self._iterated(fn, iterables, chunksize, ordered=False)

    def _iterated(
        self,
        fn: Callable[..., T],
        iterables: tuple[Iterable[Any], ...],
        chunksize: int,
        *,
        ordered: bool,
    ) -> Iterator[T]:
        waiting: dict[concurrent.futures.Future[list[T]], None] = {}
        done: queue.SimpleQueue[concurrent.futures.Future[list[T]]] = queue.SimpleQueue()

        def results() -> list[T]:
            future = next(iter(waiting)) if ordered else done.get()
            del waiting[future]
            return future.result()

        try:
            for group in _chunks(zip(*iterables, strict=False), chunksize):
                future = self.submit(_each, fn, group)
                waiting[future] = None
                if not ordered:
                    future.add_done_callback(done.put)
                # Each thread has another task at once.
                if len(waiting) >= 2 * self._threads * max(1, len(self._members)):
                    yield from results()
            while waiting:
                yield from results()
        finally:
            for future in waiting:
                future.cancel()

    def _submit(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> concurrent.futures.Future[Any]:
        if not callable(fn):
            raise TypeError(f"a task needs a function, not {fn!r}")
        task = _Task((fn, args, kwargs))
        with self._changed:
            if self._ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not self._members and not self._coming:
                raise BrokenExecutor(f"pool {self._name!r} has no worker left")
            self._tasks.append(task)
        task.future.add_done_callback(partial(self._cancelled, task))
        self._dispatch()
        return task.future

    def _cancelled(self, task: _Task, future: concurrent.futures.Future[Any]) -> None:
        """If *task* was cancelled before a worker had it, tell those who wait for it."""
        with self._changed:
            if task.taken or not future.cancelled():
                return
            task.taken = True
        future.set_running_or_notify_cancel()

    def _dispatch(self) -> None:
        while True:
            with self._changed:
                free = [each for each in self._members if each.running < self._threads]
                if not free or not self._tasks:
                    break
                member, task = min(free, key=lambda each: each.running), self._tasks.popleft()
                member.running += 1
                again, task.taken = task.taken, True
                self._unanswered += 1
            wanted = task.future.running() if again else task.future.set_running_or_notify_cancel()
            if not wanted:
                self._free(member, answered=True)
                continue
            try:
                call = self._front.calls.call(member.info, task.call, math.inf, ())
            except (WorkerDiedError, WorkerNotFoundError):  # it has not begun there
                with self._changed:
                    self._tasks.appendleft(task)
                    self._unanswered -= 1
                self._lose(member)
            except BaseException as error:
                task.future.set_exception(error)
                self._free(member, answered=True)
            else:
                # The next task leaves in the mailbox thread, where no code of a value may run.
                concurrent.futures.Future.add_done_callback(call, partial(self._over, member))
                call.add_done_callback(partial(self._answer, member, task))
        self._end_if_done()

    def _over(self, member: _Member, _call: object) -> None:
        self._free(member)
        self._dispatch()

    def _answer(self, member: _Member, task: _Task, call: concurrent.futures.Future[Any]) -> None:
        error = call.exception()
        if error is None:
            task.future.set_result(call.result())
        else:
            task.future.set_exception(error)
        if isinstance(error, WorkerDiedError):
            self._lose(member)
        with self._changed:
            self._unanswered -= 1
            self._changed.notify_all()

    def _free(self, member: _Member, *, answered: bool = False) -> None:
        with self._changed:
            member.running -= 1
            self._unanswered -= answered
            self._changed.notify_all()

    # ---- deaths

    def _lose(self, member: _Member) -> None:
        """*member* is dead: have another one take its place."""
        with self._changed:
            if member not in self._members:
                return
            self._members.remove(member)
            if self._ended and not self._tasks:
                self._changed.notify_all()
                return
            self._coming += 1
        self._front.core.threads.start(self._replace, "farref pool")

    def _replace(self) -> None:
        made: list[_Member] = []
        why = ""
        try:
            made.append(_Member(self._make(f"{self._name}-{next(self._numbers)}")))
        except FarrefError as error:
            why = text_of(error)
            log.error("pool %r goes on without a worker: %s", self._name, why)
        broken: list[_Task] = []
        with self._changed:
            self._coming -= 1
            self._members += made
            if not self._members and not self._coming:
                broken, self._tasks = list(self._tasks), deque()
            self._changed.notify_all()
        for task in broken:
            if task.future.running() or (
                not task.taken and task.future.set_running_or_notify_cancel()
            ):
                task.future.set_exception(BrokenExecutor(f"pool {self._name!r}: {why}"))
        self._dispatch()

    # ---- the end

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers when their tasks are done; what was kept there is gone with them.

        Args:
            wait: block until then.
            cancel_futures: cancel the tasks that have not begun.
        """
        with self._changed:
            self._ended = True
            cancelled = [*self._tasks] if cancel_futures else []
        for task in cancelled:
            task.future.cancel()
        self._dispatch()
        if wait:
            with self._changed:
                self._changed.wait_for(
                    lambda: not (self._members or self._coming or self._unanswered)
                )
            self._wait_for_ends()

    def _end_if_done(self) -> None:
        with self._changed:
            busy = self._tasks or self._coming or any(each.running for each in self._members)
            if not self._ended or busy:
                return
            over, self._members = self._members, []
            self._ending |= {each.info.name for each in over}
            self._changed.notify_all()
        for member in over:
            self._front.core.port.post(member.info.address, ActorExitRequest())

    def _wait_for_ends(self) -> None:
        """Wait until the workers have gone, and their names are free."""
        front = self._front
        end = time.monotonic() + front.core.settings.timeout
        with contextlib.suppress(FarrefError):  # the system has ended
            while self._ending and time.monotonic() < end:
                self._ending &= {info.name for info in front.registrar_client.workers()}
                time.sleep(ENDING)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pool stays in its program: send the tasks' results, or references")

    def __repr__(self) -> str:
        with self._changed:
            running = sum(each.running for each in self._members)
            return (
                f"<Pool {self._name!r}: {len(self._members)} workers, {running} tasks run, "
                f"{len(self._tasks)} wait>"
            )


def _kept(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Runs at a worker."""
    result = fn(*args, **kwargs)
    if not issubclass(type(result), LATER):
        return RRef(result)

    async def kept() -> RRef[Any]:
        return RRef(await _outcome(result))

    return kept()


def _each(fn: Callable[..., Any], group: list[tuple[Any, ...]]) -> Any:
    """Runs at a worker.  The calls of a group run one after another, `async` ones too."""
    results: list[Any] = []
    for number, args in enumerate(group, 1):
        result = fn(*args)
        if issubclass(type(result), LATER):
            return _others(results, result, fn, group[number:])
        results.append(result)
    return results


async def _others(
    results: list[Any], coming: Any, fn: Callable[..., Any], group: list[tuple[Any, ...]]
) -> list[Any]:
    """Add the result that is *coming* to *results*, and those of *fn* for *group*."""
    results.append(await _outcome(coming))
    for args in group:
        result = fn(*args)
        results.append(await _outcome(result) if issubclass(type(result), LATER) else result)
    return results


async def _outcome(coming: Any) -> Any:
    if hasattr(type(coming), "__await__"):
        return await coming
    import asyncio  # noqa: PLC0415 - it is loaded here: this is a coroutine

    return await asyncio.wrap_future(coming)  # a future of another library


def _chunks(items: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    if size < 1:
        raise ValueError(f"chunksize must be at least 1, not {size}")
    there = iter(items)
    while group := list(itertools.islice(there, size)):
        yield group

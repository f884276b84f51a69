"""The functions of the library. The names are PyTorch RPC's, or Ray's if PyTorch has none."""

from __future__ import annotations

import concurrent.futures
import math
import reprlib
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar, overload

from thespian.actors import ActorAddress

from ...protocol.ids import RRefId
from ...protocol.messages import Busy
from ..base.interrupts import Guard, new_future
from ..calls.calls import Invocation
from ..calls.futures import Enough, Future
from ..core import sites
from ..core.current import chain_in, frame
from ..handles.front import Front
from ..handles.proxies import parts_of
from ..handles.rref import RRef
from ..values.several import Several, check_number
from ..values.wrapper import ByValue, made_as
from ..wire.messages import WorkerInfo
from ..wire.settings import check_timeout

T = TypeVar("T")
Container = TypeVar("Container", bound="list[Any] | dict[Any, Any] | set[Any]")
"""So that ``remote("B", list)`` needs no annotation."""

To: TypeAlias = "str | WorkerInfo | ActorAddress | None"
"""A worker's name, its `WorkerInfo`, the address of a `RefActor`, or `ANY`."""
Coming: TypeAlias = "Future[T] | Coroutine[Any, Any, T]"
"""What a function may return in place of its result."""
Elsewhere: TypeAlias = "RRef[T] | Coming[RRef[T]]"
"""What a function may return in place of an object that it does not make."""
ANY = None
"""In place of a worker: the least loaded one. See `remote`."""
MOST_KEPT = 1000
"""Frozen values that one wait maps at most: a process has a limited number of mappings."""


@overload
def remote(
    to: To,
    fn: type[Container],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
    frozen: bool = False,
    serial: bool = True,
) -> RRef[Container]: ...


@overload
def remote(
    to: To,
    fn: Callable[..., Elsewhere[T]],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
    frozen: bool = False,
    serial: bool = True,
) -> RRef[T]: ...


@overload
def remote(
    to: To,
    fn: Callable[..., Coming[T]],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
    frozen: bool = False,
    serial: bool = True,
) -> RRef[T]: ...


@overload
def remote(
    to: To,
    fn: Callable[..., T],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
    frozen: bool = False,
    serial: bool = True,
) -> RRef[T]: ...


@overload
def remote(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
    frozen: bool = False,
    serial: bool = True,
    num_returns: int,
) -> Any: ...


def remote(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
    frozen: bool = False,
    serial: bool = True,
    num_returns: int = 1,
) -> Any:
    """Run ``fn(*args, **kwargs)`` on *to*, which owns the result. Returns a reference to it.

    Does not wait for *fn*. It blocks only for the registrar's answer, if this endpoint does not
    know *to* yet, and while too much that was sent to *to* has not arrived there (docs/limits.md).
    An exception in *fn* takes the place of the value and is raised by every fetch.

    Args:
        to: a worker's name, its `WorkerInfo`, or the address of a `RefActor`. `farref.ANY` (or
            None) is the worker with the fewest unfinished requests that this endpoint has placed
            by `ANY`. Programs and `RefActor`s are not workers, and a worker that another endpoint
            creates is taken into account within a second.
        fn: plain (runs in a thread) or `async def` (runs on the worker's loop).
        args: may contain references anywhere; so may *kwargs*.
        kwargs: keyword arguments.
        timeout: seconds in which the value must be made. When they have passed, waits on the
            returned handle end with `FetchTimeoutError`; a wait that begins later lasts a second.
            Once this endpoint knows that the value exists, waits have the system's timeout. The
            function is not stopped.
        resolve: pass references by value: *fn* gets the values of those references that are
            themselves arguments (not of references deeper inside). *to* fetches the values before
            the task runs; the task occupies no thread meanwhile. An error of such a value takes
            the place of the result.
        frozen: make the result immutable, as ``RRef(value, frozen=True)`` does: then fetches on
            the same host copy no large buffer. Ignored if *fn* returns an `RRef`.
        serial: false lets the methods of the result run in several threads at once, as
            ``RRef(value, serial=False)`` does. Ignored if *fn* returns an `RRef`.
        num_returns: if more than 1, *fn* returns a tuple or list of that many values, or is a
            generator of them. Then `remote` returns a list with a reference to each, as in Ray.
            *fn* runs once; *to* owns the values, and frees each of them separately. If *fn* raises,
            or returns another number of values, every reference raises that error.

    Raises:
        TypeError: *fn* is no function, or *args* no tuple or list.
        ValueError: the timeout is 0 or less, or *num_returns* less than 1.
        WorkerNotFoundError, WorkerDiedError: no such worker exists, or it has died.
        NotAnEndpointError: *to* is the address of a plain Thespian actor.
        SerializationError: the function or an argument cannot be pickled.
        OverloadedError: *to* did not take the many earlier messages within the system's timeout,
            or, in a handler, has not taken them yet.
    """
    front: Front = frame().core.front
    if timeout is not None:
        check_timeout(timeout, front.core.settings.timeout)
    if check_number(num_returns) == 1:
        what = _invocation(fn, args, kwargs, resolve=resolve, frozen=frozen, serial=serial)
        ref = _create(front, to, what)
        ref._asked(fn, timeout, sites.caller(1))
        return ref
    fn, args, kwargs = _invocation(fn, args, kwargs, resolve=False)
    what = _invocation(Several(fn, num_returns), args, kwargs, resolve=resolve)
    name, run = str(getattr(fn, "__name__", fn)), _create(front, to, what)
    place = sites.caller(1)
    return parts_of(run, name, num_returns, timeout, place, frozen=frozen, serial=serial)


@overload
def rpc_async(
    to: To,
    fn: Callable[..., Coming[T]],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> Future[T]: ...


@overload
def rpc_async(
    to: To,
    fn: Callable[..., T],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> Future[T]: ...


def rpc_async(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> Future[Any]:
    """Run ``fn(*args, **kwargs)`` on *to*; returns a `Future` for its result.

    Does not wait for *fn*, and blocks only where `remote` does. *to*, *fn* and *resolve* are as in
    `remote`; references in the arguments are lent for the call. *timeout* is in seconds (default:
    the system's). It ends the call for everybody: see `Future`. Raises the errors of `remote`.
    """
    what = _invocation(fn, args, kwargs, resolve=resolve)
    future = _call(frame().core.front, to, what, timeout, ())
    future.place = sites.caller(1)
    return future


@overload
def rpc_sync(
    to: To,
    fn: Callable[..., Coming[T]],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> T: ...


@overload
def rpc_sync(
    to: To,
    fn: Callable[..., T],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> T: ...


def rpc_sync(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> Any:
    """Run ``fn(*args, **kwargs)`` on *to* and return its result. Blocks.

    *to*, *fn* and *resolve* are as in `remote`. References in the arguments are lent for the call
    (`System`'s *sharing*). The call takes effect at most once, and exactly once while both ends
    live (G3).

    Raises:
        FetchTimeoutError: no reply within *timeout* seconds (default: the system's).
        WouldBlockError: in a handler; write ``await rpc_async(...)`` there.
        WorkerDiedError: the worker has died, or died before it replied.
        Exception: the exception of *fn*, with the remote traceback as its cause; or another error
            of `remote`.
    """
    here = frame()
    core = here.core
    if core.loop_thread is not None:
        core.check_may_block("rpc_sync", "`await farref.rpc_async(...)`")
    front: Front = core.front
    what = _invocation(fn, args, kwargs, resolve=resolve)
    if to is None:
        return _call(front, to, what, timeout, here.chain).result_or_cancel()
    to = front.registrar_client.find(to)
    return front.calls.call(to, what, timeout, here.chain, waits=True).result_or_cancel()


def _create(front: Front, to: To, what: Invocation) -> RRef[Any]:
    if to is not None:
        made: RRef[Any] = front.calls.remote(front.registrar_client.find(to), what)
        return made
    with front.placing.place() as placed:
        made = front.calls.remote(placed.to, what)
        placed.future = front.calls.fetch(made.id, math.inf, (), copy=False)
        placed.future.overlooked = True  # the program did not ask for it
        placed.future.on_answer(keep=False)
    return made


def _call(
    front: Front, to: To, call: Invocation, timeout: float | None, chain: tuple[Busy, ...]
) -> Future[Any]:
    if timeout is not None:
        check_timeout(timeout, front.core.settings.timeout)
    if to is not None:
        return front.calls.call(front.registrar_client.find(to), call, timeout, chain)
    with front.placing.place() as placed:
        placed.future = future = front.calls.call(placed.to, call, timeout, chain)
    return future


def _invocation(
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None,
    kwargs: dict[str, Any] | None,
    *,
    resolve: bool,
    frozen: bool = False,
    serial: bool = True,
) -> Invocation:
    if not callable(fn):
        raise TypeError(f"a call needs a function, not {fn!r}")
    if frozen or not serial:
        fn = made_as(fn, frozen=frozen, serial=serial)
    if args is None:
        args = ()
    elif type(args) is not tuple:
        if not isinstance(args, list | tuple):
            raise TypeError(
                f"args must be a tuple of the positional arguments, not {reprlib.repr(args)}: for "
                "one argument write `(argument,)`"
            )
        args = tuple(args)
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError(f"kwargs must be a dict of keyword arguments, not {reprlib.repr(kwargs)}")
    return ByValue(fn) if resolve else fn, args, kwargs or {}


@overload
def get(refs: RRef[T], timeout: float | None = None) -> T: ...  # type: ignore[overload-overlap]  # a list of references behind one matches both: its value is meant


@overload
def get(refs: Iterable[RRef[T]], timeout: float | None = None) -> list[T]: ...


def get(refs: RRef[Any] | Iterable[RRef[Any]], timeout: float | None = None) -> Any:
    """The value of a reference, or the list of the values of several, fetched in parallel. Blocks.

    If several references lead to one object, also by aliases, its value travels once, and they all
    get the same copy. *timeout* is in seconds, for all of them together (default: the system's).

    Raises:
        TypeError: one of *refs* is not a reference.
        FetchTimeoutError: a value did not come in time.
        WouldBlockError: in a handler; write ``[await ref for ref in refs]`` there.
        Exception: the error of one of *refs*, as `RRef.to_here` raises it, as soon as it is known.
    """
    if isinstance(refs, RRef):
        return refs.to_here(timeout)
    front: Front = frame().core.front
    front.core.check_may_block("get", "`[await ref for ref in refs]`")
    fetched = Fetched(front, timeout)
    try:
        return [future.result() for future in fetched.values_of(_references(refs))]
    finally:
        fetched.end()
        del fetched  # an error's traceback holds this frame


class Fetched:
    """The fetches of one `get`: at most one for each object with a value to ship."""

    def __init__(self, front: Front, timeout: float | None) -> None:
        self._front = front
        self._timeout = timeout
        self._futures: dict[RRefId, Future[Any]] = {}
        """By the id of the object, as far as it was known at the time of the fetch."""
        self._lock = Guard()
        self._left = 0
        """The fetches without an answer."""
        self._news: deque[Future[Any]] = deque()
        """Errors, and answers that the value is elsewhere."""
        self._told: concurrent.futures.Future[None] | None = None
        """Waited for; completed when there are news, or all answers."""
        self._last: Future[Any]
        """The latest fetch: none has more time."""

    def values_of(self, refs: list[RRef[Any]]) -> list[Future[Any]]:
        """The values of *refs*, all there. Raises the first error, as soon as it is there."""
        front, there = self._front, list[Future[Any]]()
        front.core.check_no_step()
        users: dict[Future[Any], list[int]] = {}
        for number, ref in enumerate(refs):
            there.append(self._ask(ref))
            users.setdefault(there[-1], []).append(number)
        run = front.waits.block(there)
        try:
            while self._wait(there):
                while self._news:
                    if self._news[0].failed:
                        self._news[0].result()
                    for number in users.pop(self._news.popleft()):  # its value is elsewhere
                        there[number] = self._ask(refs[number])
                        users.setdefault(there[number], []).append(number)
            return there
        finally:
            front.waits.unblock(run)
            del self, there, users  # an error's traceback holds this frame

    def _ask(self, ref: RRef[Any]) -> Future[Any]:
        known = ref.canonical() or ref.id  # once only: it may be learned at any moment
        if known not in self._futures:
            future = self._futures[known] = ref._fetch(
                self._timeout, chain_in(ref._front.core), direct=True, follow=False
            )
            future.overlooked = True  # `get` raises the first error
            with self._lock:  # a signal handler may receive an answer in between
                self._left, self._last = self._left + 1, future
            future.check_self_wait()
            future.watch(self)
        return self._futures[known]

    def _wait(self, there: list[Future[Any]]) -> bool:
        """Wait for news. False if all answers have come without any."""
        front = self._front
        with self._lock:
            if self._news or not self._left:
                return bool(self._news)
            self._told = told = new_future()
        with front.core.pool.waiting():
            came = front.core.port.wait(told, max(1e-3, self._last.left()))
        for future in () if came else there:
            if not future.over:
                future.expire()
        return True

    def add_result(self, future: Future[Any]) -> None:
        """A fetch has its answer."""
        with self._lock:
            self._left -= 1
            if future.moved or future.failed:
                self._news.append(future)
            told = self._told if self._news or not self._left else None
            if told is not None:
                self._told = None
        if told is not None:
            told.set_result(None)

    add_exception = add_cancelled = add_result

    def end(self) -> None:
        """Cancel all fetches: after an error or a timeout nobody wants the others any more."""
        for future in self._futures.values():
            future.watch_no_more(self)
            future.cancel()
        self._futures.clear()


def _references(refs: Iterable[RRef[Any]]) -> list[RRef[Any]]:
    found: list[Any] = [refs] if isinstance(refs, Future) else list(refs)
    for each in found:
        if isinstance(each, Future):
            raise TypeError(
                f"`refs` must hold only RRefs, not {each!r}: write `future.wait()` or `await "
                "future` for the result of a call, or call by `remote` in place of `rpc_async`, "
                "which returns an RRef"
            )
        if not isinstance(each, RRef):
            raise TypeError(f"`refs` must hold only RRefs, not {each!r}")
    return found


def wait(
    refs: Collection[RRef[T]] | Iterator[RRef[T]],
    num_returns: int = 1,
    timeout: float | None = None,
) -> tuple[list[RRef[T]], list[RRef[T]]]:
    """Wait until *num_returns* of *refs* have their values (or errors), as in Ray.

    Copies no value. A frozen value is mapped at once, so that a later fetch sends no message (for
    the first 1,000 of *refs*). Returns the ready references, at most *num_returns* of them, and
    the others, both in the order given. Blocks for at most *timeout* seconds (default: the
    system's); 0 polls, which gives the owners 0.05 s to answer. When the time has passed, fewer
    references may be ready; `wait` does not raise.

    The owner of a value is asked once, however often `wait` is called before the answer comes, and
    not at all if this endpoint already knows that the value is there.

    Raises:
        TypeError: *refs* is one reference, or has something else among them.
        ValueError: *num_returns* is not between 1 and the number of references, or there is none.
        WouldBlockError: in a handler.
    """
    if isinstance(refs, RRef):
        raise TypeError(f"`refs` must be a list of RRefs, not one: write `wait([{refs!r}])`")
    refs = _references(refs)
    if not refs:
        raise ValueError("`refs` is empty: there is nothing to wait for")
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns must be between 1 and {len(refs)}, not {num_returns}")
    front: Front = frame().core.front
    core, calls = front.core, front.calls
    seconds = check_timeout(timeout, core.settings.timeout, poll=True)
    core.check_may_block("wait", "`await` for each reference")
    core.check_no_step()
    begun, asked = time.monotonic(), calls.asked
    futures: list[Future[Any] | None] = []
    known = 0
    for number, ref in enumerate(refs):
        futures.append(calls.there(ref, keep=number < MOST_KEPT))
        known += futures[-1] is None or futures[-1].over
        if known == num_returns:
            break  # the others need not be asked
    if calls.asked > asked or not core.port.runs_by_itself:
        seconds = max(seconds, 0.05)  # a poll still gives the owners a moment to answer
    waited = [future for future in futures if future is not None]
    enough = Enough(num_returns - (len(futures) - len(waited)))
    run = front.waits.block(waited if num_returns == len(refs) else (), enough.some)
    try:
        for future in waited:
            future.watch(enough)
        with core.pool.waiting():
            core.port.wait(enough.some, max(0.0, begun + seconds - time.monotonic()))
        if enough.some.cancelled():
            raise concurrent.futures.CancelledError
    finally:
        front.waits.unblock(run)
        for future in waited:
            future.watch_no_more(enough)
    there = [number for number, future in enumerate(futures) if future is None or future.over]
    del there[num_returns:]
    for number in there:
        answer = futures[number]
        if answer is not None:
            answer.answered(keep=number < MOST_KEPT)  # what has woken this thread may do so later
    ready, rest = set(there), range(len(refs))
    return [refs[each] for each in there], [refs[each] for each in rest if each not in ready]


def get_worker_info(name: str | None = None) -> WorkerInfo:
    """The `WorkerInfo` of *name*, or of the calling endpoint.

    Blocks for the registrar's answer if this endpoint does not know *name* yet.

    Raises:
        WorkerNotFoundError, WorkerDiedError: no endpoint has that name, or it has died.
    """
    front: Front = frame().core.front
    return front.registrar_client.find(front.core.me.name if name is None else name)

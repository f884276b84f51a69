"""The functions of the library, PyTorch RPC's by name and Ray's where PyTorch has none."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from .current import chain_in, frame
from .resolving import ByValue
from .rref import RRef
from .settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thespian.actors import ActorAddress

    from ..protocol.ids import RRefId
    from .futures import Future
    from .resolving import Invocation
    from .wire import WorkerInfo

To: TypeAlias = "str | WorkerInfo | ActorAddress"
"""A worker's name, its `WorkerInfo`, or the address of a `RefActor`."""


def remote(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> RRef[Any]:
    """Run ``fn(*args, **kwargs)`` on *to*, which owns the result; returns its reference at once.

    An exception in *fn* takes the place of the value and is raised by every fetch.

    Args:
        to: a worker's name, its `WorkerInfo`, or the address of a `RefActor`.
        fn: plain (runs in a thread) or `async def` (runs on the worker's loop).
        args: may contain references anywhere; so may *kwargs*.
        kwargs: keyword arguments.
        timeout: seconds; the default of every wait for the value through the returned handle.
        resolve: pass references by value: *fn* gets the values of those that are arguments
            themselves (not of those deeper inside). *to* fetches them while the task waits for
            them, in no thread; what one of them raises takes the place of the result.

    Raises:
        ValueError: the timeout is 0 or less.
        WorkerNotFoundError, WorkerDiedError: there is no such worker any more.
        SerializationError: the function or an argument cannot be pickled.
    """
    endpoint = frame().endpoint
    check_timeout(timeout, endpoint.settings.timeout)
    what = _invocation(fn, args, kwargs, resolve=resolve)
    ref = endpoint.calls.remote(endpoint.registry.find(to), what)
    ref._timeout = timeout
    return ref


def rpc_async(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> Future[Any]:
    """Run ``fn(*args, **kwargs)`` on *to*; a `Future` for what it returns. Does not block.

    *timeout* is in seconds, for every wait on the future (default: the system's); *resolve* is
    as in `remote`. Raises what `remote` does, and `ValueError` for a timeout of 0 or less.
    """
    return _call(to, _invocation(fn, args, kwargs, resolve=resolve), timeout, ())


def rpc_sync(
    to: To,
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = None,
    *,
    resolve: bool = False,
) -> Any:
    """Run ``fn(*args, **kwargs)`` on *to* and return what it returns. Blocks.

    *resolve* is as in `remote`.

    Raises:
        FetchTimeoutError: no reply within *timeout* seconds (default: the system's).
        WouldBlockError: in a handler; write ``await rpc_async(...)`` there.
        Exception: what *fn* raised, with the remote traceback as its cause.
    """
    here = frame()
    here.endpoint.check_may_block("rpc_sync", "`await farref.rpc_async(...)`")
    what = _invocation(fn, args, kwargs, resolve=resolve)
    return _call(to, what, timeout, here.chain).result()


def _call(
    to: To, call: Invocation, timeout: float | None, chain: tuple[RRefId, ...]
) -> Future[Any]:
    endpoint = frame().endpoint
    check_timeout(timeout, endpoint.settings.timeout)
    return endpoint.calls.call(endpoint.registry.find(to), call, timeout, chain)


def _invocation(
    fn: Callable[..., Any],
    args: tuple[Any, ...] | None,
    kwargs: dict[str, Any] | None,
    *,
    resolve: bool,
) -> Invocation:
    if not callable(fn):
        raise TypeError(f"a function is needed to call, not {fn!r}")
    return ByValue(fn) if resolve else fn, tuple(args or ()), kwargs or {}


def get(refs: RRef[Any] | Sequence[RRef[Any]], timeout: float | None = None) -> Any:
    """The value of a reference, or the list of the values of several, fetched in parallel.

    References to one object, also by way of aliases, get one and the same copy of its value, which
    travels once. *timeout* is in seconds, for all of them together. Raises what `RRef.to_here`
    does.
    """
    if isinstance(refs, RRef):
        return refs.to_here(timeout)
    frame().endpoint.check_may_block("get", "`[await ref for ref in refs]`")
    fetched = Fetched(timeout)
    try:
        for ref in refs:
            fetched.ask(ref)
        for ref in refs:
            fetched.follow(ref)
        return [fetched.result(ref) for ref in refs]
    finally:
        fetched.end()
        del fetched  # an error's traceback holds this frame


class Fetched:
    """The fetches of one `get`: at most one for each object whose value is shipped."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._futures: dict[RRefId, Future[Any]] = {}
        """By the id of the object, as far as it was known when it was asked for."""

    def ask(self, ref: RRef[Any]) -> None:
        """Ask for the value, or, if it is an alias, where it is."""
        if _object_of(ref) not in self._futures:
            self._futures[_object_of(ref)] = ref._fetch(
                self._timeout, chain_in(ref._endpoint), direct=True, follow=False
            )

    def follow(self, ref: RRef[Any]) -> None:
        """Wait for the answer; if the value is elsewhere, ask there, unless that has been done."""
        asked = self._futures.get(ref.id)
        if asked is not None and asked.exception() is None and asked.moved:
            self.ask(ref)

    def result(self, ref: RRef[Any]) -> Any:
        """The value of *ref*."""
        asked = self._futures.get(ref.id)
        if asked is None or asked.moved:
            asked = self._futures[_object_of(ref)]
        return asked.result()

    def end(self) -> None:
        """After an error or a timeout nobody wants the others any more."""
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()


def _object_of(ref: RRef[Any]) -> RRefId:
    return ref.canonical() or ref.id


def wait(
    refs: Sequence[RRef[Any]], num_returns: int = 1, timeout: float | None = None
) -> tuple[list[RRef[Any]], list[RRef[Any]]]:
    """Wait until *num_returns* of *refs* have their values (or errors), as in Ray.

    Fetches nothing. Returns the ready references, at most *num_returns* of them, and the
    others, both in the order given. *timeout* is in seconds; 0 polls; None waits for the
    system's default. When it ends first, fewer are ready; it does not raise.

    Raises:
        ValueError: *num_returns* is not between 1 and the number of references.
        WouldBlockError: in a handler.
    """
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns must be between 1 and {len(refs)}, not {num_returns}")
    endpoint = frame().endpoint
    seconds = check_timeout(timeout, endpoint.settings.timeout, poll=True)
    endpoint.check_may_block("wait", "`await` for each reference")
    futures = [_readiness(ref) for ref in refs]
    end = time.monotonic() + max(seconds, 0.05)  # a poll still asks the owners once
    some: concurrent.futures.Future[None] = concurrent.futures.Future()

    def count(_: object) -> None:
        if sum(f.done() for f in futures) >= num_returns:
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # two at once
                some.set_result(None)

    for future in futures:
        concurrent.futures.Future.add_done_callback(future, count)
    with endpoint.pool.waiting():
        endpoint.port.wait(some, max(0.0, end - time.monotonic()))
    ready = [ref for ref, future in zip(refs, futures, strict=True) if future.done()]
    ready = ready[:num_returns]
    for future in futures:
        future.cancel()  # polling must not fill the owners' queues
    return ready, [ref for ref in refs if not any(ref is each for each in ready)]


def _readiness(ref: RRef[Any]) -> concurrent.futures.Future[Any]:
    return ref._endpoint.calls.fetch(ref.id, None, (), copy=False)


def get_worker_info(name: str | None = None) -> WorkerInfo:
    """Who *name* is, or who the calling endpoint is."""
    endpoint = frame().endpoint
    if name is not None:
        return endpoint.registry.find(name)
    return endpoint.registry.find(endpoint.me.name)

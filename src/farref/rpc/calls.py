"""The calls of `farref`, with PyTorch's arguments."""

from __future__ import annotations

import concurrent.futures
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..actors.api import rpc
from ..actors.base.interrupts import Guard
from ..actors.calls.futures import Future
from ..actors.core import sites
from ..actors.wire.messages import WorkerInfo
from .handles import RRef
from .options import UNSET_RPC_TIMEOUT
from .world import RankInfo, endpoint_of

To = str | int | RankInfo | WorkerInfo


def rpc_sync(
    to: To,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = UNSET_RPC_TIMEOUT,
) -> Any:
    """Run ``func(*args, **kwargs)`` on *to* and return its result. Blocks; see `farref.rpc_sync`.

    Args:
        to: a name, a rank, or a `WorkerInfo`.
        func: runs in a thread of that process; an `async def` runs on its loop.
        args: may contain references anywhere; so may *kwargs*.
        kwargs: keyword arguments.
        timeout: seconds; 0 means no limit, -1 or None the *rpc_timeout* of `init_rpc`.

    Raises:
        RuntimeError: every error of farref's own, for instance `WorkerNotFoundError`.
        ValueError: there is no such rank, or the timeout is negative.
        Exception: the exception of *func*.
    """
    return rpc.rpc_sync(endpoint_of(to), func, args, kwargs, _seconds(timeout))


def rpc_async(
    to: To,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = UNSET_RPC_TIMEOUT,
) -> Future[Any]:
    """As `rpc_sync`; returns a `Future` for the result at once. Does not block."""
    future = rpc.rpc_async(endpoint_of(to), func, args, kwargs, _seconds(timeout))
    future.place = sites.caller(1)
    return future


def remote(
    to: To,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float | None = UNSET_RPC_TIMEOUT,
) -> RRef[Any]:
    """As `rpc_sync`; the result stays on *to*. Returns its `RRef` at once. Does not block.

    *timeout* is that of the creation. Methods of the result may run in several threads at once.
    """
    seconds = _seconds(timeout)
    made: RRef[Any] = rpc.remote(endpoint_of(to), func, args, kwargs, seconds, serial=False)  # type: ignore[assignment]  # see `as_in_torch`
    return made


def _seconds(timeout: float | None) -> float | None:
    if timeout == 0:
        return math.inf
    return None if timeout == UNSET_RPC_TIMEOUT else timeout


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all *futures*, as ``torch.futures.wait_all`` gives those of torch's. Blocks.

    As soon as one of them fails, its error is raised, and the others are not waited for.
    """
    all_of = list(futures)
    _together(all_of, early=True).result()
    failed = [future for future in all_of if _has_failed(future)]
    for other in all_of if failed else ():
        if isinstance(other, Future):
            other.overlooked = True  # its caller gets the first error
    return [future.result() for future in failed or all_of]


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future for the list of *futures*, set once all are done. Does not block."""
    return _together(list(futures), early=False)


def _together(all_of: list[Future[Any]], *, early: bool) -> Future[list[Future[Any]]]:
    """A future for *all_of*, set once all are done, or if *early* once one has failed."""
    together: Future[list[Future[Any]]] = Future()
    together.outlast(all_of)
    lock, left = Guard(), len(all_of)

    def one(future: Any) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not together.done() and (left == 0 or (early and _has_failed(future)))
            if last:
                together.set_result(all_of)

    for future in all_of:
        # Not the method of our own class, which would wait for a thread of the pool.
        concurrent.futures.Future.add_done_callback(future, one)
    if not all_of:
        together.set_result(all_of)
    return together


def _has_failed(future: concurrent.futures.Future[Any]) -> bool:
    if isinstance(future, Future):
        return future.failed
    return future.done() and (future.cancelled() or future.exception() is not None)

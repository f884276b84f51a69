"""The calls of `farref`, with PyTorch's arguments."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from ..actors.api import rpc
from ..actors.calls.futures import Future
from ..actors.core import sites
from .options import UNSET_RPC_TIMEOUT
from .world import endpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..actors.wire.messages import WorkerInfo
    from .handles import RRef
    from .world import RankInfo

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
        timeout: seconds; 0 is no limit, -1 or None the *rpc_timeout* of `init_rpc`.

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
    made: RRef[Any] = rpc.remote(endpoint_of(to), func, args, kwargs, seconds, serial=False)  # type: ignore[assignment]  # see `give_rank_rrefs`
    return made


def _seconds(timeout: float | None) -> float | None:
    if timeout == 0:
        return math.inf
    return None if timeout == UNSET_RPC_TIMEOUT else timeout


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all *futures*, as ``torch.futures.wait_all`` gives those of torch's. Blocks.

    Raises the error of the first that has one, once all are done.
    """
    all_of = list(futures)
    errors = [future.exception() for future in all_of]
    for error in errors:
        if error is not None:
            raise error
    return [future.result() for future in all_of]


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future for the list of *futures*, set once all are done. Does not block."""
    all_of = list(futures)
    together: Future[list[Future[Any]]] = Future()
    lock, left = threading.Lock(), len(all_of)

    def one(_: object) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            together.set_result(all_of)

    for future in all_of:
        future.add_done_callback(one)
    if not all_of:
        together.set_result(all_of)
    return together

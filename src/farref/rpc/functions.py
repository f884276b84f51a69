"""`async_execution`, as in ``torch.distributed.rpc.functions``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..actors.calls.futures import Future


def async_execution(fn: Callable[..., Any]) -> Callable[..., Future[Any]]:
    """Mark a function that returns a future: the future's outcome is the reply of a call.

    No thread waits meanwhile. The future may be a `farref.rpc.Future`, that of a call, a
    ``torch.futures.Future`` or a `concurrent.futures.Future`. Below ``@staticmethod`` and
    ``@classmethod``, as in PyTorch. The marked function raises `RuntimeError` if *fn* returns
    anything else.
    """

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Future[Any]:
        return _ours(fn(*args, **kwargs), fn)

    return run


def _ours(result: Any, fn: Callable[..., Any]) -> Future[Any]:
    if isinstance(result, Future):
        return result
    get = getattr(result, "value", None) or getattr(result, "result", None)
    if not callable(get) or not callable(getattr(result, "add_done_callback", None)):
        raise RuntimeError(  # noqa: TRY004 - PyTorch's
            f"{fn.__qualname__} is marked with async_execution, so it must return a "
            f"farref.rpc.Future or a torch.futures.Future, not {type(result).__qualname__}"
        )
    ours: Future[Any] = Future()

    def done(_: object) -> None:
        try:
            value = get()
        except BaseException as error:
            ours.set_exception(error)
        else:
            ours.set_result(value)

    result.add_done_callback(done)
    return ours

"""Arguments by value: the worker that runs a task fetches them first; no thread waits for them."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

from ...protocol.ids import RRefId
from ...protocol.messages import Busy
from ..calls.calls import Invocation
from ..calls.futures import Future
from ..handles.rref import RRef
from ..values.wrapper import ByValue


class Resolving:
    """The arguments of one task, until all their values are there."""

    def __init__(
        self,
        function: ByValue,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        chain: tuple[Busy, ...],
    ) -> None:
        self._invocation: Invocation = function.function, args, kwargs
        self._futures: dict[RRefId, Future[Any]] = {}
        self._left = 0
        self._lock = threading.Lock()
        try:
            for each in (*args, *kwargs.values()):
                if isinstance(each, RRef) and each.id not in self._futures:
                    future = self._futures[each.id] = each._fetch(None, chain, direct=True)
                    future.overlooked = True  # the first error becomes the task's
        except BaseException:
            self.give_up()
            raise

    def then(self, ready: Callable[[], object]) -> None:
        """Call *ready* when all values have come, maybe at once; in any thread."""
        self._left = len(self._futures)
        if not self._futures:
            ready()
            return

        def count(future: Any) -> None:
            if future.failed and not future.cancelled():
                self.give_up()  # the others are not waited for
            with self._lock:
                self._left -= 1
                if self._left:
                    return
            ready()

        for future in list(self._futures.values()):
            concurrent.futures.Future.add_done_callback(future, count)

    @property
    def futures(self) -> tuple[Future[Any], ...]:
        return tuple(self._futures.values())

    def give_up(self) -> None:
        """Cancel the fetches, as the values are no longer wanted."""
        for future in list(self._futures.values()):
            future.cancel()

    def take(self) -> Invocation:
        """The function and its arguments, with values for references, of which none is kept.

        Raises the error that took the place of a value.
        """
        function, args, kwargs = self._invocation
        futures, self._futures = self._futures, {}
        del self._invocation
        for future in futures.values():
            if future.failed and not future.cancelled():
                future.result()
        values = {rref: future.result() for rref, future in futures.items()}

        def value(each: Any) -> Any:
            return values[each.id] if isinstance(each, RRef) else each

        by_name = {name: value(each) for name, each in kwargs.items()}
        return function, tuple(map(value, args)), by_name

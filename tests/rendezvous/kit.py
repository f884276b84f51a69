"""A backend and a store in memory, and times for the tests."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from farref.elastic import RendezvousBackend, RendezvousConnectionError, Timeouts

if TYPE_CHECKING:
    from concurrent.futures import Future

    from farref.elastic import DynamicRendezvousHandler, RendezvousInfo

SHORT = Timeouts(join=30, last_call=0.3, close=10, heartbeat=5, keep_alive=0.4, attempts=5)
FAIR = replace(SHORT, last_call=2.0)
"""For rounds that could form with fewer nodes than the test starts: on a busy machine some come
late."""


class MemoryBackend(RendezvousBackend):
    """The state of one run, for threads of one process. Tests can corrupt, cut off and stop it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.stored: tuple[bytes, int] | None = None
        self.versions = 0

    @property
    def name(self) -> str:
        return "memory"

    def get_state(self) -> tuple[bytes, Any] | None:
        with self._lock:
            return self.stored

    def set_state(self, state: bytes, token: Any = None) -> tuple[bytes, Any, bool] | None:
        with self._lock:
            now = None if self.stored is None else self.stored[1]
            has_set = type(token) is type(now) and token == now
            if has_set:
                self.versions += 1
                self.stored = state, self.versions
            return None if self.stored is None else (*self.stored, has_set)


class Line(RendezvousBackend):
    """One node's way to a backend; it can be cut, and it can hang."""

    def __init__(self, backend: RendezvousBackend) -> None:
        self._backend = backend
        self.cut = False
        self.open = threading.Event()
        self.open.set()

    @property
    def name(self) -> str:
        return self._backend.name

    def _pass(self) -> None:
        self.open.wait(60)
        if self.cut:
            raise RendezvousConnectionError("the line is cut")

    def get_state(self) -> tuple[bytes, Any] | None:
        self._pass()
        return self._backend.get_state()

    def set_state(self, state: bytes, token: Any = None) -> tuple[bytes, Any, bool] | None:
        self._pass()
        return self._backend.set_state(state, token)


class MemoryStore(dict[str, bytes]):
    """What the tests use of a store of torch's, for threads of one process."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return self.keys() >= {*keys}


def joining(handler: DynamicRendezvousHandler) -> Future[RendezvousInfo]:
    """The node joins, in a thread of its own."""
    thread = ThreadPoolExecutor(1)
    joined = thread.submit(handler.next_rendezvous)
    thread.shutdown(wait=False)
    return joined


def meet(*handlers: DynamicRendezvousHandler) -> list[RendezvousInfo]:
    """All join at once; returns the view of the round that each one gets."""
    return [each.result(60) for each in [joining(handler) for handler in handlers]]

"""Backends and stores for the tests: one in memory, a real etcd, torch's TCPStore."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from farref.elastic import (
    RendezvousBackend,
    RendezvousConnectionError,
    Timeouts,
)
from farref.protocol.ids import WorkerId
from farref.protocol.store import Op, Table

from ..etcd import Etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref.protocol.store import Change

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


class MemoryStore:
    """The data behind the stores of the rounds, for threads of one process."""

    def __init__(self) -> None:
        self._table = Table()
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self.timeout = timedelta(seconds=10)

    def set_timeout(self, timeout: timedelta) -> None:
        self.timeout = timeout

    def _change(self, what: Change, keys: list[str], *values: bytes | str, amount: int = 0) -> Any:
        coded = tuple(each.encode() if isinstance(each, str) else each for each in values)
        with self._changed:
            number = next(self._numbers)
            op = Op(WorkerId("caller", 1), number, number, what, tuple(keys), coded, amount)
            self._changed.notify_all()
            return self._table.do(op)

    def set(self, key: str, value: bytes | str) -> None:
        self._change("set", [key], value)

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str]) -> list[bytes]:
        self.wait(keys)
        return [self._table.values[key] for key in keys]

    def multi_set(self, keys: list[str], values: list[bytes | str]) -> None:
        self._change("set", keys, *values)

    def add(self, key: str, amount: int) -> int:
        return int(self._change("add", [key], amount=amount))

    def append(self, key: str, value: bytes | str) -> None:
        self._change("append", [key], value)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        seconds = (timeout or self.timeout).total_seconds()
        with self._changed:
            if not self._changed.wait_for(lambda: self.check(keys), seconds):
                raise TimeoutError(f"{keys} were not set in {seconds} s")

    def check(self, keys: list[str]) -> bool:
        return self._table.has(tuple(keys))

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        return bytes(self._change("compare_set", [key], expected, value))

    def delete_key(self, key: str) -> bool:
        return bool(self._change("delete", [key]))

    def num_keys(self) -> int:
        return len(self._table.values)


@contextmanager
def etcd_server(folder: Path) -> Iterator[int]:
    """A real etcd on loopback while the context lasts; yields the port of its clients."""
    with Etcd(folder) as etcd:
        yield etcd.port

"""The viewer's side of `watching`: a program that follows the steps of a system."""

from __future__ import annotations

import queue
import time
from typing import Any, Self

from ...protocol.errors import SystemDownError
from ...protocol.ids import WorkerId
from ..wire.messages import Traced, Watch, WorkerInfo
from .system import System

LOOK = 0.25
"""Seconds between two checks for new endpoints."""
PAUSE = 0.05
"""Seconds that an endpoint has to collect lines before the viewer asks for the next batch."""


class Watching:
    """The viewer's side: the lines of all endpoints of a system that this program attached to.

    A context manager; leaving it ends the recording. Without *tables* the endpoints leave out what
    they know when the recording begins, which holds them up if it is much.
    """

    def __init__(self, system: System, *, tables: bool = True) -> None:
        self._system = system
        self._tables = tables
        self._core = system.endpoint.core
        self._watchers = system.endpoint.watchers
        self._came: queue.Queue[Traced] = queue.Queue()
        self._watched: dict[WorkerId, WorkerInfo] = {}
        self._taken: dict[WorkerId, int] = {}
        self._looked = 0.0

    def __enter__(self) -> Self:
        self._watchers.listener = self._came.put
        return self

    def __exit__(self, *_: Any) -> None:
        self._watchers.listener = None
        me = self._me()
        for each in self._watched.values():
            self._core.port.post(each.address, Watch(me, on=False))

    def workers(self) -> list[WorkerInfo]:
        return list(self._watched.values())

    def ended(self) -> bool:
        return self._core.closed

    def lines(self, timeout: float) -> list[str]:
        """The new lines. Waits for the first one for at most *timeout* seconds.

        Raises `SystemDownError` when the system has ended and no line is left to read.
        """
        end = time.monotonic() + timeout
        lines: list[str] = []
        while not lines:
            if self._came.empty():
                self._core.check_open()
                self._look()
            try:
                left = max(0.0, min(end - time.monotonic(), LOOK))
                came = [self._came.get(timeout=left)]
            except queue.Empty:
                if time.monotonic() >= end:
                    break
                continue
            time.sleep(min(PAUSE, max(0.0, end - time.monotonic())))
            while not self._came.empty():
                came.append(self._came.get())
            for traced in came:
                # Not `splitlines`: a name may hold other line breaks.
                lines += filter(None, traced.lines.split("\n"))
                self._ask(traced.worker, traced.number)
        return lines

    def _look(self) -> None:
        """Watch the endpoints that have joined since."""
        if time.monotonic() < self._looked + LOOK:
            return
        for info in self._system.workers():
            if info.id != self._core.me and info.id not in self._watched:
                self._watched[info.id] = info
                self._ask(info.id, 0)
        self._looked = time.monotonic()

    def _ask(self, worker: WorkerId, taken: int) -> None:
        if not self._core.closed and worker in self._watched:
            address = self._watched[worker].address
            watch = Watch(self._me(), taken=taken, tables=self._tables)
            self._core.port.post(address, watch)

    def _me(self) -> WorkerInfo:
        address = self._core.address
        if address is None:
            raise SystemDownError(f"{self._core.me} has joined no system, so it can watch none")
        return WorkerInfo(self._core.me, address)

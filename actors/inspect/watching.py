"""Watching a running system: its endpoints send their steps to a viewer, as long as it watches.

The viewer is a program that has attached. It tells each endpoint to record (`Watch`), even in a
system that was started without tracing, and gets the lines by message (`Traced`), from any host.
An endpoint sends one batch, and the next one when the viewer has taken it. So a slow viewer costs a
buffer, and no more. When the buffer is full, further steps are not kept: the trace has a gap, and
goes on with the endpoint's tables at that time, if the viewer wants these.

Nothing stays on. An endpoint stops when the viewer says so, or when it learns of the viewer's
death. Then it records nothing and costs nothing, as before.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from ...protocol.ids import WorkerId
from ..core.core import Core, Internal
from ..wire.messages import Traced, Watch, WorkerInfo

KEPT = 8 << 20
"""The most bytes of lines that wait for a viewer."""
BATCH = 256 << 10
"""The bytes of one message to a viewer, or one line more."""
LATE = 0.01
"""Seconds that lines are collected before they are sent."""


class StepStream:
    """The lines of one endpoint on their way to one viewer. A sink of a `Tracer`.

    A thread of its own posts them: nothing may be sent under the endpoint's lock.
    """

    def __init__(self, core: Core, viewer: WorkerInfo, *, tables: bool) -> None:
        self._core = core
        self._viewer = viewer
        self.tables = tables
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._came = threading.Event()
        self._sent = self._taken = 0
        self._closed = False
        self.full = False
        """Lines were dropped, and the trace must begin anew."""
        core.threads.start(self._push_on, f"farref watched by {viewer.id}")

    def store(self, lines: bytes) -> None:
        """Keep *lines* for the viewer, or drop them if the buffer is full."""
        with self._lock:
            if self.full or self._closed:
                return
            if self._size + len(lines) > KEPT:
                self.full = True
                return
            self._waiting.append(lines)
            self._size += len(lines)
        if not self._came.is_set():
            self._came.set()

    def _push_on(self) -> None:
        while not self._closed:
            self._came.wait()
            time.sleep(LATE)
            self._came.clear()
            self._post()

    def taken(self, number: int) -> None:
        """Take note that the viewer has all batches up to *number*."""
        with self._lock:
            self._taken = max(self._taken, number)
        self._post()

    def begin_anew(self) -> bool:
        """End a gap, if all lines before it have been sent. Returns whether one has ended."""
        with self._lock:
            if not self.full or self._waiting:
                return False
            self.full = False
            return True

    def _post(self) -> None:
        with self._lock:
            if self._closed or self._taken < self._sent or not self._waiting:
                return
            batch, size = [], 0
            while self._waiting and size < BATCH:
                size += len(self._waiting[0])
                batch.append(self._waiting.popleft())
            self._size -= size
            self._sent += 1
            traced = Traced(self._core.me, self._sent, b"".join(batch).decode())
        with contextlib.suppress(Exception):  # an unreachable viewer is dead, or will be
            self._core.port.post(self._viewer.address, traced)

    def close(self) -> None:
        """Stop: no more lines will come."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
        self._came.set()


class Watchers(Internal):
    """The viewers of one endpoint. In the mailbox thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._streams: dict[WorkerId, StepStream] = {}
        self.listener: Callable[[Traced], None] | None = None
        """Takes the batches, if this endpoint is a viewer itself."""
        core.on_deaths.append(self._died)
        core.takers |= {Watch: self.watch, Traced: self.traced}

    def watch(self, message: Watch) -> None:
        """Handle a viewer's message: it begins, goes on or stops."""
        core, viewer = self._core, message.viewer
        if not message.on:
            self._died((viewer.id,))
            return
        stream = self._streams.get(viewer.id)
        with core.lock:
            if core.closed or viewer.id in core.context.dead:
                return
            if stream is None:
                stream = self._streams[viewer.id] = StepStream(core, viewer, tables=message.tables)
                self._begin(stream)
            elif stream.begin_anew():
                self._begin(stream)
        stream.taken(message.taken)

    def _begin(self, stream: StepStream) -> None:
        from ..recording.tables_json import tables_of  # noqa: PLC0415 - few users watch

        core = self._core
        tables = tables_of(core.context) if stream.tables else None
        core.record().begin(stream, core.settings.sharing, tables)

    def _died(self, workers: tuple[WorkerId, ...]) -> None:
        core = self._core
        for worker in workers:
            stream = self._streams.pop(worker, None)
            if stream is not None:
                with core.lock:
                    tracer = core.record()
                    tracer.remove(stream)
                    if not tracer.sinks:
                        core.record_no_more()

    def traced(self, message: Traced) -> None:
        """Take a batch, if this endpoint is a viewer."""
        if self.listener is not None:
            self.listener(message)

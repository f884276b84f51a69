"""Watching a running system: its endpoints tell a viewer their steps, for as long as it is there.

The viewer is a program that has attached. It tells each endpoint to record (`Watch`), whether the
system was started with tracing or not, and gets the lines by message (`Traced`), from whatever
host. An endpoint sends one batch and waits until the viewer has taken it: so a viewer that is slow
costs a buffer, and no more. When that is full the steps are not kept: the trace has a gap, and
goes on with the endpoint's tables as they are then.

Nothing stays on. An endpoint stops when the viewer says so, and when it learns of the viewer's
death, as of any endpoint's; and then it records nothing and costs nothing, as before.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from ..core.core import Internal
from ..recording.tables_json import tables_of
from ..wire.messages import Traced, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.ids import WorkerId
    from ..core.core import Core
    from ..wire.messages import WorkerInfo

KEPT = 8 << 20
"""Bytes of lines that wait for a viewer, at most."""
BATCH = 256 << 10
"""Bytes that one message to a viewer has, or a line more."""
LATE = 0.01
"""Seconds that lines are collected before they leave."""


class Stream:
    """The lines of one endpoint on their way to one viewer. A sink of a `Tracer`.

    A thread of its own posts them: nothing may be sent under the endpoint's lock.
    """

    def __init__(self, core: Core, viewer: WorkerInfo) -> None:
        self._core = core
        self._viewer = viewer
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._came = threading.Event()
        self._sent = self._taken = 0
        self._closed = False
        self.full = False
        """Lines were not kept, and it shall begin anew."""
        name = f"farref watched by {viewer.id}"
        threading.Thread(target=self._push_on, name=name, daemon=True).start()

    def store(self, lines: bytes) -> None:
        """What is too much is not kept."""
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
        """The viewer has what was sent, up to batch *number*."""
        with self._lock:
            self._taken = max(self._taken, number)
        self._post()

    def begin_anew(self) -> bool:
        """Whether there was a gap, and all before it has been sent: there is none any more."""
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
        with contextlib.suppress(Exception):  # a viewer that cannot be reached is gone, or will be
            self._core.port.post(self._viewer.address, traced)

    def close(self) -> None:
        """No more will come."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
        self._came.set()


class Watchers(Internal):
    """Who watches one endpoint. In the mailbox thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._streams: dict[WorkerId, Stream] = {}
        self.listener: Callable[[Traced], None] | None = None
        """What takes the batches, if this endpoint is a viewer itself."""
        core.on_deaths.append(self._died)
        core.takers |= {Watch: self.watch, Traced: self.traced}

    def watch(self, message: Watch) -> None:
        """A viewer begins, goes on or stops to watch."""
        core, viewer = self._core, message.viewer
        if not message.on:
            self._died((viewer.id,))
            return
        stream = self._streams.get(viewer.id)
        with core.lock:
            if core.closed or viewer.id in core.context.dead:
                return
            if stream is None:
                stream = self._streams[viewer.id] = Stream(core, viewer)
                self._begin(stream)
            elif stream.begin_anew():
                self._begin(stream)
        stream.taken(message.taken)

    def _begin(self, stream: Stream) -> None:
        core = self._core
        tables = tables_of(core.context)
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
        """A batch came in."""
        if self.listener is not None:
            self.listener(message)

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
import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from ..protocol.errors import SystemDownError
from .tables_json import tables_of
from .wire import Traced, Watch, WorkerInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.ids import WorkerId
    from .endpoint import Endpoint
    from .system import System

KEPT = 8 << 20
"""Bytes of lines that wait for a viewer, at most."""
BATCH = 256 << 10
"""Bytes that one message to a viewer has, or a line more."""
LATE = 0.01
"""Seconds that lines are collected before they leave."""
LOOK = 0.25
"""Seconds between two looks at who is in the system."""
PAUSE = 0.05
"""Seconds that a viewer lets an endpoint collect before it asks for the next batch."""


class Stream:
    """The lines of one endpoint on their way to one viewer. A sink of a `Tracer`.

    A thread of its own posts them: nothing may be sent under the endpoint's lock.
    """

    def __init__(self, endpoint: Endpoint, viewer: WorkerInfo) -> None:
        self._endpoint = endpoint
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
            traced = Traced(self._endpoint.me, self._sent, b"".join(batch).decode())
        with contextlib.suppress(Exception):  # a viewer that cannot be reached is gone, or will be
            self._endpoint.port.post(self._viewer.address, traced)

    def close(self) -> None:
        """No more will come."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
        self._came.set()


class Watchers:
    """Who watches one endpoint. In the mailbox thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._streams: dict[WorkerId, Stream] = {}
        self.listener: Callable[[Traced], None] | None = None
        """What takes the batches, if this endpoint is a viewer itself."""
        endpoint.deaths.listeners.append(self._died)

    def watch(self, message: Watch) -> None:
        """A viewer begins, goes on or stops to watch."""
        endpoint, viewer = self._endpoint, message.viewer
        if not message.on:
            self._died((viewer.id,))
            return
        stream = self._streams.get(viewer.id)
        with endpoint.lock:
            if endpoint.closed or viewer.id in endpoint.context.dead:
                return
            if stream is None:
                stream = self._streams[viewer.id] = Stream(endpoint, viewer)
                self._begin(stream)
            elif stream.begin_anew():
                self._begin(stream)
        stream.taken(message.taken)

    def _begin(self, stream: Stream) -> None:
        endpoint = self._endpoint
        tables = tables_of(endpoint.context)
        endpoint.record().begin(stream, endpoint.settings.sharing, tables)

    def _died(self, workers: tuple[WorkerId, ...]) -> None:
        endpoint = self._endpoint
        for worker in workers:
            stream = self._streams.pop(worker, None)
            if stream is not None:
                with endpoint.lock:
                    tracer = endpoint.record()
                    tracer.remove(stream)
                    if not tracer.sinks:
                        endpoint.record_no_more()

    def traced(self, message: Traced) -> None:
        """A batch came in."""
        if self.listener is not None:
            self.listener(message)


class Watching:
    """The viewer's side: the lines of all endpoints of a system that this program attached to.

    A context manager; leaving it ends the recording, and leaves the system.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._endpoint = system.endpoint
        self._came: queue.Queue[Traced] = queue.Queue()
        self._watched: dict[WorkerId, WorkerInfo] = {}
        self._taken: dict[WorkerId, int] = {}
        self._looked = 0.0

    def __enter__(self) -> Self:
        self._endpoint.watchers.listener = self._came.put
        return self

    def __exit__(self, *_: Any) -> None:
        self._endpoint.watchers.listener = None
        me = self._me()
        for each in self._watched.values():
            self._endpoint.port.post(each.address, Watch(me, on=False))
        self._system.shutdown()

    def workers(self) -> list[WorkerInfo]:
        """Whom it watches."""
        return list(self._watched.values())

    def ended(self) -> bool:
        """Whether the system has ended."""
        return self._endpoint.closed

    def lines(self, timeout: float) -> list[str]:
        """What has come, waiting for at most *timeout* seconds for the first of it.

        Raises `SystemDownError` when the system has ended and nothing is left to be read.
        """
        end = time.monotonic() + timeout
        lines: list[str] = []
        while not lines:
            if self._came.empty():
                self._endpoint.check_open()
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
                lines += traced.lines.splitlines()
                self._ask(traced.worker, traced.number)
        return lines

    def _look(self) -> None:
        """Watch those that have come since."""
        if time.monotonic() < self._looked + LOOK:
            return
        for info in self._system.workers():
            if info.id != self._endpoint.me and info.id not in self._watched:
                self._watched[info.id] = info
                self._ask(info.id, 0)
        self._looked = time.monotonic()

    def _ask(self, worker: WorkerId, taken: int) -> None:
        if not self._endpoint.closed and worker in self._watched:
            address = self._watched[worker].address
            self._endpoint.port.post(address, Watch(self._me(), taken=taken))

    def _me(self) -> WorkerInfo:
        address = self._endpoint.address
        if address is None:
            raise SystemDownError(
                f"{self._endpoint.me} has not joined a system that could be watched"
            )
        return WorkerInfo(self._endpoint.me, address)

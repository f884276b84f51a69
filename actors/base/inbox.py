"""The messages that were received but not handled yet, fairly ordered.

Each connection has its own queue, and so has the process itself (wake-ups, messages to
self, results of signals).  The run loop takes a few messages from one queue, then from
the next, so a flood from one peer delays the others by a few messages, not by the flood.

A queue that is too long asks its connection to stop reading.  The rest then waits in the
kernel and, once that is full, with the sender: that is the back-pressure.  The exception is
a process that itself waits for room to send (:meth:`Inbox.relax`): if it stopped reading,
two actors that flood each other would wait for each other for ever.

Messages are unpickled when they are delivered, not when they are read: unpickling runs
code of the user (``__setstate__``), which belongs into the thread that handles messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._thespian import ActorAddress
    from .envelopes import Received
    from .framing import Part

QUANTUM: Final = 16  # messages from one source before those of the next


class Source(Protocol):
    """A queue that may have something to deliver."""

    in_ring: bool

    def __len__(self) -> int: ...

    def reconsider_reading(self, *, relaxed: bool) -> None:
        """Start or stop reading, by the length of the queue."""


class LocalSource:
    """The messages of this process to itself.  ``append`` is safe in any thread."""

    __slots__ = ("in_ring", "queue")

    def __init__(self) -> None:
        self.queue: deque[Received] = deque()
        self.in_ring = False

    def __len__(self) -> int:
        return len(self.queue)

    def reconsider_reading(self, *, relaxed: bool) -> None:
        """Nothing is read for this one."""


class Inbox:
    """The ring of sources that have messages.

    Used by the running thread only, except that any thread may :meth:`add` the local source.
    """

    __slots__ = ("_left", "raw", "raws", "relaxed", "ring")

    def __init__(self) -> None:
        self.ring: deque[Source] = deque()
        self.raw: Callable[[Part, ActorAddress], object] | None = None
        """While the loop looks at the sockets: takes the data of a `RAW` frame that came alone,
        which are good until it returns, and its sender, without a queue."""
        self.raws: Callable[[list[bytes], ActorAddress], object]
        """The same for several frames."""
        self._left = QUANTUM
        self.relaxed = False

    def __bool__(self) -> bool:
        return bool(self.ring)

    def add(self, source: Source) -> None:
        """*source* has something to deliver, at the latest when this is called."""
        if not source.in_ring:
            source.in_ring = True
            self.ring.append(source)

    def next(self) -> Source | None:
        """The source to deliver one message from."""
        while self.ring:
            source = self.ring[0]
            if not source:
                self.ring.popleft()
                source.in_ring = False
                if source:  # another thread added in between, and saw it in the ring
                    self.add(source)
                self._left = QUANTUM
                continue
            if self._left == 0:
                self.ring.rotate(-1)
                self._left = QUANTUM
                continue
            self._left -= 1
            return source
        return None

    def relax(self, relaxed: bool) -> None:
        """While *relaxed*, read everything, however long the queues are."""
        self.relaxed = relaxed
        for source in list(self.ring):
            source.reconsider_reading(relaxed=relaxed)

"""The messages that were received but not handled yet, fairly ordered.

Each connection has its own queue, and so has the process itself (wake-ups, messages to
self, results of signals).  The run loop takes a few messages from one queue, then from
the next, so a flood from one peer delays the others by a few messages, not by the flood.

A queue that is too long asks its connection to stop reading.  The rest then waits in the
kernel and, once that is full, with the sender: that is the back-pressure.  A process that itself
waits for room to send goes on reading (:meth:`Inbox.relax`), because otherwise two actors that
flood each other would wait for each other for ever.

Messages are unpickled when they are delivered, not when they are read: unpickling runs the user's
code (``__setstate__``), which belongs in the thread that handles messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

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


class LocalSource(deque[Received]):
    """The messages of this process to itself.  ``append`` is safe in any thread."""

    in_ring = False

    def reconsider_reading(self, *, relaxed: bool) -> None:
        """Nothing is read for this one."""


class Inbox:
    """The ring of sources that have messages.

    Only the thread that runs the loop uses it, except that any may :meth:`add` the local source.
    """

    __slots__ = ("_left", "raw", "raws", "relaxed", "ring")

    def __init__(self) -> None:
        self.ring: deque[Source] = deque()
        self.raw: Callable[[Part, ActorAddress], object] | None = None
        """Takes the data of a `RAW` frame that came alone, and its sender, without a queue, while
        the loop reads from the sockets.  The data are valid until it returns."""
        self.raws: Callable[[list[bytes], ActorAddress], object]
        """The same for several frames."""
        self._left = QUANTUM
        self.relaxed = False

    def add(self, source: Source) -> None:
        """Deliver from *source*, which must have something to deliver by now."""
        if not source.in_ring:
            source.in_ring = True
            self.ring.append(source)

    def next(self) -> Source | None:
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

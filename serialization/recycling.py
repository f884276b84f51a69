"""Segments that nobody reads any more, kept for a moment to be written to again.

New pages of shared memory are made, and cleared, by the kernel, one by one, and freed one by one:
that takes ten times as long as copying into pages that are there. So a segment whose message has
arrived is *kept*, with the mapping by which this process, and nobody else, can write to it, until

* a value that fits is to be sent, and nobody reads it: then it is that value's segment;
* or it is `SECONDS` old, too many are kept, or memory is short: then it is closed.

**Nobody reads it** is the kernel's word, not a reader's. Who opens a segment takes a shared lock on
what it opened (``flock``), which the kernel keeps until nobody has that open or mapped any more:
not the reader, and no process that it forked, however they end. So when we get the exclusive lock
there is no reader; and while we have it, and write, nobody can become one. Whoever comes with an
old message finds another name at the end, where the segment's was, and takes it for gone (see
`shared`).

Called by finalizers, in any thread: nothing here waits for a lock.
"""

from __future__ import annotations

import _thread
import contextlib
import fcntl
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 10.0
"""How long a segment is kept for a value to come, about."""
MOST_BYTES = 256 << 20
"""Bytes that one process keeps at most, unless it is a single segment."""
MOST = 16
"""Segments that it keeps at most."""
SPARE = 1 << 16
"""Bytes that a value may waste of a segment, or as many as it has itself."""
LOOKS = 1.0
"""Seconds between two looks for old ones."""


class Kept(NamedTuple):
    """A segment that may be written to again."""

    descriptor: int
    size: int
    """Bytes, with all that is not the value's."""
    since: float


class Recycler:
    """The kept segments of one process."""

    def __init__(
        self, close: Callable[[int], None], close_soon: Callable[[int, int], None]
    ) -> None:
        """*close* gives a descriptor back; *close_soon* one of so many bytes, and takes no time."""
        self._close = close
        self._close_soon = close_soon
        self._kept: deque[Kept] = deque()
        self._watched = False

    def keep(self, descriptor: int, size: int) -> bool:
        """Take a segment that may have readers still; false if it is to be closed."""
        one = Kept(descriptor, size, time.monotonic())
        self._kept.append(one)  # before it is asked who looks: that thread ends where nothing is
        if not self._watch() and self._take(one):
            return False
        while _too_many(kept := self._now()):
            if self._take(kept[0]):
                self._close_soon(kept[0].descriptor, kept[0].size)
        return True

    def find(self, size: int) -> Kept | None:
        """One of *size* bytes or not much more, locked, which nobody reads; None if there is none.

        It is the caller's from now on, to be written to and unlocked.
        """
        for each in reversed(self._now()):
            if size <= each.size <= size + max(size, SPARE) and self._take(each):
                if _locked(each.descriptor):
                    return each
                self._kept.append(each)
        return None

    def empty(self) -> None:
        """Close all that is kept."""
        self._close_before(float("inf"))

    def forget(self) -> None:
        """In a forked child: they are its parent's."""
        self._kept.clear()
        self._watched = False

    def _now(self) -> list[Kept]:
        return list(self._kept)  # `tuple` may have the collector run, and that keep one more

    def _take(self, one: Kept) -> bool:
        """Whether it was there still: what two threads find is one's only."""
        with contextlib.suppress(ValueError):
            self._kept.remove(one)
            return True
        return False

    def _close_before(self, time_kept: float) -> None:
        for each in self._now():
            if each.since < time_kept and self._take(each):
                self._close(each.descriptor)

    def _watch(self) -> bool:
        """Have a thread look for old ones; false if there is none to be had."""
        if not self._watched:
            self._watched = True
            try:
                # Not `threading`'s: finalizers must not wait for its lock.
                _thread.start_new_thread(self._look, ())
            except RuntimeError:
                self._watched = False
        return self._watched

    def _look(self) -> None:
        while self._watched:
            time.sleep(LOOKS)
            with contextlib.suppress(OSError, BufferError):  # the others' turn comes
                self._close_before(time.monotonic() - SECONDS)
            if not self._kept:
                self._watched = False
                if self._kept:  # another one has been kept just now
                    self._watched = True


def _too_many(kept: list[Kept]) -> bool:
    size = sum(each.size for each in kept)
    return len(kept) > MOST or (len(kept) > 1 and size > MOST_BYTES)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

"""Keeps segments without readers for a moment, to write to them again.

That saves the kernel's work for new pages (docs/values.md). A segment is *kept* after its message
has arrived, with the mapping by which only this process can write to it, until a fitting value is
sent and no process reads the segment, or until it is `SECONDS` old, too many are kept, or memory is
short.

**The kernel knows the readers.** A process that opens a segment takes a shared lock on it
(``flock``). The kernel keeps the lock until no process has the file open or mapped any more,
including the reader's forked children, however they end. So when we get the exclusive lock there is
no reader, and while we hold it and write, there can be none.

Finalizers call this, in any thread: nothing here waits for a lock.
"""

from __future__ import annotations

import _thread
import contextlib
import fcntl
import time
from collections import deque
from collections.abc import Callable

import msgspec

SECONDS = 10.0
"""About how long a segment is kept."""
MOST_BYTES = 256 << 20
"""The most bytes that one process keeps, unless in a single segment."""
MOST = 16
"""The most segments that it keeps."""
SPARE = 1 << 16
"""The bytes of a segment that a value may waste; a larger value may waste its own size."""
LOOKS = 1.0
"""Seconds between two looks for old ones."""


class KeptSegment(msgspec.Struct, frozen=True):
    """A segment that may be written to again."""

    descriptor: int
    size: int
    """Bytes of the whole file."""
    since: float


class Recycler:
    def __init__(
        self, close: Callable[[int], None], close_soon: Callable[[int, int], None]
    ) -> None:
        """*close* closes a descriptor; *close_soon* closes one of so many bytes without waiting."""
        self._close = close
        self._close_soon = close_soon
        self._kept: deque[KeptSegment] = deque()
        self.keep: Callable[[KeptSegment], None] = self._kept.append
        """Take a segment that may still have readers. `look_after` it next.

        It is C, so no interrupt comes between the caller's last step and this one.
        """
        self._watched = False

    def look_after(self, one: KeptSegment) -> None:
        """Have it closed later, or now if that cannot be done or too many are kept.

        It is kept already: the watching thread ends when nothing is.
        """
        if not self._watch() and self._take(one):
            self._close_soon(one.descriptor, one.size)
        while _too_many(kept := self._now()):
            if self._take(kept[0]):
                self._close_soon(kept[0].descriptor, kept[0].size)

    def find(self, size: int) -> KeptSegment | None:
        """A locked segment without readers, of *size* bytes or little more; None if there is none.

        The caller owns it from now on: it writes to the segment and unlocks it.
        """
        for each in reversed(self._now()):
            if not size <= each.size <= size + max(size, SPARE):
                continue
            try:
                self._kept.remove(each)  # of two threads that find it, only one gets it
                if _locked(each.descriptor):
                    return each
            except ValueError:
                continue
            except BaseException:  # an interrupt: nobody else has it
                self._kept.append(each)
                raise
            self._kept.append(each)
        return None

    def empty(self) -> None:
        self._close_before(float("inf"))

    def forget(self) -> None:
        """In a forked child: drop the parent's segments."""
        self._kept.clear()
        self._watched = False

    def _now(self) -> list[KeptSegment]:
        return list(self._kept)  # `tuple` may run the garbage collector, which may call `keep`

    def _take(self, one: KeptSegment) -> bool:
        """Whether it was still kept: of two threads that find it, only one gets it."""
        with contextlib.suppress(ValueError):
            self._kept.remove(one)
            return True
        return False

    def _close_before(self, time_kept: float) -> None:
        for each in self._now():
            if each.since < time_kept and self._take(each):
                self._close(each.descriptor)

    def _watch(self) -> bool:
        """Have a thread look for old ones; false if no thread can be started."""
        if not self._watched:
            self._watched = True
            try:
                # Not a `threading.Thread`: finalizers must not wait for its lock.
                _thread.start_new_thread(self._look, ())
            except RuntimeError:
                self._watched = False
            except BaseException:  # an interrupt: the next one that is kept gets a thread
                self._watched = False
                raise
        return self._watched

    def _look(self) -> None:
        while self._watched:
            time.sleep(LOOKS)
            with contextlib.suppress(OSError, BufferError):  # the others' turn comes
                self._close_before(time.monotonic() - SECONDS)
            if not self._kept:
                self._watched = False
                if self._kept:  # another thread has just kept one
                    self._watched = True


def _too_many(kept: list[KeptSegment]) -> bool:
    size = sum(each.size for each in kept)
    return len(kept) > MOST or (len(kept) > 1 and size > MOST_BYTES)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

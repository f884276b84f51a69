"""The file of one endpoint's steps, of which no kill of its process takes one along.

The file is mapped into memory, a piece at a time, and lines are stored there. That asks nothing of
the operating system, so it takes a fraction of a write's time and hands no other thread the
interpreter; and what was stored is in the file whatever becomes of the process (not of the
machine). So nothing has to be flushed, and there is no thread for it.

Room for a piece is reserved before it is mapped, because a store for which the disk has no room
would kill the process. What is not filled yet reads as zero bytes; they are cut off at the end, and
a reader leaves those of a killed process out.

A child that this process forks has the same mapping: it must neither store nor cut anything there,
so it lets go of it at once.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from ..features import has

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.ids import WorkerId

PIECE = 256 << 10
"""Bytes of the file that are mapped at a time, and of zeros that a killed process may leave."""
_POPULATE_WRITE = 23
"""`MADV_POPULATE_WRITE` of Linux 5.14, for which Python has no name."""
_open: weakref.WeakSet[FileSink] = weakref.WeakSet()


class FileSink:
    """The file of the endpoint *me* in *folder*. A sink of a `Tracer`."""

    def __init__(self, folder: str, me: WorkerId) -> None:
        """Raises `OSError` if there can be no such file."""
        Path(folder).mkdir(parents=True, exist_ok=True)  # on another host nobody has made it
        path = Path(folder) / f"{me.name.replace('/', '_')}-{me.incarnation:x}.jsonl"
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._start = os.fstat(self._file).st_size
        """Where in the file the mapping begins; before there is one, the next line."""
        self._mapped: mmap.mmap | None = None
        self.store: Callable[[bytes], object] = self.make_room
        _open.add(self)

    def make_room(self, lines: bytes) -> None:
        """See `Sink.make_room`. What has been let go of takes nothing."""
        if self._file is None:
            return
        end = self._end()
        start = end - end % mmap.ALLOCATIONGRANULARITY
        size = max(PIECE, -(-(end + len(lines) - start) // PIECE) * PIECE)
        _reserve(self._file, start, size)
        mapped = mmap.mmap(self._file, size, offset=start)
        _populate(mapped)
        mapped.seek(end - start)
        mapped.write(lines)
        if self._mapped is not None:
            self._mapped.close()
        self._mapped, self._start, self.store = mapped, start, mapped.write

    def _end(self) -> int:
        """Where the next line goes."""
        return self._start + (self._mapped.tell() if self._mapped is not None else 0)

    def close(self) -> None:
        """See `Sink.close`."""
        if self._file is not None:
            file, end = self._file, self._end()
            self._let_go()
            with contextlib.suppress(OSError):  # then zeros stay, which a reader leaves out
                os.ftruncate(file, end)
            os.close(file)

    def _let_go(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
        self._mapped = self._file = None

    def forget(self) -> None:
        """In a forked child: the file is the parent's alone."""
        if self._file is not None:
            os.close(self._file)
            self._let_go()


def _reserve(file: int, start: int, size: int) -> None:
    """Have the disk keep room for these bytes of *file*. Raises `OSError` if it has none."""
    if has("fallocate"):
        os.posix_fallocate(file, start, size)
        return
    there, end = os.fstat(file).st_size, start + size
    while there < end:  # macOS: what has been written has its place
        there += os.pwrite(file, bytes(end - there), there)


def _populate(mapped: mmap.mmap) -> None:
    """Have its pages in memory, for a fault on each costs a multiple. Raises `OSError`."""
    if not has("populate"):
        return
    try:
        mapped.madvise(_POPULATE_WRITE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 5.14 there are faults
            raise


def _forget_all() -> None:
    for sink in _open:
        sink.forget()


os.register_at_fork(after_in_child=_forget_all)

"""The file of one endpoint's steps, of which no kill of its process takes one along.

The lines of a step are written by one system call, before anybody hears of the step. They are the
operating system's then, and in the file whatever becomes of the process (not of the machine). So
nothing has to be flushed, and there is no thread for it.

The file is not mapped into memory, though that costs half a microsecond less. Truncating a mapped
file kills the process. Lines are appended. So a file that somebody truncates goes on with the next
line, and has no gap.

`os.write` would give other threads the interpreter, under the endpoint's lock, and wait to get it
back. The C library's `write`, called by `ctypes.PyDLL`, keeps it.

A child that this process forks has the same file: it must not write there, so it closes it at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol.ids import WorkerId

_open: weakref.WeakSet[FileSink] = weakref.WeakSet()


class FileSink:
    """The file of the endpoint *me* in *folder*. A sink of a `Tracer`."""

    def __init__(self, folder: str, me: WorkerId) -> None:
        """Raises `OSError` if there can be no such file."""
        Path(folder).mkdir(parents=True, exist_ok=True)  # on another host nobody has made it
        path = Path(folder) / f"{me.name.replace('/', '_')}-{me.incarnation:x}.jsonl"
        self._write = ctypes.PyDLL(None).write
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        _open.add(self)

    def store(self, lines: bytes) -> None:
        """A closed one takes nothing."""
        if self._file is None:
            return
        written = self._write(self._file, lines, len(lines))
        if written != len(lines):
            self._go_on(lines, max(0, written))

    def _go_on(self, lines: bytes, written: int) -> None:
        """Only so much of *lines* was written. Raises `OSError` if the rest cannot be."""
        file = self._file or 0
        try:
            while written < len(lines):
                written += os.write(file, lines[written:])
        except OSError:
            with contextlib.suppress(OSError):  # take back half a line
                os.ftruncate(file, max(0, os.fstat(file).st_size - written))
            raise

    def close(self) -> None:
        """In a forked child it leaves the parent's file as it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _close_all() -> None:
    for sink in _open:
        sink.close()


os.register_at_fork(after_in_child=_close_all)

"""The file of one endpoint's steps. A kill of the process loses no row in it.

One system call writes the rows of a step, before any effect of the step is visible. From then on
the operating system has them. They reach the file even if the process is killed, but not if the
machine fails. So no code has to flush the file, and no thread is needed for that.

The file is not mapped into memory, though that costs half a microsecond less: truncating a mapped
file kills the process. Rows are appended. So if somebody truncates the file, it goes on with the
next row and has no gap.

`os.write` would give other threads the interpreter, under the endpoint's lock, and wait to get it
back. The C library's `write`, called by `ctypes.PyDLL`, keeps it.

A child that this process forks has the same file. The child must not write there, so it closes the
file at once.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

from ...protocol.ids import WorkerId

_open: weakref.WeakSet[FileSink] = weakref.WeakSet()


class FileSink:
    """The file of the endpoint *me* in *folder*. A sink of a `Tracer`."""

    def __init__(self, folder: str, me: WorkerId) -> None:
        """Raises `OSError` if the file cannot be made."""
        Path(folder).mkdir(parents=True, exist_ok=True)  # on another host it does not exist yet
        # A name may hold what no file name can, and be longer; the number makes it unique.
        name = "".join(each if each.isprintable() and each != "/" else "_" for each in me.name[:50])
        path = Path(folder) / f"{name}-{me.incarnation:x}.jsonl"
        import ctypes  # noqa: PLC0415 - few programs have a trace

        self._write = ctypes.PyDLL(None).write
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        _open.add(self)

    def store(self, lines: bytes) -> None:
        """Append *lines*; a closed sink ignores them."""
        if self._file is None:
            return
        written = self._write(self._file, lines, len(lines))
        if written != len(lines):
            self._go_on(lines, max(0, written))

    def _go_on(self, lines: bytes, written: int) -> None:
        """Write *lines* from byte *written* on. Raises `OSError` if that is impossible."""
        file = self._file or 0
        try:
            while written < len(lines):
                written += os.write(file, lines[written:])
        except OSError:
            with contextlib.suppress(OSError):  # remove half a line
                os.ftruncate(file, max(0, os.fstat(file).st_size - written))
            raise

    def close(self) -> None:
        """Close the file; a forked child leaves the parent's file as it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _close_all() -> None:
    for sink in _open:
        sink.close()


os.register_at_fork(after_in_child=_close_all)

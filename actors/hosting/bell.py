"""A bell that wakes a thread which watches file descriptors."""

from __future__ import annotations

import contextlib
import os


class Bell:
    """A file descriptor that becomes readable when it is rung, from any thread."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """The descriptor to watch."""
        return self._read

    def ring(self) -> None:
        """Make it readable. Lock-free."""
        # Full: it rings already. Closed: nobody listens any more.
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    def silence(self) -> None:
        """Take back all ringing."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._read, 4096)) == 4096:
                pass

    def __del__(self) -> None:
        # Not sooner: whoever can still ring holds the bell, and must not ring at a descriptor
        # that has become somebody else's.
        os.close(self._read)
        os.close(self._write)

"""A bell: a thread rings it to wake another that sleeps in ``epoll`` or ``poll``."""

from __future__ import annotations

import os
import sys
from typing import Final

from ...features import has

RING: Final = (1).to_bytes(8, sys.byteorder)  # the number that an `eventfd` counts up by


class Bell:
    """A file descriptor that becomes readable when it is rung: an ``eventfd``, or else a pipe."""

    __slots__ = ("_in", "descriptor")

    def __init__(self) -> None:
        if has("eventfd"):
            self.descriptor = self._in = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self.descriptor, self._in = os.pipe()
            os.set_blocking(self.descriptor, False)
            os.set_blocking(self._in, False)

    def ring(self) -> None:
        """Make it readable.  Any thread, any signal handler, any finalizer: it takes no lock."""
        # Full: it rings already. Closed: no thread listens any more.
        try:  # noqa: SIM105 - `suppress` would call three functions each time
            os.write(self._in, RING)
        except OSError:
            pass

    def silence(self) -> None:
        try:
            while len(os.read(self.descriptor, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close it. Its descriptors may be reused, so do not ring it any more."""
        descriptors = {self.descriptor, self._in} - {-1}
        self.descriptor = self._in = -1
        for each in descriptors:
            os.close(each)

    # If other threads may still ring, leave the closing to this: they hold the bell.
    __del__ = close

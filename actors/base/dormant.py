"""A process that starts when somebody first dials it.

Its parent has bound its sockets, and watches them. A peer that dials waits in the kernel until the
process accepts.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from . import endpoints
from ._thespian import thesplog
from .listener import Sockets
from .poller import READABLE, Poller


class Dormant:
    """The sockets of such a process, in its parent."""

    def __init__(self, sockets: Sockets, poller: Poller, start: Callable[[], None]) -> None:
        self.pid = os.getpid()
        self._sockets = sockets
        self._poller = poller
        self._start = start
        poller.add(sockets.local.fileno(), READABLE, self)
        endpoints.register(self)

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        """Somebody has dialled: start the process."""
        self._let_go()
        try:
            self._start()
        except OSError as error:
            thesplog("%s does not start: %s", self._sockets.address, error, level=40, primary=True)
            self._sockets.discard()

    def settle(self) -> None:
        """Start the process if somebody has dialled by now; otherwise it never starts."""
        dialled = select.poll()
        dialled.register(self._sockets.local, READABLE)
        if dialled.poll(0):
            self.on_event(READABLE)
        else:
            self.close()

    def close(self) -> None:
        """Nobody needs the process."""
        self._let_go()
        self._sockets.discard()

    def abandon(self) -> None:
        """In another child: close the parent's sockets."""
        self._sockets.close()

    def _let_go(self) -> None:
        self._poller.remove(self._sockets.local.fileno())
        endpoints.forget(self)

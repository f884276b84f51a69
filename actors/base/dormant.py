"""A process that starts when somebody dials it, as by socket activation.

Its parent has bound its sockets, and watches them. A peer that dials waits in the kernel until the
process accepts. The parent keeps its copies of the sockets while the process runs. If the process
is killed, the parent watches again, so the next process has the same address, and a peer that dials
in between waits for it.
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
    """The sockets of such a process, in its parent, which watches them until the process starts."""

    def __init__(self, sockets: Sockets, poller: Poller, start: Callable[[], None]) -> None:
        self.pid = os.getpid()
        self._sockets = sockets
        self._poller = poller
        self._start = start
        self._watches = False
        endpoints.live.add(self)
        self.watch()

    def watch(self) -> None:
        """The process does not run: start it when somebody dials."""
        self._watches = True
        self._poller.add(self._sockets.local.fileno(), READABLE, self)

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        """Somebody has dialled: start the process."""
        self._rest()
        endpoints.live.discard(self)  # the process must not close the sockets
        try:
            self._start()
        except OSError as error:
            thesplog("%s does not start: %s", self._sockets.address, error, level=40, primary=True)
            self._sockets.discard()
        else:
            endpoints.live.add(self)

    def finish(self) -> None:
        """Start the process if somebody has dialled by now, and watch no more."""
        if self._watches:
            dialled = select.poll()
            dialled.register(self._sockets.local, READABLE)
            if dialled.poll(0):
                self.on_event(READABLE)
        self.close()

    def close(self) -> None:
        """Watch no more. A process that runs has its own copies of the sockets, and their name."""
        endpoints.live.discard(self)
        if self._watches:
            self._rest()
            self._sockets.discard()
        else:
            self._sockets.close()

    def abandon(self) -> None:
        self._sockets.close()

    def _rest(self) -> None:
        self._watches = False
        self._poller.remove(self._sockets.local.fileno())

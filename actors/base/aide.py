"""The aide: a thread that receives messages and does their short work itself.

Handing a message's work to another thread costs more than most work.  So a process may have an
aide, which runs the loop and does the :class:`Work` between two looks at the sockets.  If the work
takes too long, the resident thread notices (see :mod:`.lead`).  It runs the loop in the meantime,
and has other threads do the rest.  So work delays incoming messages by a millisecond or two at
most, and the thread that Thespian gave us never does any of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sized
from typing import Protocol

from . import forks


class Work(Protocol):
    """The work that messages have left."""

    @property
    def offered(self) -> Sized:
        """The pieces of work."""

    def do(self) -> None:
        """Do some of it.  Raises nothing."""

    def disperse(self) -> None:
        """Have other threads do all of it: this one has no time."""


class Aide:
    """The thread that receives messages and does their short work itself."""

    def __init__(self, work: Work, lead: Callable[[Callable[[], object]], bool]) -> None:
        """*lead* runs the loop until a condition holds, and returns whether it holds."""
        self.work = work
        self._lead = lead
        self._called = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self.identity = 0
        self._pid = forks.pid
        self._ended = False
        self._free = True

    def relieve(self) -> bool:
        """For the resident, which leads: whether to give us the lead, because there is work."""
        if not self.work.offered:
            return False
        if not self._free or self._ended:
            self.work.disperse()
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="farref aide", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can be started
                self.work.disperse()
                return False
            self._thread = thread
        self._free = False
        self._called.release()
        return True

    def end(self) -> None:
        """Begin nothing more."""
        self._ended = True
        self._called.release()

    def _serve(self) -> None:
        self.identity = threading.get_ident()
        do, lead, is_work = self.work.do, self._lead, self.work.offered.__len__
        while True:
            self._called.acquire()
            while not self._ended:
                do()
                if forks.pid != self._pid:  # a job has forked: only the parent leads
                    return
                if not lead(is_work):
                    break
            if self._ended:
                return
            self._free = True

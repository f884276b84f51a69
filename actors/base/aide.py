"""The aide: a thread that receives messages and does the short work that they bring, itself.

To hand a message's work to another thread costs more than most work takes.  So a process may have
an aide, which runs the loop and, between two looks at the sockets, what :class:`Work` has to do.
If that takes longer than expected, the resident thread notices (see :mod:`.lead`), runs the loop in
the meantime, and has others do the rest.  So no work holds up what comes in for longer than a
millisecond or two, whatever it does, and the thread that Thespian gave us never does any.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol


class Work(Protocol):
    """What messages have left to be done."""

    def __bool__(self) -> bool:
        """Whether something waits to be done."""

    def do(self) -> None:
        """Do some of it.  Raises nothing."""

    def disperse(self) -> None:
        """Have others do all of it: nobody has the time here."""


class Aide:
    """The thread that receives messages and does their short work itself."""

    def __init__(self, work: Work, lead: Callable[[Callable[[], bool]], bool]) -> None:
        """*lead* runs the loop until something is true, and says whether it got so far."""
        self._work = work
        self._lead = lead
        self._called = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._identity = 0
        self._pid = os.getpid()
        self._ended = False
        self._free = True

    @property
    def here(self) -> bool:
        """Whether this is the aide's thread."""
        return self._identity == threading.get_ident()

    def relieve(self) -> bool:
        """For the resident, which leads: whether it shall leave that to us, who have work to do."""
        if not self._work:
            return False
        if not self._free or self._ended:
            self._work.disperse()
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="farref aide", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there is no thread to be had
                self._work.disperse()
                return False
            self._thread = thread
        self._free = False
        self._called.release()
        return True

    def spare(self) -> None:
        """For a guest that leads: others do what there is to do."""
        if self._work:
            self._work.disperse()

    def end(self) -> None:
        """Begin nothing more."""
        self._ended = True
        self._called.release()

    def _serve(self) -> None:
        self._identity = threading.get_ident()
        while True:
            self._called.acquire()
            while not self._ended:
                self._work.do()
                if os.getpid() != self._pid:  # a job has forked: what leads is the parent
                    return
                if not self._lead(self._work.__bool__):
                    break
            if self._ended:
                return
            self._free = True

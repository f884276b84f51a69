"""Starts threads, however few the machine lets a process have.

One that cannot be started now, because of a limit of the user or the container, is started later:
nothing that waits for it is lost, and nothing else stops.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ...printable import logger
from ..base.lacks import hint

log = logger(__name__)

AGAIN: Final = 0.05
"""Seconds between two attempts."""


class Threads:
    def __init__(self, wake: Callable[[], object] = bool) -> None:
        """*wake* has the mailbox thread call `again` soon."""
        self._wake = wake
        self._late: deque[threading.Thread] = deque()
        """Threads that could not be started, in order."""
        self._told = False
        self._again_at = 0.0

    def start(self, target: Callable[..., object], name: str, *args: Any) -> None:
        """Run ``target(*args)`` in a thread, soon. Raises nothing."""
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # none can be started
            self._late.append(thread)
            self._again_at = time.monotonic() + AGAIN
            self._wake()

    def again(self) -> None:
        """Start the threads that could not be started. In the mailbox thread."""
        while self._late:
            try:
                self._late[0].start()
            except RuntimeError as error:
                self._again_at = time.monotonic() + AGAIN
                if not self._told:
                    self._told = True
                    log.warning(
                        "%s for %s: its work waits until one can be started%s",
                        *(error, self._late[0].name, hint(error)),
                    )
                return
            self._late.popleft()
        self._told = False

    def deadline(self) -> float | None:
        """The time to call `again`; None if no thread waits to be started."""
        return self._again_at if self._late else None

"""Signal handlers of the user's while the program's main thread runs the loop.

Python runs them in that thread, between any two steps of it, and what they raise (`Ctrl-C`, a
deadline by ``SIGALRM``) would end the handling of a message half way: a reply would be lost, maybe
another thread's.  So while the main thread leads, a handler runs at once only if it interrupts the
thread's sleep, which is where it nearly always is.  Otherwise it runs when the turn is over.

Only what usually raises, or ends the program, is held up so: the signals in ``HELD``.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without names for numbers: a tenth
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .poller import Poller

HELD: Final = (int(signal.SIGINT), int(signal.SIGALRM), int(signal.SIGTERM))


class Interrupts:
    """See the module's text."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._handlers: dict[int, Any] = {}
        self._came: list[tuple[int, FrameType | None]] = []

    @property
    def came(self) -> bool:
        """Whether a handler waits for the end of the turn."""
        return bool(self._came)

    def hold(self) -> bool:
        """Hold handlers up from now on; false where that is not needed."""
        if threading.current_thread() is not threading.main_thread():
            return False
        try:
            for number in HELD:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    _signal.signal(number, self._take)
        except BaseException:  # of a handler that is not held up yet
            self.release()
            raise
        return True

    def release(self) -> None:
        """Hold them up no more, and run those that wait.  Raises what they raise."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            if _signal.getsignal(number) == self._take:  # or one of them has set another
                _signal.signal(number, handler)
        came, self._came = self._came, []
        for number, frame in came:
            handlers[number](number, frame)

    def _take(self, number: int, frame: FrameType | None) -> None:
        handler: Callable[[int, FrameType | None], object] | None = self._handlers.get(number)
        if handler is not None and self._poller.asleep:
            handler(number, frame)
        else:
            self._came.append((number, frame))
            self._poller.wake()  # it may be about to sleep

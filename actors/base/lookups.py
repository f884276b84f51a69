"""Numeric addresses of DNS names, without blocking.

Resolving a name may take seconds, and messages are sent under a lock that all threads need.  So
another thread resolves the name, and the connection is tried again until that is done.  An answer
is used for some seconds only, because a name may move to another machine, as names in a cluster do.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from .addresses import is_numeric

GOOD_FOR: Final = 10.0  # seconds; longer than a connection may take to be made


class Lookups:
    def __init__(self, wake: Callable[[], None]) -> None:
        """Call *wake*, in another thread, when a name has been resolved."""
        self._wake = wake
        self._found: dict[str, tuple[float, list[str] | OSError]] = {}
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    def numeric(self, host: str) -> list[str] | None:
        """The numeric addresses of *host*, best first; None if they are not known yet: ask again.

        Never blocks.  Raises OSError if the name has no address.
        """
        if is_numeric(host):
            return [host]
        with self._lock:
            until, found = self._found.get(host, (0.0, []))
            if monotonic() > until:
                if host not in self._asked:
                    thread = threading.Thread(target=self._look_up, args=(host,), daemon=True)
                    with contextlib.suppress(RuntimeError):  # no thread can be started now
                        thread.start()
                        self._asked.add(host)
                return None
        if isinstance(found, OSError):
            raise found
        return found

    def _look_up(self, host: str) -> None:
        found: list[str] | OSError
        try:
            all_of_it = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(each[4][0]) for each in all_of_it))
        except OSError as error:
            found = error
        except UnicodeError as error:
            found = OSError(f"cannot resolve host {host!r}: {error}")
        with self._lock:
            self._found[host] = monotonic() + GOOD_FOR, found
            self._asked.discard(host)
        self._wake()

"""Processes of a system: checking them, and ending those that outlive it.

The admin of a multi-process system calls ``setsid``. So all its actors share one session id, which
marks a stuck or orphaned process as the system's.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import time
from collections.abc import Callable

from ...features import has
from ..base import lives
from ..base.bell import Bell

INIT = 1
"""The pid of the first process of a container."""
REAPER = "farref: reaper"
"""The process that cleans up after the admin, in a session of its own."""
LAST = 2.0
"""Seconds for killed processes to disappear."""


def host() -> str:
    """A text shared by exactly the processes that may look into each other.

    The namespaces are read each time, for a process may enter others.
    """
    if not has("procfs"):
        import psutil  # noqa: PLC0415 - only here

        return f"{socket.gethostname()} {psutil.boot_time()} {os.getuid()}"
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net")]
    return " ".join((_boot(), *spaces, str(os.getuid())))


@functools.cache
def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def mine() -> tuple[tuple[int, int], int]:
    """The pids of this actor's process and of its parent, the admin; and the admin's session."""
    return (os.getpid(), os.getppid()), os.getsid(0)


class Vigil:
    """Waits, in a thread of its own, until one of some processes has ended."""

    def __init__(
        self,
        pids: tuple[int, ...],
        ended: Callable[[], None],
        start: Callable[[Callable[[], None], str], None],
    ) -> None:
        """Call *ended* when one of *pids* has ended, once, in that thread; but not after `end`.

        *start* starts a thread, given its function and its name.
        """
        self._pids = pids
        self._ended = ended
        self._bell = Bell()
        start(self._wait, "farref vigil")

    def end(self) -> None:
        """Stop waiting. In any thread."""
        self._bell.ring()

    def _wait(self) -> None:
        if lives.wait_for_one(self._pids, self._bell.descriptor):
            self._ended()


def members(session: int) -> list[lives.Watched]:
    """The living processes of *session*, without this one."""
    return [process for process in lives.members(session) if process.pid != os.getpid()]


def end(session: int, patience: float) -> list[str]:
    """Give the processes of *session* *patience* seconds to end, then kill them.

    Returns a line for each process that had to be killed.
    """
    if session == os.getsid(0):
        return []  # an in-process system: its only process is the program's own
    deadline = time.monotonic() + patience
    while (left := members(session)) and time.monotonic() < deadline:
        time.sleep(0.01)
    killed = [f"process {each.pid} ({each.name()}) had to be killed" for each in left]
    for process in left:
        process.kill()
    deadline = time.monotonic() + LAST
    while any(each.alive() for each in left) and time.monotonic() < deadline:
        time.sleep(0.01)
    if os.getpid() == INIT:
        # Nobody else reaps them: their parents have ended, so they are children of this process.
        while lives.reap(session, REAPER) and time.monotonic() < deadline:
            time.sleep(0.01)
    return killed


def end_session() -> None:
    """End every process of this process's session, this one last."""
    for process in members(os.getsid(0)):
        process.kill()
    os.kill(os.getpid(), signal.SIGKILL)

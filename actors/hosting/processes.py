"""Processes of a system: checking them, and ending those that outlive it.

The admin of a multi-process system calls ``setsid``. So all its actors share one session id, which
marks a stuck or orphaned process as the system's.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil

from ...features import has
from ..base import lives
from ..base.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Callable

_STOPPED = {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}


def host() -> str:
    """A text shared by exactly the processes that may look into each other."""
    if not has("procfs"):
        return f"{socket.gethostname()} {psutil.boot_time()} {os.getuid()}"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net")]
    return " ".join((boot, *spaces, str(os.getuid())))


def mine() -> tuple[tuple[int, int], int]:
    """The pids of this actor's process and of its parent, the admin; and the admin's session."""
    return (os.getpid(), os.getppid()), os.getsid(0)


class Watched(msgspec.Struct, frozen=True):
    """One process. Its start time tells it from a later process with the same pid."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Watched | None:
        """The process that has *pid* now; None for none, or for this very process."""
        if pid == os.getpid():
            return None
        try:
            return cls(pid, lives.started(pid))
        except psutil.Error:
            return None

    def running(self) -> bool:
        """Whether the process lives, and no signal or debugger has stopped it."""
        try:
            stopped = psutil.Process(self.pid).status() in _STOPPED
        except psutil.Error:
            return False
        return not stopped and self.alive()

    def alive(self) -> bool:
        """Whether this very process still runs."""
        try:
            process = psutil.Process(self.pid)
            # Not `lives.is_alive`, which reads the start again: the process was found just now.
            return (
                lives.started(self.pid) == self.started and process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.Error:
            return False


class Vigil:
    """Waits, in a thread of its own, until one of some processes has ended."""

    def __init__(self, pids: tuple[int, ...], ended: Callable[[], None]) -> None:
        """Call *ended* when one of *pids* has ended, once, in that thread; but not after `end`."""
        self._pids = pids
        self._ended = ended
        self._bell = Bell()
        threading.Thread(target=self._wait, name="farref vigil", daemon=True).start()

    def end(self) -> None:
        """Stop waiting. In any thread."""
        self._bell.ring()

    def _wait(self) -> None:
        if lives.wait_for_one(self._pids, self._bell.descriptor):
            self._ended()


def members(session: int) -> list[psutil.Process]:
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
    killed = []
    for process in left:
        try:
            killed.append(f"process {process.pid} ({process.name()}) had to be killed")
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(left, timeout=2)
    return killed


def end_session() -> None:
    """End every process of this process's session, this one last."""
    for process in members(os.getsid(0)):
        try:
            process.kill()
        except psutil.Error:
            continue
    os.kill(os.getpid(), signal.SIGKILL)

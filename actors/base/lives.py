"""Lists the living processes of a session, and waits for the end of one.

Where there is no ``/proc``, psutil looks at processes.  It is imported only there, because that
takes ten milliseconds.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
from collections.abc import Iterable
from time import monotonic
from typing import Final

import msgspec

from ...features import has

START: Final = 19  # the place of the start, in ticks, behind the name in /proc/<pid>/stat
LOOK: Final = 0.1  # seconds between two looks, where nothing tells of a process's end
ZOMBIE: Final = "Z"
STOPPED: Final = "T"  # by a signal
HELD: Final = "t"  # by a person, who will let it go on: in a debugger, or by Ctrl-Z


class Watched(msgspec.Struct, frozen=True):
    """One process. Its start time tells it from a later process with the same pid."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Watched | None:
        """The process that has *pid* now; None if there is none, or if it is the calling one."""
        if pid == os.getpid():
            return None
        try:
            return cls(pid, started(pid))
        except ProcessLookupError:
            return None

    def _state(self) -> str:
        """The letter of its state; that of a zombie if it has ended."""
        try:
            state, start = _look(self.pid)
        except ProcessLookupError:
            return ZOMBIE
        return state if start == self.started else ZOMBIE

    def running(self) -> bool:
        """Whether the process lives, and is not stopped, except by a person."""
        return self._state() not in {ZOMBIE, STOPPED}

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return self._state() != ZOMBIE

    def name(self) -> str:
        """Its name, or nothing if it has ended."""
        if has("procfs"):
            with contextlib.suppress(OSError), open(f"/proc/{self.pid}/comm", "rb") as file:
                return file.read().decode(errors="replace").strip()
            return ""
        import psutil  # noqa: PLC0415 - see above

        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.pid).name()
        return ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send the signal *number* to it, if it is alive and ours."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


def started(pid: int) -> float:
    """The start of process *pid*, by a clock that cannot be set: the value never changes.

    Raises `ProcessLookupError`.
    """
    return _look(pid)[1]


def _look(pid: int) -> tuple[str, float]:
    """The state of process *pid*, as a letter, and its start.  Raises `ProcessLookupError`."""
    if not has("procfs"):
        return _look_elsewhere(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        raise ProcessLookupError(f"there is no process {pid}") from None
    fields = line.rpartition(b")")[2].split()
    state, _, group, _, terminal, foreground = fields[:6]
    if state == STOPPED.encode() and terminal != b"0" and foreground != group:
        state = HELD.encode()  # by Ctrl-Z: its shell has taken the terminal back
    return state.decode(), float(fields[START])


def _look_elsewhere(pid: int) -> tuple[str, float]:
    import psutil  # noqa: PLC0415 - see above

    letters = {
        psutil.STATUS_ZOMBIE: ZOMBIE,
        psutil.STATUS_STOPPED: STOPPED,
        psutil.STATUS_TRACING_STOP: HELD,
    }
    try:
        process = psutil.Process(pid)
        # psutil adds the time of the machine's start on Linux, which moves when somebody sets the
        # clock; elsewhere the kernel keeps the time itself.
        return letters.get(process.status(), ""), process.create_time()
    except psutil.Error:
        raise ProcessLookupError(f"there is no process {pid}") from None


def _pids() -> list[int]:
    if has("procfs"):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    import psutil  # noqa: PLC0415 - see above

    return psutil.pids()


def members(session: int) -> list[Watched]:
    """The processes of *session* that still run."""
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if os.getsid(pid) == session:
                state, start = _look(pid)
                if state != ZOMBIE:
                    found.append(Watched(pid, start))
    return found


def reap(session: int, name: str) -> bool:
    """Reap the children of this process that have ended, and are of *session* or have this *name*.

    Returns whether there may be more.
    """
    left = False
    for pid in _pids():
        with contextlib.suppress(OSError):  # it has gone, or is not a child
            if os.getsid(pid) == session or Watched(pid, 0.0).name() == name:
                left = True
                os.waitpid(pid, os.WNOHANG)
    return left


def wait_for_one(
    pids: Iterable[int], bell: int | None = None, timeout: float | None = None
) -> bool:
    """Sleep until one of the processes *pids* has ended.

    Returns false if *bell* becomes readable first, or after *timeout* seconds.

    Waits on *pidfds*, which need no polling and are safe when a pid is used again.  Where there are
    none, it looks every ``LOOK`` seconds.
    """
    waiting = select.poll()
    if bell is not None:
        waiting.register(bell, select.POLLIN)
    if not has("pidfd"):
        try:
            watched = [Watched(pid, started(pid)) for pid in pids]
        except ProcessLookupError:
            return True
        end = math.inf if timeout is None else monotonic() + timeout
        while all(each.alive() for each in watched):
            if waiting.poll(max(0.0, min(LOOK, end - monotonic())) * 1000) or monotonic() > end:
                return False
        return True
    with contextlib.ExitStack() as opened:
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return True
            opened.callback(os.close, descriptor)
            waiting.register(descriptor, select.POLLIN)
        ready = waiting.poll(None if timeout is None else timeout * 1000)
        return bool(ready) and bell not in {descriptor for descriptor, _ in ready}

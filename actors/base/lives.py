"""Lists the living processes of a session, and waits for the end of one."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from ...features import has

START: Final = 19  # the place of the start, in ticks, behind the name in /proc/<pid>/stat
LOOK: Final = 0.1  # seconds between two looks, where nothing tells of a process's end


def started(pid: int) -> float:
    """The start of process *pid*, by a clock that nobody sets: it never changes.

    `psutil` adds the time of the machine's start, which moves when somebody sets the clock. Raises
    `psutil.Error`.
    """
    if not has("procfs"):
        return psutil.Process(pid).create_time()
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    return float(line.rpartition(b")")[2].split()[START])


def is_alive(process: psutil.Process) -> bool:
    """Whether this very process still runs; a zombie does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def members(session: int) -> list[psutil.Process]:
    """The processes of *session* that still run."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):  # it ended meanwhile
            if os.getsid(pid) == session and is_alive(process := psutil.Process(pid)):
                found.append(process)
    return found


def wait_for_one(pids: Iterable[int], bell: int | None = None) -> bool:
    """Sleep until one of the processes *pids* has ended; false if *bell* is readable before.

    Waits on *pidfds*, which need no polling and are not fooled by numbers that are used again.
    Where there are none, it looks again and again.
    """
    waiting = select.poll()
    if bell is not None:
        waiting.register(bell, select.POLLIN)
    if not has("pidfd"):
        try:
            watched = [psutil.Process(pid) for pid in pids]
        except psutil.NoSuchProcess:
            return True
        while all(map(is_alive, watched)):
            if waiting.poll(LOOK * 1000):
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
        return bell not in {ready for ready, _ in waiting.poll()}

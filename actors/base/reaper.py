"""One small process per system, which outlives the system and cleans up after it.

A process that is killed by SIGKILL cannot clean up after itself.  So the admin forks a reaper
before it does anything else.  The reaper leaves the system's session and sleeps until

- the **admin** ends: the remaining processes of the system are useless then;
- the **program** that started the system ends, if ``die_with_parent`` was asked for.

It then sends SIGTERM to every process of the admin's session (actors exit between two handlers)
and SIGKILL to those that are left after :data:`GRACE` seconds, removes the system's sockets, and
exits.  After an orderly shutdown there is nobody left to signal, and it only sweeps.
"""

from __future__ import annotations

import gc
import os
import signal
from time import monotonic, sleep
from typing import Final, NoReturn

from . import farewell, lives, rundir, titles
from .settings import SystemSettings

GRACE: Final = farewell.PATIENCE  # seconds between SIGTERM and SIGKILL
NATURAL: Final = 0.5  # seconds for what is left after an orderly shutdown to end by itself
FINAL: Final = 3.0  # seconds to wait for killed processes to disappear
STEP: Final = 0.02


def start(settings: SystemSettings, program: int) -> None:
    """Fork the reaper; the calling process is the admin of the system."""
    admin = os.getpid()
    if os.fork() == 0:
        try:
            _keep(settings, admin, program)
        finally:
            os._exit(0)


def _keep(settings: SystemSettings, admin: int, program: int) -> NoReturn:
    session = os.getsid(admin)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Close everything that the admin had open.  The objects that own these descriptors must never
    # be collected: they would close ours, which have the same numbers.
    gc.disable()
    gc.freeze()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    rundir.declare_alive(settings.directory, settings.system_id)
    titles.name_process("reaper")
    lives.wait_for_one([admin, program] if settings.die_with_parent else [admin])
    if admin not in {member.pid for member in lives.members(session)}:
        _wait_for_none(session, NATURAL)
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, FINAL)):
        for member in lives.members(session):
            member.kill(number)
        _wait_for_none(session, patience)
    rundir.remove_system(settings.directory, settings.system_id)
    with rundir.claiming(settings.directory):
        rundir.sweep(settings.directory)
    os._exit(0)


def _wait_for_none(session: int, seconds: float) -> None:
    """Sleep until no process of *session* is left, but at most *seconds*."""
    deadline = monotonic() + seconds
    while lives.members(session) and monotonic() < deadline:
        sleep(STEP)

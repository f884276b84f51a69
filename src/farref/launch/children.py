"""The process that an agent starts: the program, or the member. It ends when the agent ends.

If the agent is in the foreground of a terminal, the process stays in the agent's process group: it
can then read from the terminal, and Ctrl-C reaches both. Otherwise it has a group of its own, to
which the agent passes signals on. So no signal arrives twice, whether the launcher sends it to one
process or to a whole group.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from ..actors.base.lacks import hint
from .errors import LaunchError

GRACE = 20.0
"""Seconds from a signal to the end of a process, which is killed then; schedulers give 30."""
PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_STARTED = 127, 126
"""A shell's exit codes for a program that is not there, and for one that cannot be started."""


class Child:
    """A running process. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, *, apart: bool) -> None:
        self._process = process
        self._apart = apart
        """It has a process group of its own."""
        self._killing: asyncio.TimerHandle | None = None

    @classmethod
    async def start(
        cls, words: Sequence[str], env: Mapping[str, str], *, report: int | None = None
    ) -> Child:
        """Start it. A member has a *report*, and nothing to read. Raises `LaunchError`."""
        apart = not is_in_front()
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env=env,
                stdin=None if report is None else asyncio.subprocess.DEVNULL,
                pass_fds=() if report is None else (report,),
                preexec_fn=dying_with(os.getpid()),
                process_group=0 if apart else None,
            )
        except (OSError, RuntimeError) as error:  # it watches the process in a thread
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
            raise LaunchError(
                f"cannot start {words[0]}: {getattr(error, 'strerror', error)}{hint(error)}", code
            ) from error
        return cls(process, apart=apart)

    async def wait(self) -> int:
        """The exit code, as a shell has it: 128 and the number of the signal that killed it."""
        code = await self._process.wait()
        if self._killing is not None:
            self._killing.cancel()
        return 128 - code if code < 0 else code

    def stop(self, number: int) -> None:
        """Send the signal *number*, unless a terminal has; kill the process after `GRACE`."""
        if self._killing is not None:
            return
        if self._apart or number != signal.SIGINT or not is_in_front():
            self._send(number)
        self._killing = asyncio.get_running_loop().call_later(GRACE, self.kill)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._apart and self._process.returncode is None:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


def dying_with(parent: int) -> Callable[[], None] | None:
    """For the new process: the kernel kills it when the agent, *parent*, dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def die() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died meanwhile
            os._exit(1)

    return die


def is_in_front() -> bool:
    """Whether a terminal's Ctrl-C reaches this process, and others of its group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)

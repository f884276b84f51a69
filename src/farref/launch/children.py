"""The process of an agent: the program, or the member. It ends with the agent, however that ends.

It stays in the agent's process group, so a terminal's Ctrl-C reaches both, and the program may read
the terminal. A signal that only the agent got is passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

from .errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GRACE = 20.0
"""Seconds from a signal to the end of a process, which is killed then; schedulers give 30."""
PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_STARTED = 127, 126
"""A shell's exit codes for a program that is not there, and for one that cannot be started."""


class CannotStartError(LaunchError):
    """The program cannot be started."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Child:
    """A running process. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._killing: asyncio.TimerHandle | None = None

    @classmethod
    async def start(
        cls, words: Sequence[str], env: Mapping[str, str], *, member: bool = False
    ) -> Child:
        """Start it; a *member* has nothing to read. Raises `CannotStartError`."""
        try:
            return cls(
                await asyncio.create_subprocess_exec(
                    *words,
                    env=env,
                    stdin=asyncio.subprocess.DEVNULL if member else None,
                    preexec_fn=_dying_with(os.getpid()),
                )
            )
        except OSError as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
            raise CannotStartError(f"cannot start {words[0]}: {error.strerror}", code) from error

    async def wait(self) -> int:
        """The exit code, as a shell has it: 128 and the number of the signal that killed it."""
        code = await self._process.wait()
        if self._killing is not None:
            self._killing.cancel()
        return 128 - code if code < 0 else code

    def stop(self, number: int, *, told: bool = False) -> None:
        """Send the signal *number*, unless the process was *told* already; kill it after `GRACE`.

        The second time: kill it.
        """
        if self._killing is not None:
            self._send(signal.SIGKILL)
            return
        if not told:
            self._send(number)
        loop = asyncio.get_running_loop()
        self._killing = loop.call_later(GRACE, self._send, signal.SIGKILL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def _dying_with(parent: int) -> Callable[[], None] | None:
    """For the new process: the kernel kills it when the agent, *parent*, dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def die() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died meanwhile
            os._exit(1)

    return die


def all_got_it() -> bool:
    """Whether a SIGINT now is most likely a terminal's, which all processes in front get."""
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

"""The dashboard of `System(dashboard=True)`: `farref dashboard`, in a process of its own.

There it does not share an interpreter with the program, and sees the program's calls as those of
any other endpoint. It ends when the system has ended, whatever the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib.util import find_spec

from ...protocol.errors import SystemDownError
from ..hosting import bases

READY = "dashboard of "
"""The line with the address begins so."""
LAST = 10.0
"""Seconds in which it must end, after the system."""


def check(base: object) -> None:
    """Refuse to start a system on *base* that would have no dashboard.

    Raises:
        ModuleNotFoundError: uvicorn is not installed.
        ValueError: no other process can attach to a system on *base*.
    """
    if find_spec("uvicorn") is None:
        raise ModuleNotFoundError(
            "dashboard=True needs the package uvicorn: pip install 'farref[web]'", name="uvicorn"
        )
    if not isinstance(base, str) or not bases.BASES[base].processes:
        raise ValueError(
            "dashboard=True needs a base by name whose actors are processes, as 'farrefBase'"
        )


class Board:
    """The dashboard of the system *name* of this program. Starting it prints its address."""

    def __init__(self, name: str) -> None:
        """Raises `SystemDownError` with what it said if it does not start."""
        self.ends = False
        """The system ends in order now, and so does this."""
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-P", "-m", "farref", "dashboard", "--", name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for the program, which then ends the system
        )
        said = []
        for line in self._process.stdout or ():
            said.append(line)
            if line.startswith(READY):
                break
        else:
            with self._process:
                raise SystemDownError(f"its dashboard did not start: {''.join(said).strip()}")
        print(said[-1], end="", flush=True)  # noqa: T201 - the user asked for it
        self._following = threading.Thread(target=self._follow, daemon=True)
        self._following.start()

    def _follow(self) -> None:
        with self._process as process:
            for line in process.stdout or ():
                if not self.ends:
                    print(line, end="", file=sys.stderr)  # noqa: T201 - such as why it ends

    def wait(self) -> None:
        """Wait until it has ended, as the system has."""
        self._following.join(LAST)
        if self._following.is_alive():
            self._process.kill()

"""Start and rest: a peer in programs of their own, each a fresh Python with compiled modules."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from .peer import Peer
from .peers import NotOffered
from .session import COMPILED, TOKEN, carrying

if TYPE_CHECKING:
    from collections.abc import Iterator

LOAD = "import time; began = time.perf_counter(); import farref; print(time.perf_counter() - began)"
PROGRAM = Path(__file__).with_name("program.py")
WORKERS = 4
"""Workers of a system at rest."""
SETTLE = 3.0
"""Seconds between the start and the rest, unless this is shorter."""


class Programs(Peer):
    """The peer *name*, without any process until there is work."""

    def __init__(self, name: str) -> None:
        super().__init__(0)
        self.name = name
        unlike = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        there = {name: value for name, value in os.environ.items() if name not in unlike}
        self.environ = {**there, "PYTHONPYCACHEPREFIX": there[COMPILED]}
        self.load(1, 0)  # the first one compiles the modules

    def load(self, amount: int, _: int) -> float:
        return sum(self._seconds("-c", LOAD) for _ in range(amount))

    def start(self, amount: int, _: int) -> float:
        return sum(self._seconds(str(PROGRAM), self.name, "1") for _ in range(amount))

    def rest(self, amount: int, _: int) -> float:
        """The percents of a core in *amount* seconds, which are added up."""
        with self._at_rest(min(SETTLE, amount)) as (program, others):
            before = sum(map(spent, (program, *others)))
            time.sleep(amount)
            return 100 * (sum(map(spent, (program, *others))) - before)

    def rest_memory(self, amount: int, _: int) -> float:
        """Bytes after *amount* seconds, times these; pages that several share count once."""
        with self._at_rest(amount) as (_program, others):
            weight = sum(other.memory_full_info().pss for other in others)
        return float(amount * weight)

    def _seconds(self, *program: str) -> float:
        return float(self._run(*program).communicate()[0])

    def _run(self, *program: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 (this very interpreter, and our own files)
            [sys.executable, "-P", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environ,
            text=True,
        )

    @contextlib.contextmanager
    def _at_rest(self, settle: float) -> Iterator[tuple[psutil.Process, list[psutil.Process]]]:
        """A program *settle* seconds after the start, and the other processes of its system."""
        if not sys.platform.startswith("linux"):
            raise NotOffered("it is measured on Linux only")
        process = self._run(str(PROGRAM), self.name, str(WORKERS))
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the program did not start")
            time.sleep(settle)
            all_of = {each.pid: each for each in carrying(self.environ[TOKEN])}
            all_of.pop(os.getpid(), None)
            yield all_of.pop(process.pid), [*all_of.values()]
        finally:
            process.communicate()


def spent(process: psutil.Process) -> float:
    """The processor time of *process* so far, in seconds; psutil counts hundredths."""
    return time.clock_gettime(~process.pid << 3 | 2)  # a clock as of `clock_getcpuclockid`

"""A peer at work, as the command sees it: start its process, command it, end all of it.

A peer that fails, or is silent for too long, is ended and reported as failed; the others go on. A
peer whose processes compute while they wait is stopped between its turns, or it would take the
cores from the measured peer. A stopped process cannot notice the command's death, so a shell beside
it waits for that. Every process of a peer inherits a token in its environment. The token finds the
processes that outlive the peer: some peers' daemons are nobody's children.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe

import psutil

from .peers import NotOffered, PeerFailed, Spec

TOKEN = "FARREF_BENCH_SESSION"  # noqa: S105 (the name of a variable)
COMPILED = "FARREF_BENCH_COMPILED"
"""The variable with the folder of compiled modules, for a peer that starts programs."""
START_PATIENCE = 120.0
"""Seconds; importing torch in nine processes on a busy machine takes a while."""
WORK_PATIENCE = 300.0
END_PATIENCE = 20.0
WAKER_STEP = 0.2
WAKER = f"""
read -r end
kill -s CONT -- -"$1"
for moment in $(seq {END_PATIENCE / WAKER_STEP:.0f}); do
    sleep {WAKER_STEP}
    kill -s 0 -- -"$1" || exit
done
kill -s KILL -- -"$1"
"""
"""A shell script for a stopped peer's process group: when its input closes, it ends the group."""


class Session:
    """The peer *spec* with *workers* workers, in processes of its own. A context manager.

    Raises:
        PeerFailed: it did not start.
    """

    def __init__(self, spec: Spec, workers: int) -> None:
        self.spec = spec
        self._token = secrets.token_hex(8)
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (`end` closes it)
        self._pipe, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "bench.peer", spec.name, str(workers)]
            self._process = subprocess.Popen(  # noqa: S603 (this very interpreter)
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env={
                    **os.environ,
                    TOKEN: self._token,
                    COMPILED: "" if workers else compiled(),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                },
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the command, which ends them in order
            )
        self._waker: subprocess.Popen[bytes] | None = None
        try:
            if spec.restless:
                self._waker = self._wait_for_our_end()
            self._answer(START_PATIENCE)
            self._signal(signal.SIGSTOP)
        except BaseException:
            self.end()
            raise

    def do(self, work: str, amount: int, point: int) -> float:
        """The figure for *amount* times *work*: seconds, or bytes.

        Raises:
            NotOffered: the peer has no such work.
            PeerFailed: the peer failed; the session is of no use any more.
        """
        self._signal(signal.SIGCONT)
        try:
            with contextlib.suppress(OSError):  # it has ended, as its answer tells
                self._pipe.send((work, amount, point))
            return self._answer(WORK_PATIENCE)
        finally:
            self._signal(signal.SIGSTOP)

    def end(self) -> None:
        self._signal(signal.SIGCONT)
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_PATIENCE)
        end_all(self._token)
        self._process.wait(END_PATIENCE)
        if self._waker is not None:
            self._waker.communicate()
        self._said.close()

    def _wait_for_our_end(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 (a constant script, and a number)
            ["/bin/sh", "-c", WAKER, "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,  # which the kernel closes, however we end
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, TOKEN: self._token},
            start_new_session=True,
        )

    def _signal(self, number: signal.Signals) -> None:
        """Stop a restless peer, or let it go on."""
        if self.spec.restless:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.killpg(self._process.pid, number)  # it leads a session, so a group, of its own

    def _answer(self, patience: float) -> float:
        if not self._pipe.poll(patience):
            raise PeerFailed(f"no answer in {patience:g} s")
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise PeerFailed(f"it ended: {self._last_words()}") from error
        if isinstance(answer, NotOffered | PeerFailed):
            raise answer
        figure: float = answer
        return figure

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = [line.strip() for line in self._said if line.strip()]
        return lines[-1] if lines else "it printed nothing"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


@functools.cache
def compiled() -> str:
    """The folder for compiled modules; it is there until this process ends."""
    folder = tempfile.mkdtemp(prefix="farref-bench-")
    atexit.register(shutil.rmtree, folder)
    return folder


def end_all(token: str) -> None:
    """Kill every process that inherited *token*, and wait until all are gone."""
    end = time.monotonic() + END_PATIENCE
    # Again, because one of them may have forked in the meantime.
    while left := carrying(token):
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=max(0.0, end - time.monotonic()))
        if time.monotonic() > end:
            return


def carrying(token: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _carries(process, token)]


def _carries(process: psutil.Process, token: str) -> bool:
    try:
        return process.environ().get(TOKEN) == token
    except (psutil.Error, OSError):
        return False

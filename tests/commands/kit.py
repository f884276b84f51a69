"""Runs of the command `farref`: in this process, in one of its own, and in a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from typer.testing import CliRunner

from farref.cli import app

from ..waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

FARREF = [sys.executable, "-m", "farref"]
PATIENCE = 100.0
"""Seconds for a command; `farref` alone takes several to start on a busy machine."""


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


def farref(*arguments: object, columns: int = 100) -> Finished:
    """Run the command in this process; every exception except an exit is raised."""
    words, env = [str(each) for each in arguments], {"COLUMNS": str(columns)}
    result = CliRunner().invoke(app, words, env=env, prog_name="farref")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Finished(result.exit_code, result.stdout, result.stderr)


def piped(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it as a program of its own, with its output into a pipe."""
    return subprocess.run(
        [*FARREF, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "COLUMNS": "100", **env},
    )


def in_a_terminal(
    *arguments: str, width: int, interrupt_at: str = "", **env: str
) -> tuple[int, str]:
    """Run it in a pseudo-terminal of *width* columns; returns its exit code and output.

    Ctrl-C is typed once the output has *interrupt_at*.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable,
            [*FARREF, *arguments],
            {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width), **env},
        )
    written, waiting = b"", interrupt_at.encode()
    try:
        for chunk in _chunks(terminal):
            written += chunk
            if waiting and waiting in written:
                os.write(terminal, b"\x03")
                waiting = b""
    finally:
        os.close(terminal)  # a command that still runs gets SIGHUP
        status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status), written.decode()


def _chunks(terminal: int) -> Iterator[bytes]:
    end = time.monotonic() + PATIENCE
    while select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0]:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux: the other end is closed
            return
        if not chunk:
            return
        yield chunk
    raise AssertionError("the command did not end")


def completed(words: str, *, installed: bool = False) -> list[str]:
    """What the shell's tab key offers after *words*; with *installed* by the script itself."""
    env = {
        "_FARREF_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    if not installed:
        return CliRunner().invoke(app, env=env, prog_name="farref").stdout.split()
    script = Path(sys.executable).with_name("farref")
    run = subprocess.run(
        [str(script)], capture_output=True, check=False, text=True, env={**os.environ, **env}
    )
    return run.stdout.split()


class Terminal:
    """A real terminal of a server of its own; an ended server's may still be there for a moment."""

    def __init__(self) -> None:
        self._command = ["tmux", "-L", f"farref-{uuid.uuid4().hex[:8]}", "-f", "/dev/null"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tmux("kill-server")

    def tmux(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        # Not the C library's environment, to which readline adds COLUMNS.
        env = dict(os.environ)
        done = subprocess.run(command, capture_output=True, check=False, text=True, env=env)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def open(self, window: str, shell: str, width: int = 200, height: int = 30) -> None:
        """Run *shell* in a new *window* with the environment of this process."""
        environment = [
            f"-e{key}={os.environ[key]}"
            for key in ("XDG_RUNTIME_DIR", "PATH", "PYTHONPATH")
            if key in os.environ
        ]
        size = ("-x", str(width), "-y", str(height))
        self.tmux("new-session", "-d", "-s", window, *size, *environment, f"{shell}; sleep 600")

    def type(self, window: str, *lines: str) -> None:
        """Type *lines*."""
        for line in lines:
            self.tmux("send-keys", "-t", window, line, "Enter")

    def screen(self, until_it_has: str, window: str = "w", times: int = 1) -> str:
        """The screen of *window*, as soon as it shows *until_it_has*, so many *times*."""
        shown = ""

        def has_it() -> bool:
            nonlocal shown
            shown = self.tmux("capture-pane", "-p", "-t", window)
            return shown.count(until_it_has) >= times

        eventually(has_it, lambda: shown)
        return shown


def without_colours(text: str) -> list[str]:
    """The lines of *text* without the codes that colour them."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()

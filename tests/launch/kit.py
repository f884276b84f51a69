"""Runs of `farref run` with several nodes, all of them on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from farref.launch.children import GRACE

from ..commands.kit import FARREF
from ..ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FIRST = "127.0.0.2"
PATIENCE = 60.0
"""Seconds; a busy machine takes some for each Python."""
SLEEPER = """
import signal
import farref

class Kept:
    pass

if __name__ == "__main__":
    with farref.System(silence=2) as system:
        system.worker("far", on={"farref node": 1})
        ref = farref.remote("far", Kept)
        ref.to_here()
        print("ready", flush=True)
        signal.pause()
"""
"""A program that has an object on another node, and waits for its end."""


class Node:
    """One node of a run."""

    def __init__(self, folder: Path, command: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.out = self.err = ""

    def until(self, text: str) -> None:
        """Read its output up to the line *text*."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line
            if line.strip() == text:
                return
        raise AssertionError(f"it ended before it said {text!r}: {self.out}{self.end()}")

    def end(self, given: str | None = None) -> int:
        """Wait for its end; returns the exit code."""
        out, self.err = self.process.communicate(given, timeout=PATIENCE + GRACE)
        self.out += out
        return self.process.returncode


def commands(
    folder: Path, program: str, *args: str, size: int = 2, options: tuple[str, ...] = ()
) -> list[list[str]]:
    """The command of each node of a run of *program*, which becomes a file in *folder*."""
    (folder / "prog.py").write_text(program, encoding="utf-8")
    run = [*FARREF, "run", "--nnodes", str(size), "--first", f"{FIRST}:{free_port(FIRST)}"]
    run += ["--timeout", str(PATIENCE), *options]
    words = ["--", sys.executable, "prog.py", *args]
    return [
        [*run, "--node-rank", str(rank), "--host", f"127.0.0.{2 + rank}", *words]
        for rank in range(size)
    ]


def nodes(
    folder: Path, program: str, *args: str, size: int = 2, options: tuple[str, ...] = ()
) -> contextlib.AbstractContextManager[list[Node]]:
    """*size* nodes that run *program*; afterwards none is left."""
    return running(folder, commands(folder, program, *args, size=size, options=options))


@contextlib.contextmanager
def running(
    folder: Path, commands: Iterable[list[str]], env: dict[str, str] | None = None
) -> Iterator[list[Node]]:
    """A node for each of *commands*; afterwards none is left."""
    with contextlib.ExitStack() as stack:
        found = []
        for command in commands:
            found.append(Node(folder, command, env or {}))
            stack.callback(reap, found[-1].process)
        yield found


def reap(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()

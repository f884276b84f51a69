"""Test programs in processes of their own: run to their end, or started, watched and killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import psutil

from ..waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SID = """
import os

def sid(pid):
    try:
        return os.getsid(pid)
    except OSError:
        return None
"""
"""The session of a process, in a program: None once the process has gone."""


def write(folder: Path, text: str) -> Path:
    path = folder / f"program_{len(list(folder.iterdir()))}.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def run(
    folder: Path, text: str, *arguments: str, seconds: float = 60, on: Sequence[str] = ()
) -> str:
    """The output of the program. It must succeed, with nothing on standard error."""
    with started(folder, text, *arguments, on=on) as process:
        out, err = process.communicate(timeout=seconds)
        assert process.returncode == 0, err
        assert not err, err
        return out


@contextlib.contextmanager
def started(
    folder: Path, text: str, *arguments: str, on: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """The running program, a script with classes in ``__main__``; *on* begins its command."""
    with subprocess.Popen(
        [*on, sys.executable, str(write(folder, text)), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def running(folder: Path, text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program, once it has said that it is ready."""
    with started(folder, text, *arguments) as process:
        expect(process)
        yield process


def expect(process: subprocess.Popen[str], line: str = "ready") -> None:
    """The next line that *process* writes is *line*; else its errors are told."""
    assert process.stdout
    assert process.stdout.readline() == f"{line}\n", process.stderr and process.stderr.read()


def family(mark: str, name: str = "FAMILY") -> list[psutil.Process]:
    """The living processes with *name* = *mark* in their environment, without this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get(name) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or it belongs to another user
    return found


def all_gone(mark: str) -> bool:
    """Whether every process of the family ends in time."""
    with contextlib.suppress(AssertionError):
        eventually(lambda: not family(mark))
    return not family(mark)

"""Whichever process of a run is killed: all others end, and no file of theirs is left for long.

A file that a killed process cannot remove is in farref's own folder, and goes with the next program
that looks there.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from ..actors.scripts import family
from ..commands.kit import FARREF
from ..keys import key_file
from ..waiting import eventually
from .kit import FIRST, PATIENCE, SLEEPER, commands, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

MARK = "FARREF_TEST_LEFT"
STAYS = {"key", "lock"}
"""The files of farref's folder that are made once for all programs."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A temporary folder for the run: sockets need short paths."""
    with tempfile.TemporaryDirectory(prefix="farref-left-", dir="/tmp") as folder:
        yield Path(folder)


def line_of(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def is_(title: str) -> Callable[[psutil.Process], bool]:
    return lambda process: process.name().startswith(f"farref: {title}")


def runs(words: str) -> Callable[[psutil.Process], bool]:
    """Whether a process runs a command with *words*, and is no fork with a name of its own."""
    return lambda process: words in line_of(process) and "farref:" not in process.name()


VICTIMS: dict[str, Callable[[psutil.Process], bool]] = {
    "the first agent": runs("--node-rank 0"),
    "the other agent": runs("--node-rank 1"),
    "the member": runs("farref.launch.member"),
    "the program": lambda process: line_of(process).endswith("python prog.py"),
    "an admin": is_("admin"),
    "the registrar": is_("Registr"),
    "the host agent": is_("HostAge"),
}


LOST = {
    "the first agent": f"farref run: the first node ({FIRST}) is lost: its connection was closed\n",
    "the other agent": "farref run: node 1 (127.0.0.1) is lost: its connection was closed\n",
}
"""The last words of the agent that is left; it exits with 1."""


@pytest.mark.parametrize("victim", VICTIMS)
def test_nothing_is_left_of(victim: str, place: Path) -> None:
    mine = uuid.uuid4().hex
    env = {"TMPDIR": str(place), "XDG_RUNTIME_DIR": "", MARK: mine}
    work = place / "work"
    work.mkdir()
    try:
        with running(work, commands(work, SLEEPER), env) as (first, other):
            first.until("ready")
            target = next(filter(VICTIMS[victim], family(mine, MARK)))
            target.send_signal(signal.SIGKILL)
            codes = [first.end(), other.end()]
            if victim in LOST:
                assert sorted(codes) == [-signal.SIGKILL, 1]
                assert LOST[victim] in first.err + other.err
            eventually(lambda: not family(mine, MARK), patience=PATIENCE)
    finally:
        for process in family(mine, MARK):
            process.kill()
    looking = subprocess.run([*FARREF, "ps"], env={**os.environ, **env}, check=False)
    assert looking.returncode == 0
    ours = place / f"farref-{os.getuid()}"
    assert {each.name for each in place.iterdir()} == {work.name, ours.name}
    assert {each.name for each in ours.iterdir()} <= STAYS


def test_a_program_that_is_killed_while_it_joins_leaves_nothing(place: Path) -> None:
    """At that address somebody listens who never answers. So it waits."""
    mine = uuid.uuid4().hex
    env = {**os.environ, "TMPDIR": str(place), "XDG_RUNTIME_DIR": "", MARK: mine}
    key = key_file(place / "key")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        first = f"127.0.0.1:{nobody.getsockname()[1]}"
        command = [*FARREF, "join", first, "--key", str(key), "--host", "127.0.0.8"]
        nobody.settimeout(PATIENCE)
        started = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        with started as joining, nobody.accept()[0]:
            joining.kill()
        eventually(lambda: not family(mine, MARK), patience=PATIENCE)
    subprocess.run([*FARREF, "ps"], env=env, check=True)
    ours = place / f"farref-{os.getuid()}"
    assert {each.name for each in place.iterdir()} == {key.name, ours.name}
    assert {each.name for each in ours.iterdir()} <= STAYS

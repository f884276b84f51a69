"""All processes of a system are killed at once: the next program removes their remains."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import psutil
import pytest

import farref
from farref import System

from ...bases import PROCESSES
from ...waiting import eventually
from ..scripts import expect, family, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes
PERMANENT = {"lock", "key"}
"""The files that stay in the folder for the next system."""
PROGRAM = """
    import signal
    import sys

    import farref

    system = farref.System(sys.argv[1], name="killed")
    system.worker("B")
    farref.remote("B", bytes, (1_000_000,)).to_here()
    print("ready", flush=True)
    signal.pause()
"""
PS = [sys.executable, "-m", "farref", "ps"]


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - PERMANENT


def kill_all(tmp_path: Path, base: str) -> None:
    """Start a program with a system, and kill all its processes at once; none sees another die."""
    mark = uuid.uuid4().hex
    with started(tmp_path, PROGRAM, base, on=("env", f"FAMILY={mark}")) as program:
        expect(program)
        processes = family(mark)
        for process in processes:
            process.suspend()
        for process in processes:
            process.kill()
    eventually(lambda: all(map(has_ended, processes)))


def has_ended(process: psutil.Process) -> bool:
    """Whether the last thread of *process* has ended, too: until then its files are locked."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() < 2
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("base", PROCESSES)
def test_the_next_command_sweeps(base: str, own_folder: Path, tmp_path: Path) -> None:
    with System(name="living") as living:
        living.worker("B")
        before = left(own_folder)
        kill_all(tmp_path, base)
        (own_folder / f".new-{os.getpid()}-draft").touch()
        (own_folder / ".new-4194305-draft").touch()  # no process has this number
        assert "killed.json" in left(own_folder) - before
        command = [sys.executable, "-m", "farref", "refs", "killed"]
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
        assert "no system named 'killed' runs; your running systems: living" in done.stderr
        assert left(own_folder) == before | {f".new-{os.getpid()}-draft"}
        (own_folder / f".new-{os.getpid()}-draft").unlink()
        assert farref.rpc_sync("B", pow, (2, 2)) == 4  # the living system is untouched
        with System.attach("living"):
            assert farref.rpc_sync("B", pow, (2, 3)) == 8
    eventually(lambda: not left(own_folder))


@pytest.mark.parametrize("base", PROCESSES)
def test_the_next_start_sweeps_on_either_base(base: str, own_folder: Path, tmp_path: Path) -> None:
    kill_all(tmp_path, "farrefBase")
    sockets = {name for name in left(own_folder) if "-" in name}  # their names are random
    assert sockets
    with System(base, name="killed"):  # the name is free
        assert not left(own_folder) & sockets
    eventually(lambda: not left(own_folder))


def test_one_sweeps_at_a_time(own_folder: Path) -> None:
    """Otherwise one program could read a dead entry, and then remove a new system's entry."""
    stale = own_folder / "stale.json"
    stale.write_text('{"pid": 4194305, "started": 0.0, "base": "farrefBase"}')
    with (own_folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a program does while it sweeps
        with subprocess.Popen(PS, stdout=subprocess.DEVNULL) as sweeper:
            with pytest.raises(subprocess.TimeoutExpired):
                sweeper.wait(3)
            assert stale.exists()
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert sweeper.wait(60) == 0
    assert not stale.exists()

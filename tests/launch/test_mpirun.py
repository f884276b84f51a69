"""The real `mpirun` (Open MPI), on two hosts: network namespaces with a cable between them.

It reaches the other host as it always does: by a command in the place of ssh.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..hosts.network import Pair, why_not
from .kit import FARREF, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there are namespaces"),
    pytest.mark.skipif(
        shutil.which("mpirun") is None, reason="there is no `mpirun` (Debian: openmpi-bin)"
    ),
]
ADDRESSES = {"first": "10.0.0.1", "second": "10.0.0.2"}
HOSTS = "".join(f"{address} node-{host}\n" for host, address in ADDRESSES.items())
# mpirun tells its hosts apart by their names, so each has one. Only they can look them up.
ENTER = 'hostname "node-$1"; mount --bind hosts /etc/hosts; shift; exec "$@"'
PROGRAM = """
import sys
import farref

if __name__ == "__main__":
    with farref.System() as system:
        print([host.address for host in system.hosts()])
        system.worker("far", on={"farref node": 1})
        print(farref.rpc_sync("far", pow, args=(2, 10)), sys.stdin.read())
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def mpirun(tmp_path: Path) -> Iterator[list[str]]:
    """The words in front of a command, which mpirun then runs on both hosts."""
    pair = Pair(ADDRESSES)
    try:
        pair.make()
        (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{HOSTS}")
        (tmp_path / "prog.py").write_text(PROGRAM)
        ways = {
            host: [*pair.command(host), "unshare", "--uts", "sh", "-c", ENTER, "enter", host]
            for host in ADDRESSES
        }
        agent = tmp_path / "agent"
        there = " ".join(f"'{word}'" for word in ways["second"])
        agent.write_text(f'#!/bin/sh\nshift\nexec {there} sh -c "$*"\n')
        agent.chmod(0o755)
        command = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", str(agent)]
        command += ["--mca", "oob_tcp_if_include", "10.0.0.0/24", "--map-by", "ppr:1:node"]
        yield [*ways["first"], *command, "--host", "node-first,node-second"]
    finally:
        pair.remove()


def run(mpirun: list[str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*mpirun, *FARREF, "run", *words],
        cwd=folder,
        input="from stdin",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize("code", [0, 7])
def test_mpirun_runs_a_program_on_two_hosts(mpirun: list[str], tmp_path: Path, code: int) -> None:
    """Without a key or an address: the nodes share the working folder, and mpirun the rest."""
    done = run(mpirun, tmp_path, "--", sys.executable, "prog.py", str(code))
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines() == ["['10.0.0.1', '10.0.0.2']", "1024 from stdin"]
    assert not list(tmp_path.glob(".farref*"))  # no note is left


def test_two_processes_on_a_host_are_refused(mpirun: list[str], tmp_path: Path) -> None:
    words = [word.replace("ppr:1:node", "ppr:2:node:oversubscribe") for word in mpirun]
    done = run(words, tmp_path, "--", "true")
    assert done.returncode == 1
    assert "mpirun started 2 of these on one node; farref run is started once" in done.stderr

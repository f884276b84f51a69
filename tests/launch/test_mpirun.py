"""The real `mpirun` (Open MPI), on two hosts: network namespaces with a cable between them.

It reaches the other host as it always does: by a command in the place of ssh.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..hosts.network import Pair, why_not
from . import recipes
from .kit import PATIENCE

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


@pytest.fixture
def first(tmp_path: Path) -> Iterator[list[str]]:
    """The words in front of a command that runs on the first host."""
    pair = Pair(ADDRESSES)
    try:
        pair.make()
        (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{HOSTS}")
        (tmp_path / "train.py").write_text(recipes.TRAIN)
        ways = {
            host: [*pair.command(host), "unshare", "--uts", "sh", "-c", ENTER, "enter", host]
            for host in ADDRESSES
        }
        agent = tmp_path / "agent"
        there = " ".join(f"'{word}'" for word in ways["second"])
        agent.write_text(f'#!/bin/sh\nshift\nexec {there} sh -c "$*"\n')
        agent.chmod(0o755)
        yield ways["first"]
    finally:
        pair.remove()


def run(first: list[str], folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run the *line* on the first host."""
    # As root, by our agent, and without a search for other networks.
    mca = {"plm_rsh_agent": folder / "agent", "oob_tcp_if_include": "10.0.0.0/24"}
    root = {f"OMPI_ALLOW_RUN_AS_ROOT{more}": "1" for more in ("", "_CONFIRM")}
    return subprocess.run(
        [*first, "bash", "-c", line],
        cwd=folder,
        env={
            **os.environ,
            **{f"OMPI_MCA_{name}": str(value) for name, value in mca.items()},
            **root,
            **recipes.path(),
        },
        input="from stdin",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_the_line_of_the_page(first: list[str], tmp_path: Path) -> None:
    """Without a key or an address: the nodes share the working folder, and mpirun the rest."""
    done = run(first, tmp_path, recipes.command("MPI"))
    assert (done.returncode, done.stdout) == (0, recipes.ANSWER), done.stderr
    assert not list(tmp_path.glob(".farref*"))  # no note is left


def test_the_exit_code_and_the_input_of_the_program(first: list[str], tmp_path: Path) -> None:
    program = "import sys; print(sys.stdin.read()); sys.exit(7)"
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    done = run(first, tmp_path, recipes.command("MPI"))
    assert (done.returncode, done.stdout) == (7, "from stdin\n"), done.stderr


def test_two_processes_on_a_host_are_refused(first: list[str], tmp_path: Path) -> None:
    line = recipes.command("MPI").replace("ppr:1:node", "ppr:2:node:oversubscribe")
    done = run(first, tmp_path, line)
    assert done.returncode == 1
    assert "mpirun started 2 of these on one node; farref run is started once" in done.stderr

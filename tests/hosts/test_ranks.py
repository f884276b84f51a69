"""Ranks of `farref.rpc` on two hosts, which share a key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..rpc.launch import failed
from .network import Network, address

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
RANKS = Path(__file__).parents[1] / "rpc" / "ranks.py"


def run(network: Network, ranks: dict[int, str], todo: str, key: str) -> list[tuple[int, str]]:
    """Run three ranks, of which *ranks* are started, each on its host.

    Returns the exit code and the error output of each.
    """
    meeting = {"MASTER_ADDR": address("A"), "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
    running = [
        subprocess.Popen(
            [*network.command(host), sys.executable, str(RANKS), todo],
            env={**os.environ, **meeting, "RANK": str(rank), "FARREF_KEY": key},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, host in ranks.items()
    ]
    try:
        outputs = [each.communicate(timeout=120) for each in running]
    finally:
        for each in running:
            each.kill()
            each.wait()
    return [(each.returncode, said) for each, (_, said) in zip(running, outputs, strict=True)]


@pytest.mark.parametrize(
    ("todo", "failing"),
    [("calls", {("int", 0), ("fail", 1)}), ("chain", set()), ("at once", set())],
)
def test_ranks_on_two_hosts(
    network: Network, key: Path, todo: str, failing: set[tuple[str, int]]
) -> None:
    """Ranks 0 and 2 are on one of them; they call rank 1, which is on the other."""
    found = set()
    for rank, (code, errors) in enumerate(run(network, {0: "A", 1: "B", 2: "A"}, todo, str(key))):
        assert code == 0, errors
        found |= failed(rank, errors)
    assert found == failing


def test_a_rank_on_another_host_without_the_key(network: Network) -> None:
    [(code, errors)] = run(network, {1: "B"}, "calls", "")
    assert code == 1
    assert "rank 1 is not on the machine of rank 0" in errors
    assert "farref key FILE" in errors

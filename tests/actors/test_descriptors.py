"""Many workers, each of which takes descriptors: a limit is raised, or the error names it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import farref

from .scripts import run

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System

pytestmark = pytest.mark.processes
MANY = """
    import resource
    import sys

    import farref

    workers, soft, hard = map(int, sys.argv[1:])
    hard = hard or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with farref.System() as system:
        try:
            for number in range(workers):
                system.worker(f"W{number}")
        except farref.SystemDownError as error:
            print(error)
        else:
            print(sum(farref.rpc_sync(f"W{number}", pow, (1, 2)) for number in range(workers)))
"""
"""Has so many workers at these limits, 0 for the hard one that there is, and calls each."""


def test_the_soft_limit_is_raised(tmp_path: Path) -> None:
    assert run(tmp_path, MANY, "40", "100", "0") == "40\n"


def test_the_hard_limit_is_named(tmp_path: Path) -> None:
    said = run(tmp_path, MANY, "40", "100", "100")
    assert "could not be created" in said
    assert "the limit of open descriptors is 100" in said
    assert "ulimit -n" in said


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_worker_keeps_nothing_of_those_before_it(process_system: System) -> None:
    names = [f"W{number}" for number in range(8)]
    for name in names:
        process_system.worker(name)
    open_there = [farref.rpc_sync(name, descriptors) for name in names]
    assert max(open_there) - min(open_there) < len(names)  # each would keep two of each before it


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_500_workers_at_the_usual_soft_limit(tmp_path: Path) -> None:
    assert run(tmp_path, MANY, "500", "1024", "0", seconds=800) == "500\n"

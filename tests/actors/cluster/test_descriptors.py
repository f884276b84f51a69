"""Many workers, each with descriptors of its own: a limit is raised, or the error names it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import farref
from farref import RefActor

from ..scripts import run

if TYPE_CHECKING:
    from pathlib import Path

    from thespian.actors import ActorAddress

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
        except farref.CreationError as error:
            print(error)
        else:
            print(sum(farref.rpc_sync(f"W{number}", pow, (1, 2)) for number in range(workers)))
"""
"""Starts that many workers under these limits (0 keeps the hard limit), and calls each."""


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
    assert max(open_there) - min(open_there) < 2 * len(names) - 2  # else each keeps two of each


class Opening(RefActor):
    """Opens files under the first free numbers; its child checks that it has them too."""

    def receiveMsg_int(self, many: int, sender: ActorAddress) -> None:
        self.files = [os.open(os.devnull, os.O_RDONLY) for _ in range(many)]
        self.asker = sender
        self.send(self.createActor(Looking), self.files)

    def receiveMsg_list(self, missing: list[int], sender: ActorAddress) -> None:
        self.send(self.asker, missing)


class Looking(RefActor):
    def receiveMsg_list(self, files: list[int], sender: ActorAddress) -> None:
        there = {int(name) for name in os.listdir("/proc/self/fd")}
        self.send(sender, sorted({*files} - there))


def test_a_child_closes_nothing_that_its_parent_opened(process_system: System) -> None:
    for number in range(10):  # the next one closes the pipes to these
        process_system.worker(f"W{number}")
    opening = process_system.create(Opening)
    assert process_system.ask(opening, 20) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_500_workers_at_the_usual_soft_limit(tmp_path: Path) -> None:
    assert run(tmp_path, MANY, "500", "1024", "0", seconds=800) == "500\n"

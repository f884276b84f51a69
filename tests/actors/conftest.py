"""A started system for each base, and the check that a test leaves no reference in it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from farref import System

from .helpers import assert_nothing_held

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

PROCESSES = [
    pytest.param("farrefBase", id="farref", marks=pytest.mark.processes),
    pytest.param("multiprocTCPBase", id="tcp", marks=pytest.mark.processes),
]
BASES = [pytest.param("simpleSystemBase", id="simple"), *PROCESSES]
FAILED = pytest.StashKey[bool]()
GRACE = 0.2
"""Seconds; see `orphan_grace`. The default would make every test of a death take five."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="module", params=BASES)
def shared_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """One system for a whole module, with the workers B and C."""
    gc.freeze()  # pytest's heap, which every actor inherits, costs each collection 50 ms
    with System(request.param, timeout=20, orphan_grace=GRACE) as system:
        system.worker("B")
        system.worker("C")
        yield system


@pytest.fixture
def system(shared_system: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """A system with the workers B and C, in which nothing is held after the test (G5)."""
    yield shared_system
    if not request.node.stash.get(FAILED, False):  # a traceback would hold what the test held
        assert_nothing_held(shared_system)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """What `hold` waits for: a file that the test makes, or, at the latest, its end.

    Name it after the system: it is opened before the system is looked at.
    """
    gate = tmp_path / "gate"
    yield gate
    gate.touch()


@pytest.fixture(params=BASES)
def own_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of the test's own, which it may damage."""
    with System(request.param, timeout=20, orphan_grace=GRACE) as system:
        yield system


@pytest.fixture(params=PROCESSES)
def process_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of the test's own in which every actor is a process that can be killed."""
    with System(request.param, timeout=20, orphan_grace=GRACE) as system:
        yield system

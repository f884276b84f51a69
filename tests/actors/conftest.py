"""A started system for each base, and the check that a test leaves no reference in it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from farref import System

from ..bases import BASES, PROCESSES
from .helpers import assert_nothing_held

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

FAILED = pytest.StashKey[bool]()
GRACE = 0.2
"""Seconds; see `orphan_grace`. With the default every test of a death would take five seconds."""


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
    gc.freeze()  # every actor inherits pytest's heap: each collection takes 50 ms
    with System(request.param, timeout=20, orphan_grace=GRACE) as system:
        system.worker("B")
        system.worker("C")
        yield system


@pytest.fixture
def system(shared_system: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """A system with the workers B and C; after the test no reference may be left in it (G5)."""
    yield from _checked(shared_system, request)


@pytest.fixture(scope="module", params=BASES)
def shared_chain(request: pytest.FixtureRequest) -> Iterator[System]:
    """One system for a whole module, with the workers B to E."""
    with System(request.param, timeout=40, orphan_grace=GRACE) as system:
        for name in "BCDE":
            system.worker(name)
        yield system


@pytest.fixture
def chain_system(shared_chain: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """A system with the workers B to E; after the test no reference may be left in it (G5)."""
    yield from _checked(shared_chain, request)


def _checked(system: System, request: pytest.FixtureRequest) -> Iterator[System]:
    yield system
    if not request.node.stash.get(FAILED, False):  # a traceback would keep the test's objects alive
        assert_nothing_held(system)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """The file for which `hold` waits. The test makes it, or else the test's end does.

    Name the fixture after the system: then the gate opens before the system is checked.
    """
    gate = tmp_path / "gate"
    yield gate
    gate.touch()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, object]], None]:
    """Sets limits by their names in docs/limits.md, for the systems that are started next."""
    page = (Path(__file__).parents[2] / "docs/limits.md").read_text(encoding="utf-8")

    def set_limits(values: dict[str, object]) -> None:
        for name, value in values.items():
            assert f"{name.rpartition('.')[2]}`" in page, f"{name} is not documented"
            monkeypatch.setattr(f"farref.{name}", value)

    return set_limits


@pytest.fixture(params=BASES)
def own_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of the test's own, which it may damage."""
    with System(request.param, timeout=20, orphan_grace=GRACE) as system:
        yield system


@pytest.fixture(params=PROCESSES)
def process_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of the test's own with a process for every actor, which can be killed."""
    with System(request.param, timeout=20, orphan_grace=GRACE) as system:
        yield system

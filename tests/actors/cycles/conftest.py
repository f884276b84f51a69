"""The workers of these tests, and the constants of the search, which some tests make small."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from farref import System
from farref.actors.core import discards
from farref.actors.cycles import collector, scan
from farref.protocol import cycles, holders, search

from ..conftest import GRACE
from .rings import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODULES = (collector, scan, cycles, holders, search, discards)


@pytest.fixture(scope="module")
def base() -> str | None:
    """The system's base: the default one, unless a file overrides this fixture."""
    return None


@pytest.fixture(scope="module")
def system(base: str | None) -> Iterator[System]:
    gc.freeze()  # a search collects garbage, and each process inherits pytest's heap
    with System(base, timeout=60, orphan_grace=GRACE) as made:
        for name in NAMES:
            made.worker(name)
        yield made


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets constants of the search by name, wherever they are; workers inherit them by the fork."""

    def assign(**values: float) -> None:
        for name, value in values.items():
            modules = [each for each in MODULES if hasattr(each, name)]
            assert modules, name
            for module in modules:
                monkeypatch.setattr(module, name, value)

    return assign


@pytest.fixture
def hasty(constants: Callable[..., None]) -> None:
    """Endpoints search by themselves all the time."""
    constants(IDLE=0.02, LONGEST=0.02, AGE=0.01)

"""Every value of the zoo arrives as `pickle` gives it, or better, whichever way it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from farref import System

from . import zoo

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=60) as system:
        system.worker("B")
        system.worker("C")
        yield system


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("of", ["python", "numpy"])
def test_by_import(system: System, of: str) -> None:
    assert not zoo.differences(system, of)

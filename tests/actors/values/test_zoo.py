"""Every value of the zoo arrives as `pickle` gives it, or better, whichever way it is sent."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from farref import System

from . import zoo

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
LONG_TORCH = pytest.param("torch", marks=pytest.mark.long)


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=60) as system:
        system.worker("B")
        system.worker("C")
        yield system


@pytest.mark.filterwarnings(
    "ignore:the matrix subclass:PendingDeprecationWarning",
    "ignore:The chararray class:DeprecationWarning",
    "ignore::UserWarning",
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("of", ["python", "numpy", "pandas", "pyarrow", LONG_TORCH])
@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.deep)])
def test_by_import(system: System, of: str, one_in: int) -> None:
    if of not in {"python", "numpy"}:
        pytest.importorskip(of)
    assert list(zoo.differences(system, of, one_in)) == []


def test_by_value() -> None:
    program = [sys.executable, zoo.__file__]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == []

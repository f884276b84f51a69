"""Functions and classes of ``__main__``: `by_value` is the program, with a table of cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from . import by_value

pytestmark = pytest.mark.processes
PROGRAM = Path(by_value.__file__)


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[int, list[str]]]:
    """By case: how many values there were, and the wrong ones."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return {name: (many, wrong) for name, many, wrong in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", by_value.CASES)
def test_the_values_are_right(case: str, results: dict[str, tuple[int, list[str]]]) -> None:
    many, wrong = results[case]
    assert many
    assert not wrong

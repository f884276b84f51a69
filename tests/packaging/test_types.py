"""`mypy --strict`, as `make types` runs it: beside the tests, as it keeps one processor busy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .imports import ROOT


@pytest.mark.timeout(600)  # without its cache it takes 90 s of a processor
def test_mypy_finds_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

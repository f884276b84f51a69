"""The program in docs/testing.md does what its comments say, and the fixtures work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"

pytestmark = pytest.mark.processes


def test_the_program_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*?):", program)


def test_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["farref.testing.fixtures"]\n')
    (tmp_path / "test_mine.py").write_text(
        """
import pytest, farref
from farref.testing import Faults, counts, drop

def test_plain(farref_system):
    farref_system.worker("B")
    assert farref.rpc_sync("B", pow, (2, 2)) == 4

@pytest.mark.farref(base="simpleSystemBase", faults=Faults(drop(first=1, kinds="Call")))
def test_with_faults(farref_system):
    farref_system.worker("B")
    assert farref.rpc_sync("B", pow, (2, 2)) == 4
    assert counts(farref_system)["program"].dropped == 1

def test_that_fails(farref_system):
    ref = farref.RRef([1])
    assert False, "mine"
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "mine" in done.stdout

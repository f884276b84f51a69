"""`make conformance`: a run without any tests does not count as passed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "thespian_conformance.py"
TESTS = {
    "test_passes.py": "def test_it():\n    pass\n",
    "test_ends.py": "import os\n\n\ndef test_it():\n    os._exit(3)\n",
}
"""A stand-in for Thespian's tests, which are fetched from PyPI."""


def conformance(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    tree = folder / "thespian-4.0.1"
    for name in ("test", "system"):
        (tree / "thespian" / name).mkdir(parents=True)
    for name, text in TESTS.items():
        (tree / "thespian" / "test" / name).write_text(text)
    archive = folder / "thespian-4.0.1.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, tree.name)
    return subprocess.run(
        [sys.executable, str(TOOL), "--sdist", str(archive), "--files", *files],
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
    )


def test_a_file_that_ends_before_it_has_reported_has_failed(tmp_path: Path) -> None:
    done = conformance(tmp_path, *TESTS)
    assert done.returncode == 1
    assert "ours: 1 passed, 1 failed" in done.stdout
    assert "FAILED test_ends.py: no test ran (exit code 3)" in done.stdout


def test_files_that_thespian_does_not_have_are_named(tmp_path: Path) -> None:
    done = conformance(tmp_path, "test_passes.py", "test_wakeups.py")
    assert done.returncode == 1
    assert "Thespian 4.0.1 has no tests test_wakeups.py" in done.stderr

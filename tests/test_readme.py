"""The README's program does what its comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.processes
def test_the_program_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    program = programs()[0]
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    said = re.findall(r"print\(.*\)\s+# (.*)", program)
    assert done.stdout.splitlines() == said
    assert done.stderr == ""


def test_the_program_is_short() -> None:
    program = programs()[0]
    code = [line for line in program.splitlines() if line.strip()]
    assert len(code) <= 32

"""The programs of the README and of docs/ do what their comments say.

The README's second one needs two machines: `tests/hosts` runs it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/aliases.md")


def programs(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.processes
@pytest.mark.parametrize("page", PAGES)
def test_the_program_runs_and_prints_what_it_says(tmp_path: Path, page: str) -> None:
    program = programs(page)[0]
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    said = re.findall(r"print\(.*\)\s+# (.*)", program)
    assert done.stdout.splitlines() == said
    assert done.stderr == ""


@pytest.mark.parametrize("page", PAGES)
def test_the_program_is_short(page: str) -> None:
    program = programs(page)[0]
    code = [line for line in program.splitlines() if line.strip()]
    assert len(code) <= 32

"""Start and rest are measured in programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench import page
from bench.programs import Programs, spent
from bench.session import COMPILED, TOKEN, carrying

LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it needs Linux's /proc")
MARK = "a test of programs"


def test_an_import_finds_compiled_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in ((TOKEN, MARK), (COMPILED, str(tmp_path))):
        monkeypatch.setenv(name, value)
    programs = Programs("farref")
    (one,) = tmp_path.rglob(f"actors/api/system.{sys.implementation.cache_tag}.pyc")
    before = one.stat().st_mtime_ns
    assert programs.load(2, 0) > 0
    assert one.stat().st_mtime_ns == before


PEER = """
import os, sys
from bench.programs import Programs

programs = Programs(sys.argv[1])
with programs._at_rest(0.1) as (program, others):
    assert program.ppid() == os.getpid()
    assert not {program.pid, os.getpid()} & {each.pid for each in others}
    print(len(others))
assert programs.start(1, 0) > 0
assert 0 <= programs.rest(1, 0) < 100  # percent of a core
print(programs.rest_memory(2, 0) / 2)
"""


@LINUX
@pytest.mark.processes
@pytest.mark.parametrize(("peer", "number"), [("farref", 7), ("base", 6)])
def test_all_processes_of_a_system_at_rest_are_measured(
    peer: str, number: int, tmp_path: Path
) -> None:
    """Admin, keeper, four workers, and farref's registrar; program and session are told apart."""
    done = subprocess.run(
        [sys.executable, "-c", PEER, peer],
        cwd=page.DOCS.parent,
        env={**os.environ, TOKEN: MARK, COMPILED: str(tmp_path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    others, memory = done.stdout.split()
    assert int(others) == number
    assert float(memory) > number * 2e6
    assert carrying(MARK) == []


@LINUX
def test_the_time_of_the_processor_is_not_counted_in_hundredths() -> None:
    before = spent(psutil.Process())
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    assert spent(psutil.Process()) - before >= 0.001

"""Start and rest are measured in programs of their own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench.programs import Programs, spent
from bench.session import COMPILED, TOKEN, carrying

LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it needs Linux's /proc")
MARK = "a test of programs"


@pytest.fixture
def programs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Programs]:
    monkeypatch.setenv(TOKEN, MARK)
    monkeypatch.setenv(COMPILED, str(tmp_path))
    made = Programs(request.param)
    yield made
    assert carrying(MARK) == []


@pytest.mark.parametrize("programs", ["farref"], indirect=True)
def test_an_import_finds_compiled_modules(programs: Programs, tmp_path: Path) -> None:
    (one,) = tmp_path.rglob(f"actors/api/system.{sys.implementation.cache_tag}.pyc")
    before = one.stat().st_mtime_ns
    assert programs.load(2, 0) > 0
    assert one.stat().st_mtime_ns == before


@LINUX
@pytest.mark.processes
@pytest.mark.parametrize(
    ("programs", "number"), [("farref", 7), ("base", 6)], indirect=["programs"]
)
def test_all_processes_of_a_system_at_rest_are_measured(
    programs: Programs, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Admin, keeper, four workers, and farref's registrar; the program is told apart."""
    peer = psutil.Process()  # it carries the token, as it does in a session
    monkeypatch.setattr("bench.programs.carrying", lambda token: [peer, *carrying(token)])
    with programs._at_rest(0.1) as (program, others):
        assert program.ppid() == os.getpid()
        assert len({program.pid, *(other.pid for other in others)}) == number + 1
    assert programs.start(1, 0) > 0
    assert 0 <= programs.rest(1, 0) < 100  # percent of a core
    assert programs.rest_memory(2, 0) / 2 > number * 2e6


@LINUX
def test_the_time_of_the_processor_is_not_counted_in_hundredths() -> None:
    before = spent(psutil.Process())
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    assert spent(psutil.Process()) - before >= 0.001

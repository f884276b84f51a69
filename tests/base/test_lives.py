"""The states of a process, by ``/proc`` and by psutil."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess

import pytest

from farref import features
from farref.actors.base import lives

from ..waiting import eventually

PTRACE = ctypes.CDLL(None).ptrace
ATTACH, DETACH = 16, 17


@pytest.mark.parametrize("procfs", [True, False])
def test_the_states_of_a_process(procfs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features._HAS, "procfs", procfs)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        life = lives.Watched.of(process.pid)
        assert life is not None
        assert life.running()
        assert life.alive()
        assert lives.members(process.pid) == [life]
        eventually(lambda: life.name() == "sleep")
        earlier = lives.Watched(process.pid, life.started - 1)
        assert not earlier.alive(), "another process had that pid before"
        earlier.kill()
        assert PTRACE(ATTACH, process.pid, None, None) == 0
        os.waitpid(process.pid, os.WUNTRACED)
        running = life.running()
        assert PTRACE(DETACH, process.pid, None, None) == 0
        assert running, "who debugs it will let it go on"
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: not life.running())
        assert life.alive()
        life.kill()
        eventually(lambda: not life.alive())  # a zombie
        assert lives.members(process.pid) == []
        assert process.wait() == -signal.SIGKILL
    assert lives.Watched.of(process.pid) is None
    assert not life.alive()
    assert life.name() == ""
    life.kill()
    with pytest.raises(ProcessLookupError):
        lives.started(process.pid)
    assert lives.Watched.of(os.getpid()) is None


@pytest.mark.parametrize("pidfd", [True, False])
def test_waiting_for_the_end_of_a_process(pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features._HAS, "pidfd", pidfd)
    here, there = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        pids = [first.pid, second.pid]
        assert not lives.wait_for_one(pids, timeout=0)
        assert not lives.wait_for_one(pids, here, timeout=0.2)
        os.write(there, b"\0")
        assert not lives.wait_for_one(pids, here)
        second.kill()
        assert lives.wait_for_one(pids)
        assert lives.wait_for_one(pids, timeout=60)
        second.wait()
        assert lives.wait_for_one(pids)
        first.kill()
    os.close(here)
    os.close(there)

"""The framework's own processes are killed: every wait ends with a named error, and all is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import farref
from farref import (
    FarrefError,
    OwnerDiedError,
    System,
    SystemDownError,
    WorkerDiedError,
    features,
)
from farref.actors.core.threads import Threads
from farref.actors.hosting import processes
from farref.testing import assert_nothing_held, until

from ..actors.cluster.ancestry import admin_of, maker_of, processes_of
from ..actors.handles.test_freed import keep
from ..actors.scripts import started
from ..base.kit import alive
from ..bases import PROCESSES, about
from ..waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def ending(name: str, when: str) -> str:
    """Wait in a worker for a value that never comes; write down the wait's end."""
    try:
        farref.rpc_sync(name, time.sleep, (60,))
    except FarrefError as error:
        Path(when).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
    return ""


@pytest.mark.parametrize("base", PROCESSES)
@pytest.mark.parametrize("victim", ["the admin", "the registrar"])
def test_without_the_frameworks_own(base: str, victim: str, tmp_path: Path) -> None:
    """Every wait ends at once, here and in the workers: the timeouts are longer than the test's."""
    with System(base, timeout=600) as system:
        for name in "BC":
            system.worker(name)
        ref = farref.remote("B", list, ((1,),))
        assert ref.to_here() == [1]
        waiting = farref.rpc_async("C", time.sleep, (60,))
        told = tmp_path / "told"
        farref.rpc_async("B", ending, ("C", str(told)))
        processes = processes_of("B")
        killed = (admin_of if victim == "the admin" else maker_of)("B").pid

        def left() -> int:
            return sum(alive(each.pid) for each in processes)

        os.kill(killed, signal.SIGKILL)
        # The admin's end may look like the worker's end first.
        with pytest.raises((SystemDownError, WorkerDiedError)):
            waiting.result()
        assert until(system, lambda: system.endpoint.core.closed)
        uses: list[Callable[[], Any]] = [
            ref.to_here,
            ref.rpc_sync().copy,
            lambda: farref.rpc_sync("C", pow, (2, 4)),
            lambda: farref.rpc_sync("C", len, ([ref],)),
            lambda: farref.rpc_sync("C", keep, (ref,)),
            lambda: farref.remote("B", list).to_here(),
            lambda: farref.rpc_sync("nobody", pow, (2, 4)),
            system.workers,
            lambda: system.worker("D"),
            lambda: system.tell("C", 1),
            lambda: system.ask("C", 1),
        ]
        for use in uses:
            with pytest.raises(SystemDownError, match=str(killed)):
                use()
        if victim == "the registrar":  # the admin and the reaper are left
            assert until(system, lambda: left() <= 2)
            if not about(base).own:  # on ours the workers end with their parent, at once
                assert until(system, told.exists)
                assert told.read_text(encoding="utf-8").startswith("SystemDownError")
        else:
            assert until(system, lambda: not left())
    eventually(lambda: not left())


def test_what_died_before_the_system_did() -> None:
    """The use of a reference reports the system's end, also if its owner died before."""
    with System() as system:
        system.worker("B")
        ref = farref.remote("B", list)
        ref.to_here()
        os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
        with pytest.raises(OwnerDiedError):
            ref.to_here()
    uses: list[Callable[[], Any]] = [ref.to_here, ref.rpc_sync().copy, ref.remote().copy]
    for use in uses:
        with pytest.raises(SystemDownError):
            use()


@pytest.mark.parametrize("fallback", [False, True])
def test_a_vigil(fallback: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if fallback:
        monkeypatch.setitem(features._HAS, "pidfd", False)
    over = threading.Event()
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        ended = threading.Event()
        processes.Vigil((first.pid,), ended.set, Threads().start).end()
        vigil = processes.Vigil((first.pid, second.pid), over.set, Threads().start)
        second.kill()
        second.wait()
        assert over.wait(20)
        first.kill()
    vigil.end()
    gone = threading.Event()
    processes.Vigil((first.pid,), gone.set, Threads().start)
    assert gone.wait(20)
    assert not ended.is_set()


ATTACHED = """
    import signal, sys, time
    import farref

    with farref.System.attach(sys.argv[1]) as system:
        ref = farref.remote("B", list, ((1,),))
        mine = farref.RRef([2])
        farref.rpc_sync("C", id, (ref,))
        future = farref.rpc_async("C", time.sleep, (60,))
        print("ready", flush=True)
        signal.pause()
"""


@pytest.mark.parametrize("base", PROCESSES)
def test_an_attached_program_is_killed(base: str, tmp_path: Path) -> None:
    """Its references are freed, nothing waits to be delivered to it, and all else goes on."""
    with System(base, timeout=20, orphan_grace=0.5) as system:
        for name in "BC":
            system.worker(name)
        with started(tmp_path, ATTACHED, system.name) as program:
            assert program.stdout
            assert program.stdout.readline() == "ready\n"
            name = f"program-{program.pid}"
            other = next(info for info in system.workers() if info.name == name)
            asking = farref.rpc_async(other, time.sleep, (60,))
            program.kill()
            with pytest.raises(farref.WorkerDiedError):
                asking.result()
        assert until(system, lambda: name not in {info.name for info in system.workers()})
        assert farref.rpc_sync("C", pow, (2, 4)) == 16
        del asking
        assert_nothing_held(system)

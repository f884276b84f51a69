"""The framework's own processes are killed: every wait ends with a named error, and all is gone."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import farref
from farref import FarrefError, System
from farref.actors import processes
from farref.testing import assert_nothing_held, until

from ..actors.scripts import started
from ..actors.test_freed import keep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]
BASES = ["farrefBase", "multiprocTCPBase"]


def ancestors() -> dict[str, int]:
    """The admin, and below it the registrar, which is the parent of the workers."""
    worker = psutil.Process(farref.rpc_sync("B", os.getpid))
    registrar = worker.parent()
    assert registrar is not None
    admin = registrar.parent()
    assert admin is not None
    return {"the admin": admin.pid, "the registrar": registrar.pid}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("victim", ["the admin", "the registrar"])
def test_without_the_frameworks_own(base: str, victim: str) -> None:
    """Calls between those that are left may go on; nothing waits longer than it may."""
    system = System(base, timeout=20)
    for name in "BC":
        system.worker(name)
    ref = farref.remote("B", list, ((1,),))
    assert ref.to_here() == [1]
    waiting = farref.rpc_async("C", time.sleep, (60,), timeout=1)
    system.endpoint.settings = replace(system.endpoint.settings, timeout=1.0)
    os.kill(ancestors()[victim], signal.SIGKILL)
    with pytest.raises(FarrefError):
        waiting.result()
    uses: list[Callable[[], Any]] = [
        ref.to_here,
        ref.rpc_sync().copy,
        ref.owner,
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
        try:
            use()
        except FarrefError:
            continue
        except TypeError:
            continue  # workers handle no messages, says a worker that lives
    system.shutdown()
    assert processes.members(system._session) == []


ATTACHED = """
    import os, sys, time
    import farref

    with farref.System.attach(sys.argv[1]) as system:
        ref = farref.remote("B", list, ((1,),))
        mine = farref.RRef([2])
        farref.rpc_sync("C", id, (ref,))
        future = farref.rpc_async("C", time.sleep, (60,))
        print("ready", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("base", BASES)
def test_an_attached_program_is_killed(base: str, tmp_path: Path) -> None:
    """What it held is freed, what was to be told to it is not waited for, and all else goes on."""
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

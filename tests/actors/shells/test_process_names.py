"""The processes of a system have names in `top` and `ps`."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import farref

from ...marks import NAMES

if TYPE_CHECKING:
    from farref import System

pytestmark = [pytest.mark.processes, NAMES]


def comm(pid: int | str = "self") -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").rstrip("\n")


def test_a_worker_is_named(process_system: System) -> None:
    before = comm()
    names = (("B", "B"), ("überall-unterwegs", "überal"), ("123456ü", "123456"))
    for name, short in names:  # 15 bytes at most; half a letter is no name
        process_system.worker(name)
        assert comm(farref.rpc_sync(name, os.getpid)) == f"farref: {short}"
    assert comm() == before, "the program keeps its own name"


def test_every_process_of_our_own_base_is_named() -> None:
    with farref.System("farrefBase") as system:
        system.worker("B")
        session = os.getsid(farref.rpc_sync("B", os.getpid))
        pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
        names = {comm(pid) for pid in pids if in_session(pid, session)}
    # Where setproctitle is installed, Thespian names the logger in its own way.
    assert names >= {"farref: admin", "farref: Registr", "farref: B"}


def in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False


def test_an_actor_inside_the_program_does_not_rename_it() -> None:
    before = comm()
    with farref.System("simpleSystemBase") as system:
        system.worker("B")
        assert farref.rpc_sync("B", comm) == before


@pytest.mark.skipif(
    importlib.util.find_spec("setproctitle") is None, reason="setproctitle is not installed"
)
def test_ps_shows_the_system_too() -> None:
    with farref.System() as system:
        system.worker("B")
        pid = farref.rpc_sync("B", os.getpid)
        line = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
    assert line == f"farref: B ({system.name})"

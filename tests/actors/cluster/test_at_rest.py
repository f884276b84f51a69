"""A system at rest: its processes, their messages, and the memory that they touch."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from thespian.actors import Actor

import farref
from farref import System

from ..helpers import idle, until
from .ancestry import admin_of, maker_of

pytestmark = pytest.mark.processes
BEAT = 0.2
SILENCE = 3 * BEAT
"""An endpoint beats three times in it."""


def test_the_processes_of_a_system() -> None:
    """Admin, reaper and registrar; and one for each worker. The first record makes the logger."""
    with System() as system:
        for name in "BCDE":
            system.worker(name)
        registrar, admin = maker_of("B"), admin_of("B")
        workers = registrar.children()
        assert len(workers) == 4
        quiet = [each for each in workers if each.pid != farref.rpc_sync("B", os.getpid)]
        # The main thread, and one that waits for the end of the registrar or the admin. The helper
        # begins with the first call.
        assert until(system, lambda: [each.num_threads() for each in quiet] == [2, 2, 2])
        assert [each.num_threads() for each in (admin, registrar)] == [1, 1]
        assert len(admin.children(recursive=True)) == 6
        farref.rpc_sync("B", logging.getLogger("app").warning, args=("the first",))
        farref.rpc_sync("C", logging.getLogger("app").warning, args=("the second",))
        assert until(system, lambda: len(admin.children()) == 3)
        assert len(admin.children(recursive=True)) == 7


def test_nothing_answers_a_beat() -> None:
    """On our own base an endpoint at rest wakes for its own beats only, once for each."""
    with System(silence=SILENCE) as system:
        system.worker("B"), system.worker("C")
        asked = farref.rpc_sync("B", os.getpid)
        (pid,) = (each.pid for each in maker_of("B").children() if each.pid != asked)

        def wakeups() -> int:
            before = waits_of(pid)
            idle(system, 10 * BEAT)
            return waits_of(pid) - before

        assert until(system, lambda: wakeups() < 15)


def waits_of(pid: int) -> int:
    """How often the threads of a process have waited for something."""
    files = Path(f"/proc/{pid}/task").glob("*/status")
    return sum(
        int(re.findall(r"\nvoluntary_ctxt_switches:\s*(\d+)", f.read_text())[0]) for f in files
    )


class Frozen(Actor):
    """Answers with the number of objects that its collector leaves alone."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message == "?":
            self.send(sender, gc.get_freeze_count())


def test_a_process_collects_nothing_that_it_inherited() -> None:
    """A pass over these objects would copy each page of them."""
    before = gc.get_freeze_count()
    with System() as system:
        assert system.ask(system.create(Frozen), "?") > 10_000  # the modules that farref loads
    assert gc.get_freeze_count() <= before  # of earlier tests; some of them may end


class Looked(ModuleType):
    """A module of the program's that counts the looks at it."""

    looks = 0

    @property
    def __file__(self) -> str:  # type: ignore[override]
        self.looks += 1
        return "/nowhere/looked.py"


def looks() -> int:
    there: Any = sys.modules["looked"]
    return int(there.looks)


def test_modules_that_are_known_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registrar notes the new modules before each fork. What it touched would be its own."""
    monkeypatch.setitem(sys.modules, "looked", Looked("looked"))
    with System() as system:
        for name in "BCD":
            system.worker(name)
        assert farref.rpc_sync("B", looks) == farref.rpc_sync("D", looks) > 0

"""A system at rest: its processes, their messages, and the memory that they touch."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from types import ModuleType
from typing import Any

import psutil
import pytest
from thespian.actors import Actor

import farref
from farref import System
from farref.actors.base.outgoing import OutConnection
from farref.actors.core.registrar_client import RegistrarClient
from farref.actors.hosting.modules import Modules

from ..helpers import until

BEATS = 5


@pytest.mark.processes
def test_the_processes_of_a_system() -> None:
    """Admin, reaper and registrar; and one for each worker. The first record makes the logger."""
    with System() as system:
        for name in "BCDE":
            system.worker(name)
        worker = farref.rpc_sync("B", os.getpid)
        registrar = psutil.Process(worker).parent()
        assert registrar is not None
        admin = registrar.parent()
        assert admin is not None
        assert len(registrar.children()) == 4
        idle = [each for each in registrar.children() if each.pid != worker]
        # The main thread, and one that waits for the end of the registrar or the admin. The helper
        # begins with the first call.
        assert until(system, lambda: [each.num_threads() for each in idle] == [2, 2, 2])
        assert [each.num_threads() for each in (admin, registrar)] == [1, 1]
        assert len([admin, *admin.children(recursive=True)]) == 7
        farref.rpc_sync("B", logging.getLogger("app").warning, args=("the first",))
        farref.rpc_sync("C", logging.getLogger("app").warning, args=("the second",))
        assert until(system, lambda: len(admin.children()) == 3)
        assert len([admin, *admin.children(recursive=True)]) == 8


@pytest.mark.processes
def test_nothing_answers_a_beat() -> None:
    """On our own base an endpoint at rest wakes for its own beats only, and the registrar once."""
    with System(silence=0.5) as system:
        system.worker("B")
        assert until(system, lambda: farref.rpc_sync("B", events_while_beating) == (BEATS, 0))


def events_while_beating() -> tuple[int, int]:
    """How many beats this endpoint sent, and how often its connections reported something."""
    counts = {"beats": 0, "events": 0}
    beat, on_event = RegistrarClient.beat, OutConnection.on_event

    def counted_beat(self: RegistrarClient) -> None:
        if counts["beats"] < BEATS:
            counts["beats"] += 1
            beat(self)

    def counted_event(self: OutConnection, events: int) -> None:
        counts["events"] += 1
        on_event(self, events)

    RegistrarClient.beat = counted_beat  # type: ignore[method-assign]
    OutConnection.on_event = counted_event  # type: ignore[method-assign]
    try:
        end = time.monotonic() + 30
        while counts["beats"] < BEATS and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)  # an acknowledgement comes after 50 ms
    finally:
        RegistrarClient.beat, OutConnection.on_event = beat, on_event  # type: ignore[method-assign]
    return counts["beats"], counts["events"]


class Frozen(Actor):
    """Answers with the number of objects that its collector leaves alone."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message == "?":
            self.send(sender, gc.get_freeze_count())


@pytest.mark.processes
def test_a_process_collects_nothing_that_it_inherited() -> None:
    """A pass over these objects would copy each page of them."""
    before = gc.get_freeze_count()
    with System() as system:
        assert system.ask(system.create(Frozen), "?") > 10_000  # the modules that farref loads
    assert gc.get_freeze_count() <= before  # of earlier tests; some of them may end


class Looked(ModuleType):
    """Counts the looks at it."""

    looks = 0

    @property
    def __file__(self) -> str:  # type: ignore[override]
        self.looks += 1
        return "/nowhere/looked.py"


def test_modules_that_are_known_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registrar notes the modules before each fork. What it touched would be its own."""
    first, second = Looked("looked_first"), Looked("looked_second")
    monkeypatch.setitem(sys.modules, "looked_first", first)
    known = Modules()
    assert first.looks == 1
    monkeypatch.setitem(sys.modules, "looked_second", second)
    known.note()
    known.note()
    assert (first.looks, second.looks) == (1, 1)
    # One that was dropped, and is imported again, is new.
    known._marks["looked_second"] = second.__file__, (1, 1)
    known.renew()
    assert "looked_second" not in sys.modules
    monkeypatch.setitem(sys.modules, "looked_second", second)
    looks = second.looks
    known.note()
    assert (first.looks, second.looks) == (1, looks + 1)

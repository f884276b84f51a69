"""The end of a program waits for the work that it has asked for, and names what it gives up."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import farref
from farref import RRef, System
from farref.actors.api import ending

from ...bases import BASES
from ...stopping import stop
from ...waiting import eventually
from ..helpers import hold
from ..scripts import run, running, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.processes
SLOW = 0.3


def slow(place: Path) -> None:
    time.sleep(SLOW)
    place.touch()


class Slow:
    def slow(self, place: Path) -> None:
        slow(place)


def nested(place: Path) -> RRef[Any]:
    return farref.remote("C", slow, (place,))


def call(place: Path) -> None:
    farref.rpc_async("B", slow, (place,))


KEPT: list[RRef[Any]] = []
WORK: dict[str, Callable[[Path], object]] = {
    "call": call,
    "creation": lambda place: farref.remote("B", slow, (place,)),
    "method": lambda place: farref.remote("B", Slow).rpc_async().slow(place),
    "creation by a method": lambda place: farref.remote("B", Slow).remote().slow(place),
    # What B asks C for is the program's work as long as the program keeps the alias.
    "alias": lambda place: KEPT.append(farref.remote("B", nested, (place,))),
    "own": lambda place: farref.remote(farref.get_worker_info(), slow, (place,)),
    "chained": lambda place: farref.rpc_async("B", abs, (-1,)).then(lambda _: slow(place)),
    "chain of calls": lambda place: farref.rpc_async("B", time.sleep, (0.05,)).then(
        lambda _: call(place)
    ),
}


@pytest.mark.parametrize("base", BASES)
def test_the_end_waits_for_everything_that_was_asked_for(base: str, tmp_path: Path) -> None:
    with System(base) as system:
        system.worker("B"), system.worker("C")
        for name, ask in WORK.items():
            ask(tmp_path / name)
    KEPT.clear()
    assert {path.name for path in tmp_path.iterdir()} == WORK.keys()


@pytest.mark.parametrize("end", ["shutdown(graceful=False)", "shutdown(timeout=0)", "exception"])
def test_it_ends_at_once_if_told_so(end: str, gate: Path) -> None:
    with pytest.raises(KeyError), System(timeout=600) as system:  # noqa: PT012 - the end of the block is tested
        system.worker("B")
        farref.rpc_async("B", hold, (gate,))
        if end != "exception":
            eval(f"system.{end}")
        raise KeyError


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_it_names_what_it_gives_up(gate: Path, caplog: pytest.LogCaptureFixture) -> None:
    with System(name="names") as system:
        system.worker("B")
        farref.rpc_async("B", hold, (gate,))
        farref.remote("B", time.sleep, (30,))
        system.shutdown(timeout=3)
    (line,) = lines_of(caplog)
    assert line.startswith("system 'names' ends without the reply of B to hold() (called at ")
    assert "; sleep() (called at" in line
    assert line.endswith(") on B")
    assert line.count(f"{__file__}:") == 2


def test_an_owner_may_be_slow_to_name_it(
    gate: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "PARTING", 30.0)  # a busy machine may take the usual second
    with System(name="slow") as system:
        system.worker("B")
        pid = farref.rpc_sync("B", os.getpid)
        farref.remote("B", hold, (gate,))
        stop(pid)
        later = threading.Timer(0.1, os.kill, (pid, signal.SIGCONT))
        later.start()
        system.shutdown(timeout=0.05)
        later.join()
    (line,) = lines_of(caplog)
    assert line.startswith("system 'slow' ends without hold() (called at ")


def test_it_names_each_creation_once(gate: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Several results are one creation, and the owner may be too late for the last question."""
    with System(name="once") as system:
        system.worker("B")
        kept = farref.remote(farref.ANY, hold, (gate,))
        several = farref.remote("B", hold, (gate,), num_returns=3)
        system.shutdown(timeout=3)
    (line,) = [r.getMessage() for r in caplog.records if "ends without" in r.getMessage()]
    assert line.count("hold() (called at ") == 2
    assert "does not say" not in line
    del kept, several


def test_a_call_is_given_up_at_its_own_timeout(caplog: pytest.LogCaptureFixture) -> None:
    with System(timeout=600) as system:
        system.worker("B")
        farref.rpc_async("B", time.sleep, (600,), timeout=0.5)
    (line,) = lines_of(caplog)
    assert "the reply of B to sleep() did not come within 0.5 s, so the request has ended" in line


def test_a_worker_that_dies_is_not_waited_for(gate: Path) -> None:
    with System(orphan_grace=0.1, timeout=600) as system:
        system.worker("B")
        pid = farref.rpc_sync("B", os.getpid)
        farref.remote("B", hold, (gate,))
        os.kill(pid, signal.SIGKILL)


def test_a_program_that_attached_waits_too(tmp_path: Path) -> None:
    with System() as system:
        system.worker("B")
        program = """
            import farref, pathlib, sys, time
            done = pathlib.Path(sys.argv[2])
            def slow():
                time.sleep(0.5)
                done.touch()
            with farref.System.attach(sys.argv[1]):
                farref.remote("B", slow)
            print(done.exists())
        """
        assert run(tmp_path, program, system.name, str(tmp_path / "done")) == "True\n"


@pytest.mark.parametrize("timeout", [-1, "1", True])
def test_bad_timeouts_are_refused(timeout: Any) -> None:
    with System("simpleSystemBase") as system:
        with pytest.raises((ValueError, TypeError), match="timeout"):
            system.shutdown(timeout=timeout)
        assert system.workers()


WAITING = """
import sys, time, farref
with farref.System() as system:
    system.worker("B")
    farref.rpc_async("B", time.sleep, (60,))
    print("ready", flush=True)
"""


def test_control_c_ends_the_wait(tmp_path: Path) -> None:
    with running(tmp_path, WAITING) as process:
        main = psutil.Process(process.pid)
        eventually(lambda: main.status() == psutil.STATUS_SLEEPING)  # it waits
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert "farref waits for" not in err  # this is no terminal


def test_a_terminal_shows_what_it_waits_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, str(write(tmp_path, WAITING))]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    with subprocess.Popen(command, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        end = time.monotonic() + 30
        while b"sleep()" not in said and time.monotonic() < end:
            said += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the end of a terminal
            while os.read(ours, 1000):
                pass
        os.close(ours)
    assert b"farref waits for the reply of B to sleep()" in said
    assert b"\x1b[3" not in said  # NO_COLOR

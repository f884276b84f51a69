"""A program may attach to a system that is just being started."""

from __future__ import annotations

import select
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from ...stopping import stopped
from ...waiting import PATIENCE
from ..scripts import started

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

SILENCE = 1.0
TRIES = 20
FIRST = f"""
    import sys
    from farref import System

    with System(name=sys.argv[1], silence={SILENCE}) as system:
        print("begun", flush=True)
        system.serve()
"""
ATTACHING = f"""
    import sys
    from farref import System
    from farref.testing import until

    with System.attach(sys.argv[1]) as system:
        print("attached", flush=True)
        print("given up:", until(system, lambda: len(system.workers()) < 2, 3 * {SILENCE}))
"""


def speaks(program: Popen[str], seconds: float = 0.0) -> bool:
    """Whether *program* has written something, or ended, within *seconds*."""
    assert program.stdout is not None
    return bool(select.select([program.stdout], [], [], seconds)[0])


def is_answered(program: Popen[str]) -> bool:
    """Wait until *program* speaks, or waits for an answer. Returns whether it speaks."""
    process = psutil.Process(program.pid)
    while not speaks(program):
        used = process.cpu_times().user
        idle = not speaks(program, 2 * SILENCE) and process.cpu_times().user - used < 0.1
        if idle and process.status() == psutil.STATUS_SLEEPING:
            return False
    return True


def wait_for(entry: Path) -> None:
    """Wait until *entry* tells the way into its system, without a pause: the program goes on."""
    end = time.monotonic() + PATIENCE
    while not entry.exists() or b'"door"' not in entry.read_bytes():
        assert time.monotonic() < end


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_it_has_the_settings_and_is_not_given_up(own_folder: Path, tmp_path: Path) -> None:
    """The directory names the system already, but its registrar has no settings yet."""
    for name in map("early-{}".format, range(TRIES)):
        with started(tmp_path, FIRST, name) as first:
            wait_for(own_folder / f"{name}.json")
            with stopped(first.pid):
                if speaks(first):
                    continue  # it was quicker than we
                attaching = started(tmp_path, ATTACHING, name)
                with attaching as program:
                    early = not is_answered(program)
                    if early:
                        first.send_signal(signal.SIGCONT)
                        assert program.communicate(timeout=60)[0] == "attached\ngiven up: False\n"
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=60)
            if early:
                return
    pytest.fail("no start was stopped in time")

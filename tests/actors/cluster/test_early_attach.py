"""A program may attach to a system that is just being started."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from farref import System
from farref.actors.api.stay import Stay

from ..helpers import hold

if TYPE_CHECKING:
    from pathlib import Path

SILENCE = 1.0
ATTACH = f"""
import sys, time
from pathlib import Path
from farref import System
from farref.actors.api.stay import Stay
from farref.actors.hosting import versions

def and_tell(self, answer):
    # The registrar answers in order. If it answers this question, it has taken the join.
    self.port.post(self._registrar, (versions.ASK, versions.mine()))
    assert self.port.wait(self.port.versions, 20)
    Path(sys.argv[2]).touch()
    return wait(self, answer)

wait, Stay._await = Stay._await, and_tell
with System.attach(sys.argv[1]) as system:
    print(system.endpoint.core.settings.silence)
    time.sleep(3 * {SILENCE})
    print(len(system.workers()))
"""


@pytest.mark.processes
def test_it_has_the_settings_and_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch, gate: Path
) -> None:
    programs: list[subprocess.Popen[str]] = []
    enter = System._enter

    def later(self: System, stay: Stay, _: None) -> None:
        words = [sys.executable, "-c", ATTACH, stay.name, str(gate)]
        programs.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        hold(gate)  # it has asked to join: the directory names the system already
        time.sleep(2 * SILENCE)
        enter(self, stay)

    monkeypatch.setattr(System, "_enter", later)
    with System(silence=SILENCE):
        said, _ = programs[0].communicate(timeout=60)
    assert said.split() == [str(SILENCE), "2"]

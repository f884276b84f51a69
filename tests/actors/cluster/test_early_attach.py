"""A program may attach to a system that is just being started."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from farref import System
from farref.actors.api.stay import Stay

SILENCE = 1.0
ATTACH = f"""
import sys, time
from farref import System
from farref.actors.api.stay import Stay
with System.attach(sys.argv[1]) as system:
    print(system.endpoint.core.settings.silence)
    time.sleep(3 * {SILENCE})
    print(len(system.workers()))
"""


@pytest.mark.processes
def test_it_has_the_settings_and_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[subprocess.Popen[str]] = []
    enter = System._enter

    def later(self: System, stay: Stay, _: None) -> None:
        words = [sys.executable, "-c", ATTACH, stay.name]
        programs.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        time.sleep(2)  # it has asked to join: the directory names the system already
        enter(self, stay)

    monkeypatch.setattr(System, "_enter", later)
    with System(silence=SILENCE):
        said, _ = programs[0].communicate(timeout=30)
    assert said.split() == [str(SILENCE), "2"]

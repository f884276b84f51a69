"""A program that has hardly any descriptors gets named errors, and goes on when it has some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..scripts import started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes
PROGRAM = """
    import os, resource
    import farref

    def second():
        with farref.System():
            pass

    def run(system):
        asks = {
            "second system": second,
            "attach": lambda: farref.System.attach(system.name),
            "worker": lambda: system.worker("D"),
            "call": lambda: farref.rpc_sync("C", abs, (-1,)),
            "array": lambda: farref.remote("C", bytes, (1 << 21,)).to_here(),
            "workers": system.workers,
            "hosts": system.hosts,
            "references": system.references,
            "counters": system.counters,
            "why": lambda: system.why("program/1"),
            "collect": system.collect,
        }
        for name, ask in asks.items():
            try:
                ask()
            except farref.FarrefError as error:
                print(name, type(error).__name__)
            except BaseException as error:
                print("unnamed:", name, repr(error))

    if __name__ == "__main__":
        with farref.System(timeout=5) as system:
            system.worker("B"), system.worker("C")
            farref.rpc_sync("B", abs, (-1,))
            taken = len(os.listdir("/proc/self/fd")) - 1
            for most in (taken + 5, taken + 2, taken):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
                run(system)
"""


def test_errors_are_named(tmp_path: Path) -> None:
    with started(tmp_path, PROGRAM) as program:
        out, said = program.communicate(timeout=100)
    assert program.returncode == 0, said
    assert "unnamed" not in out
    assert "second system SystemDownError" in out

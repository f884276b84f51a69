"""The machine and the versions of a run, without the machine's name."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .peers import Spec


def machine() -> dict[str, object]:
    """The facts that a reader needs to compare the figures."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "load at the start": round(os.getloadavg()[0], 1),
    }


@contextlib.contextmanager
def one_core_busy() -> Iterator[None]:
    """Another program computes meanwhile, as much as one core allows."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


def versions(specs: Iterable[Spec]) -> dict[str, str]:
    return {spec.distribution: spec.version() for spec in specs}


def about(said: dict[str, object]) -> str:
    """The facts of `machine` in one line."""
    memory = said["memory bytes"]
    gigabytes = memory / 2**30 if isinstance(memory, int) else 0
    return (
        f"Python {said['python']}, {said['system']}, {said['cores']} cores ({said['cpu']}), "
        f"{gigabytes:.0f} GB; load {said['load at the start']} at the start"
        + ("; another program keeps one core busy" if said.get("one core busy") else "")
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()

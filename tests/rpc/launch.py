"""Starts a program once for each rank, as torchrun does, and collects the outputs."""

import os
import re
import subprocess
import sys
from pathlib import Path

from ..ports import free_port

PRINTED = re.compile(
    r"^(\w+)\(\) failed on worker(\d):\nTraceback .*?^\w+Error: .*?\n", re.MULTILINE | re.DOTALL
)
"""What PyTorch's callee prints, too: the error of a function that another rank called."""


def launch(
    script: Path, size: int, *args: str, only: tuple[int, ...] | None = None
) -> list[tuple[int, str, str]]:
    """Run *script* as *size* ranks that meet by ``env://``; of these, *only* some are started.

    Returns the exit code, the output and the error output of each.
    """
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port("127.0.0.1"))}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), *args],
            env={**os.environ, **meeting, "RANK": str(rank), "WORLD_SIZE": str(size)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (range(size) if only is None else only)
    ]
    try:
        outputs = [each.communicate(timeout=120) for each in running]
    finally:
        for each in running:
            each.kill()
    return [(each.returncode, *output) for each, output in zip(running, outputs, strict=True)]


def failed(rank: int, errors: str) -> set[tuple[str, int]]:
    """The functions whose errors are in *errors*, the error output of *rank*: nothing else is."""
    assert PRINTED.sub("", errors) == ""
    found = {(name, int(worker)) for name, worker in PRINTED.findall(errors)}
    assert {worker for _, worker in found} <= {rank}
    return found

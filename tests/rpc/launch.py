"""Starts a program once for each rank, as torchrun does, and collects the outputs."""

import os
import subprocess
import sys
from pathlib import Path

from ..ports import free_port


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
        outputs = [each.communicate(timeout=60) for each in running]
    finally:
        for each in running:
            each.kill()
    return [(each.returncode, *output) for each, output in zip(running, outputs, strict=True)]

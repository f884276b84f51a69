"""The real `torchrun` starts the ranks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..marks import TORCH

RANKS = Path(__file__).with_name("ranks.py")

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300), TORCH]


def test_three_ranks_of_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=3"]
    done = subprocess.run(
        [*command, str(RANKS), "calls"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "".join(done.stdout.split()) == "None" * 3  # they print at once

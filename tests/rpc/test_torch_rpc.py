"""PyTorch's own tests, as `tools/torch_rpc.py` runs them."""

import subprocess
import sys
from pathlib import Path

import pytest

from ..marks import TORCH

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "torch_rpc.py"
SOME = ["test_add", "test_async_class_method", "test_my_parameter_server", "test_send_to_rank"]
NOT = ["test_all_gather", "test_worker_id"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


def test_the_page_has_the_table_of_the_tool() -> None:
    assert run("--page").stdout in (ROOT / "docs/howto/port-pytorch.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(300)
@TORCH
def test_some_of_them_have_the_outcome_of_the_list() -> None:
    done = run(*SOME, *NOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in SOME:
        assert f"passes   {name} " in done.stdout

"""The real `torchrun`, as a launcher of two nodes that are loopback addresses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..marks import TORCH
from ..ports import free_port
from . import recipes
from .kit import running

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    TORCH,
]


def test_torchrun_runs_a_program_on_two_nodes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(recipes.TRAIN, encoding="utf-8")
    where = f"127.0.0.1:{free_port('127.0.0.1')}"
    line = recipes.command("torchrun").replace("10.0.0.1:29400", where)
    line = line.replace("torchrun ", f"{sys.executable} -m torch.distributed.run ", 1)
    line = line.replace("--key farref.key ", "")
    lines = [
        line.replace("--no-python", f"--local-addr={address} --no-python")
        for address in ("127.0.0.2", "127.0.0.3")
    ]
    env = {"OMP_NUM_THREADS": "1", **recipes.path()}
    with running(tmp_path, (["bash", "-c", each] for each in lines), env) as nodes:
        codes = [node.end() for node in nodes]
        assert codes == [0, 0], "\n".join(node.err for node in nodes)
        assert sorted(node.out for node in nodes) == ["", recipes.ANSWER]

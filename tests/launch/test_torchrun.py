"""The real `torchrun`, as a launcher of two nodes that are loopback addresses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from ..base.kit import free_port
from .kit import FARREF, Node, reap

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="torch is not installed here"
    ),
]
PROGRAM = """
import sys
import farref

if __name__ == "__main__":
    with farref.System() as system:
        print([host.address for host in system.hosts()])
        system.worker("far", on={"farref node": 1})
        print(farref.rpc_sync("far", pow, args=(2, 10)))
"""


def test_torchrun_runs_a_program_on_two_nodes(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM, encoding="utf-8")
    where = f"127.0.0.1:{free_port('127.0.0.1')}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={where}", "--no-python"]
    running = []
    for address in ("127.0.0.2", "127.0.0.3"):
        program = [*FARREF, "run", "--host", address, "--", sys.executable, "prog.py"]
        words = [*command, f"--local-addr={address}", *program]
        running.append(Node(tmp_path, words, {"OMP_NUM_THREADS": "1"}))
    try:
        codes = [node.end() for node in running]
        assert codes == [0, 0], "\n".join(node.err for node in running)
        said = sorted(node.out for node in running)
        assert said[0] == ""
        hosts, result = said[1].splitlines()
        assert sorted(hosts.strip("[]").split(", ")) == ["'127.0.0.2'", "'127.0.0.3'"]
        assert result == "1024"
    finally:
        for node in running:
            reap(node.process)

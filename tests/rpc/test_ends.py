"""The end of `farref.rpc`: its timeout, its texts, Ctrl-C, and the next world."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..actors.scripts import all_gone, started

pytestmark = pytest.mark.processes

BEGIN = """
import os, signal, sys, time
import farref.rpc as rpc

def begin(rank):
    method = "file://" + os.path.dirname(sys.argv[0]) + "/meet"
    options = rpc.TensorPipeRpcBackendOptions(init_method=method, rpc_timeout=30)
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=2, rpc_backend_options=options)

rank = int(sys.argv[1])
begin(rank)
"""


@contextlib.contextmanager
def ranks(folder: Path, text: str) -> Iterator[list[subprocess.Popen[str]]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(started(folder, BEGIN + text, str(rank))) for rank in (0, 1)]


def test_rank_0_may_be_another_process_in_the_next_world(tmp_path: Path) -> None:
    program = """
for number in range(1, 4):
    rpc.shutdown()
    begin((rank + number) % 2)
rpc.shutdown()
print("done")
"""
    with ranks(tmp_path, program) as processes:
        assert [each.communicate(timeout=100)[0] for each in processes] == ["done\n"] * 2


def test_a_timeout_ends_it_with_a_short_text(tmp_path: Path) -> None:
    """Rank 1 does not end before rank 0 has."""
    program = """
if rank:
    signal.pause()  # rank 0 has its error before anybody kills this one
calls = [rpc.rpc_async(1, time.sleep, args=(100,)) for _ in range(300)]
try:
    rpc.shutdown(timeout=0.5)
except RuntimeError as error:
    print(len(str(error)) < 2000, "and 290 more" in str(error))
"""
    with ranks(tmp_path, program) as processes:
        assert processes[0].communicate(timeout=60)[0] == "True True\n"
        assert processes[1].poll() is None or "died" in processes[1].communicate()[1]


@pytest.mark.parametrize("rank", [0, 1])
def test_control_c_ends_it(tmp_path: Path, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left, though the other rank has not called it, and goes on."""
    monkeypatch.setenv("FAMILY", str(tmp_path))
    program = f"""
if rank != {rank}:
    signal.pause()
try:
    print("ready", flush=True)
    rpc.shutdown()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""
    with ranks(tmp_path, program) as processes:
        process = processes[rank]
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
        assert process.returncode == -signal.SIGINT
    assert all_gone(str(tmp_path))

"""No process and no thread more, by the limit of a control group: a named error, and no rest."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ...ports import free_port
from ...waiting import eventually
from ..scripts import started

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
REMEDY = "raise the limit of the user (`ulimit -u`) or of the container (`pids.max`)"
GROUPS = Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of its own."""
    for each in GROUPS:
        folder = each / f"farref-{free_port('127.0.0.1')}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / "pids.max").exists():
                break
            folder.rmdir()
    else:
        pytest.skip("no control group for processes can be made here")
    yield folder
    eventually(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


def entering(group: Path) -> list[str]:
    """The begin of a command that runs in *group*."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"']


SYSTEM = """
    import os, sys, time
    from pathlib import Path
    import farref

    group = Path(sys.argv[1])

    def limit(more):
        most = int((group / "pids.current").read_text()) + more
        (group / "pids.max").write_text(f"{most}" if more < 9 else "max")

    class Echo(farref.RefActor):
        def receiveMsg_str(self, message, sender):
            self.send(sender, message)

    def start():
        with farref.System():
            pass

    def told(ask):
        try:
            ask()
        except farref.FarrefError as error:
            print(type(error).__name__, str(error).split("; ")[-1])

    if __name__ == "__main__":
        for more in range(4):
            limit(more)
            told(start)
            end = time.monotonic() + 20
            while len((group / "cgroup.procs").read_text().split()) > 1:
                assert time.monotonic() < end, "a process is left"
                time.sleep(0.01)
        limit(9)
        with farref.System() as system:
            system.worker("B")
            mine, echo = farref.remote("B", list, ("abc",)), system.create(Echo)
            assert system.ask(echo, "echo") == "echo"  # it has its threads now
            for ask in (
                lambda: system.worker("C"),
                lambda: system.create(Echo),
                start,
                lambda: farref.System.attach(system.name).shutdown(),
            ):
                limit(0)  # each time, as the end of an idle thread makes room for another one
                told(ask)
            assert farref.rpc_sync("B", abs, (-1,)) == 1
            assert system.ask(echo, "echo") == "echo"
            limit(9)
            assert mine.to_here() == ["a", "b", "c"]
            system.worker("C"), start()
"""


def test_a_system(group: Path, tmp_path: Path) -> None:
    with started(tmp_path, SYSTEM, str(group), on=entering(group)) as program:
        out, said = program.communicate(timeout=100)
    assert (program.returncode, said) == (0, "")
    kinds = [*["SystemDownError"] * 4, *["CreationError"] * 2, *["SystemDownError"] * 2]
    assert out == "".join(f"{each} {REMEDY}\n" for each in kinds)


@pytest.mark.parametrize("most", [2, 3])
def test_a_launch(group: Path, most: int) -> None:
    """The first agent cannot start the program; or, with Python 3.11, it cannot watch it."""
    (group / "pids.max").write_text(f"{most}")
    first = f"127.0.0.1:{free_port('127.0.0.1')}"
    command = [*entering(group), sys.executable, "-m", "farref", "run", "--nnodes", "2"]
    command += ["--first", first, "--timeout", "30"]
    with contextlib.ExitStack() as stack:
        agents = []
        for rank in range(2):
            agent = subprocess.Popen(
                [*command, "--node-rank", f"{rank}", "--", "sleep", "0.1"],
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(agent.kill)
            agents.append(agent)
        ends = [(agent.communicate(timeout=60)[1], agent.returncode) for agent in agents]
    if most == 3 and sys.version_info >= (3, 12):
        assert ends == [("", 0)] * 2
        return
    for said, code in ends:
        assert said.startswith("farref run: cannot start sleep: ")
        assert said.endswith(f"; {REMEDY}\n")
        assert code

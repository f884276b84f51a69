"""Agents of torchrun on two machines: docs/torchrun.md's very lines, and faults there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref import System

from ..keys import key_file
from ..marks import TORCH
from ..waiting import eventually
from .homes import two_homes
from .network import Network, Pair, address, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Agent = subprocess.Popen[bytes]

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
DOCS = Path(__file__).parents[2] / "docs" / "torchrun.md"
TRAINER = Path(__file__).parents[1] / "rendezvous" / "trainer.py"
ALONE = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "net0"}
"""A namespace does not know this machine's name, and gloo would use it."""


def lines() -> tuple[list[str], str, str]:
    """The lines to type on the first machine, those to type on both, and the program."""
    section = DOCS.read_text(encoding="utf-8").partition("## Two machines\n")[2]
    blocks = re.findall(r"```(\w+)\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    assert [kind for kind, _ in blocks] == ["console", "console", "python"]
    (_, first), (_, both), (_, program) = blocks
    assert both.startswith("both$ ")
    found = re.findall(r"^first\$ (.*)$", first, re.MULTILINE)
    assert len(found) == len(first.splitlines())
    return found, both.removeprefix("both$ "), program


@TORCH
def test_the_lines_of_the_docs_work_as_they_stand(pair: Pair, tmp_path: Path) -> None:
    homes, env = two_homes(tmp_path)
    prepared, command, program = lines()
    for home in homes.values():  # 1,000 steps would only be more of the same
        (home / "train.py").write_text(program.replace("1000", "20"), encoding="utf-8")
    env |= ALONE
    for line in prepared:
        subprocess.run(
            [*pair.command("first"), "bash", "-c", line], cwd=homes["first"], env=env, check=True
        )
    agents = []
    for name, home in homes.items():
        with (home / "log").open("wb") as said:
            typed = [*pair.command(name), "bash", "-c", command]
            agents.append(subprocess.Popen(typed, cwd=home, env=env, stdout=said, stderr=said))
    try:
        for agent, home in zip(agents, homes.values(), strict=True):
            assert agent.wait(120) == 0, (home / "log").read_text()
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()


@TORCH
@pytest.mark.slow  # tests/rendezvous has the same on one machine
def test_the_agent_on_the_endpoints_machine_dies(
    network: Network, key: Path, tmp_path: Path
) -> None:
    """It has started the service, and was rank 0: the agent on the other machine goes on."""
    with agents(network, key, tmp_path) as start:
        first = start("A")
        wait_for(tmp_path, "A", ["A"])
        start("B")
        wait_for(tmp_path, "B", ["A", "B"])
        first.kill()
        os.kill(notes(tmp_path, "A")[-1]["pid"], signal.SIGKILL)
        first.wait()
        wait_for(tmp_path, "B", ["B"])


@contextlib.contextmanager
def agents(network: Network, key: Path, folder: Path) -> Iterator[Callable[[str], Agent]]:
    """Starts an agent on a host. In the end all are told to stop, and end well if not killed."""
    running: list[Agent] = []

    def start(host: str) -> Agent:
        conf = f"key={key},last_call_timeout=1,keep_alive_interval=0.5,keep_alive_max_attempt=8"
        command = [*network.command(host), sys.executable, "-m", "torch.distributed.run"]
        command += ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=5", "--rdzv-id=job"]
        command += ["--rdzv-backend=farref", f"--rdzv-endpoint={address('A')}:29400"]
        command += [f"--rdzv-conf={conf}", str(TRAINER), str(folder), host, "idle"]
        with (folder / f"{host}.log").open("wb") as said:
            running.append(
                subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **ALONE})
            )
        return running[-1]

    try:
        yield start
        (folder / "stop").touch()
        assert [agent.wait(60) for agent in running if agent.returncode is None] == [0]
    finally:
        for agent in running:
            agent.kill()
            agent.wait()


def notes(folder: Path, name: str) -> list[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return []


def wait_for(folder: Path, name: str, group: list[str]) -> None:
    eventually(
        lambda: any(note["group"] == group for note in notes(folder, name)),
        lambda: "\n".join(path.read_text()[-3000:] for path in folder.glob("*.log")),
        120,
    )


DIAL = """
import sys
from farref import RendezvousError, RendezvousParameters, RendezvousTimeouts
from farref.elastic.endpoints import RendezvousEndpoint
config = dict(each.split("=") for each in sys.argv[2:])
params = RendezvousParameters("farref", sys.argv[1], "run", 1, 1, **config)
try:
    print(RendezvousEndpoint(sys.argv[1]).backend(params, RendezvousTimeouts()).get_state())
except (RendezvousError, ValueError) as error:
    print(type(error).__name__, error)
"""


def test_who_has_another_key_is_told_so(network: Network, key: Path, tmp_path: Path) -> None:
    other = key_file(tmp_path / "other.key")

    def dial(port: int, *config: str) -> str:
        command = [sys.executable, "-c", DIAL, f"{address('A')}:{port}", *config]
        return run(*network.command("B"), *command)

    with network.on("A"), System(host=address("A"), port=29400, key=key):
        assert dial(29400, f"key={key}") == "None\n"
        said = dial(29400, f"key={other}")
        assert said.startswith("RendezvousConnectionError")
        assert "another key" in said
        assert "--rdzv-conf=key=FILE" in dial(29400)
        said = dial(29401, f"key={key}", "connect_timeout=0.3")
        assert said.startswith("RendezvousConnectionError nobody answers")

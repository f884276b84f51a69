"""Agents of torchrun on two machines: docs/torchrun.md's very lines, and faults there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from farref import System

from ..keys import key_file
from ..marks import TORCH
from .homes import two_homes
from .network import Network, Pair, address, run

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
DOCS = Path(__file__).parents[2] / "docs" / "torchrun.md"
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

"""Agents of torchrun on two machines: docs/torchrun.md's very lines, and faults there."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from farref import (
    RendezvousConnectionError,
    RendezvousParameters,
    RendezvousTimeouts,
    System,
)
from farref.elastic.endpoints import RendezvousEndpoint

from ..keys import key_file
from ..marks import TORCH
from .homes import lines_of, two_homes
from .network import Network, Pair, address

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
ALONE = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "net0"}
"""A namespace does not know this machine's name, and gloo would use it."""


@TORCH
def test_the_lines_of_the_docs_work_as_they_stand(pair: Pair, tmp_path: Path) -> None:
    homes, env = two_homes(tmp_path)
    (*prepared, (both, command)), program = lines_of("docs/torchrun.md", "Two machines")
    assert [*{machine for machine, _ in prepared}, both] == ["first", "both"]
    for home in homes.values():  # 1,000 steps would only be more of the same
        (home / "train.py").write_text(program.replace("1000", "20"), encoding="utf-8")
    env |= ALONE
    for _, line in prepared:
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


def test_who_has_another_key_is_told_so(network: Network, key: Path, tmp_path: Path) -> None:
    right, wrong = str(key), str(key_file(tmp_path / "other.key"))

    def dial(port: int, **config: str) -> Any:
        params = RendezvousParameters("farref", f"{address('A')}:{port}", "run", 1, 1, **config)
        with network.on("B"):
            return RendezvousEndpoint(params.endpoint).backend(params, RendezvousTimeouts())

    with network.on("A"), System(host=address("A"), port=29400, key=key):
        found = dial(29400, key=right)
        assert found.get_state() is None
        found._system.shutdown()  # otherwise it ends with this program
        with pytest.raises(RendezvousConnectionError, match="another key"):
            dial(29400, key=wrong)
        with pytest.raises(ValueError, match="--rdzv-conf=key=FILE"):
            dial(29400)
        with pytest.raises(RendezvousConnectionError, match="nobody answers"):
            dial(29401, key=right, connect_timeout="0.3")

"""The first agent takes the nodes of its run, and tells all others why not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from farref.actors.hosting import versions
from farref.launch.connections import Line, dial

from ..commands.kit import FARREF
from ..keys import key_file
from ..ports import free_port
from ..waiting import eventually
from .kit import FIRST, PATIENCE, Node, reap

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

HELLO: dict[str, Any] = {"rank": 1, "nnodes": 3, "run": "", "versions": versions.mine()}
"""The first frame of the agent of node 1."""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_file(tmp_path_factory.mktemp("key") / "farref.key")


def test_a_node_of_another_run_may_come_again_and_does_not_harm(key: Path) -> None:
    """After a restart: the nodes of the new run may be faster than the end of the old one."""
    hellos = [HELLO | {"run": "another"}, HELLO, HELLO | {"rank": 2}]
    assert answers(key, hellos, code=4) == [
        *({"refused": "this is another run", "again": True}, {"welcome": 1}, {"welcome": 2}),
        {"exit": 4, "why": ""},
    ]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([{}, {}], "two nodes have the number 1, at 127.0.0.1 and 127.0.0.1"),
        ([{"versions": {"Python": "2.7"}}], "node 1 at 127.0.0.1 runs on Python 2.7"),
        ([{"nnodes": 2}], "node 1 at 127.0.0.1 was started for 2 nodes, and the first one for 3"),
    ],
)
def test_nodes_that_do_not_fit_end_the_run(
    key: Path, wrong: list[dict[str, Any]], why: str
) -> None:
    *_, refused = answers(key, [HELLO | each for each in wrong], code=1)
    assert refused["refused"].startswith(why)
    assert refused["again"] is False


def answers(key: Path, hellos: list[dict[str, Any]], code: int) -> list[dict[str, Any]]:
    """The first agent's answers to *hellos*; and if three nodes are there, the news of the end.

    The program exits with 4, and the agent with *code*.
    """
    port, secret = free_port(FIRST), bytes.fromhex(key.read_text())
    where = ["--node-rank", "0", "--first", f"{FIRST}:{port}", "--key", str(key)]
    words = ["--nnodes", "3", *where, "--", "bash", "-c", "exit 4"]
    first = Node(key.parent, [*FARREF, "run", *words], {})

    def listens() -> bool:
        ports = psutil.Process(first.process.pid).net_connections(kind="tcp")
        return any(each.laddr.port == port for each in ports)

    async def greet() -> list[dict[str, Any]]:
        lines: list[Line] = []
        seen = []
        for hello in hellos:
            lines.append(await dial(FIRST, port, secret))
            await lines[-1].send(**hello)
            seen.append(await lines[-1].receive())
        if seen[-1].get("welcome") == 2:
            seen.append(await lines[-1].receive())
        for line in lines:
            await line.close()
        return seen

    try:
        eventually(listens, patience=PATIENCE)
        seen = asyncio.run(greet())
        assert first.end() == code, first.err
        return seen
    finally:
        reap(first.process)

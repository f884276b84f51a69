"""The first agent takes the nodes of its run, and tells all others why not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from farref.actors.base.system import shared_key
from farref.actors.hosting import versions
from farref.launch.connections import Line, dial

from ..ports import free_port
from .kit import FARREF, FIRST, Node, reap

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

HELLO = {"rank": 1, "nnodes": 3, "run": "", "versions": versions.mine()}


async def greet(port: int, **hello: Any) -> tuple[Line, dict[str, Any]]:
    """The answer to a node that says *hello*. It comes until the agent is there."""
    key = shared_key(None, FIRST)
    for _ in range(1000):
        try:
            line = await dial(FIRST, port, key)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)
        else:
            await line.send(**{**HELLO, **hello})
            return line, await line.receive()
    raise AssertionError("the agent did not begin")


def test_a_node_of_another_run_may_come_again_and_does_not_harm(tmp_path: Path) -> None:
    """After a restart: the nodes of the new run may be faster than the end of the old one."""
    seen = asyncio.run(scene(tmp_path, [{"run": "another"}, {"rank": 1}, {"rank": 2}]))
    assert seen[0] == {"refused": "this is another run", "again": True}
    assert seen[1:] == [{"welcome": 1}, {"welcome": 2}, {"exit": 4, "why": ""}]


@pytest.mark.parametrize(
    ("hellos", "why"),
    [
        ([{}, {}], "two nodes have the number 1, at 127.0.0.1 and 127.0.0.1"),
        ([{"versions": {"Python": "2.7"}}], "node 1 at 127.0.0.1 runs on Python 2.7"),
        ([{"nnodes": 2}], "node 1 at 127.0.0.1 was started for 2 nodes, and the first one for 3"),
    ],
)
def test_nodes_that_do_not_fit_end_the_run(
    tmp_path: Path, hellos: list[dict[str, Any]], why: str
) -> None:
    *_, refused = asyncio.run(scene(tmp_path, hellos, code=1))
    assert refused["refused"].startswith(why)
    assert refused["again"] is False


async def scene(folder: Path, hellos: list[dict[str, Any]], code: int = 4) -> list[dict[str, Any]]:
    """The answers to *hellos*; and after three nodes are there, the news of the end."""
    port = free_port(FIRST)
    options = ["--nnodes", "3", "--node-rank", "0", "--first", f"{FIRST}:{port}"]
    agent = Node(folder, [*FARREF, "run", *options, "--", "bash", "-c", "exit 4"], {})
    try:
        lines, seen = [], []
        for hello in hellos:
            line, answer = await greet(port, **hello)
            lines.append(line)
            seen.append(answer)
        if seen[-1].get("welcome") == 2:
            seen.append(await lines[-1].receive())
        for line in lines:
            await line.close()
        assert await asyncio.to_thread(agent.end) == code, agent.err
        return seen
    finally:
        reap(agent.process)

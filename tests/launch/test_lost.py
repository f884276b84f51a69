"""The link between two nodes fails: both end. The nodes are network namespaces with a cable."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from farref.actors.base import keys

from ..hosts.network import Pair, why_not
from . import recipes
from .kit import FARREF, Node, reap

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there are namespaces"),
]
SLEEPER = """
import time
import farref

if __name__ == "__main__":
    with farref.System() as system:
        system.worker("far", on={"farref node": 1})
        print("ready", flush=True)
        time.sleep(100)
"""


def test_both_nodes_notice_that_their_link_is_cut(tmp_path: Path) -> None:
    key = tmp_path / "farref.key"
    keys.make(key)
    (tmp_path / "prog.py").write_text(SLEEPER, encoding="utf-8")
    pair = Pair({"first": "10.0.0.1", "second": "10.0.0.2"})
    running: list[Node] = []
    try:
        pair.make()
        for rank, name in enumerate(("first", "second")):
            options = ["--nnodes", "2", "--node-rank", str(rank), "--first", "10.0.0.1"]
            command = [*FARREF, "run", *options, "--key", str(key), "--", sys.executable, "prog.py"]
            running.append(Node(tmp_path, [*pair.command(name), *command], recipes.path()))
        first, other = running
        first.until("ready")
        cut = ["ip", "link", "set", "net0", "down"]
        subprocess.run([*pair.command("second"), *cut], check=True)
        assert (first.end(), other.end()) == (1, 1)
        assert "farref run: node 1 (10.0.0.2) is lost" in first.err
        assert "farref run: the first node (10.0.0.1) is lost" in other.err
    finally:
        for node in running:
            reap(node.process)
        pair.remove()

"""The link between two nodes fails: both end. The nodes are network namespaces with a cable."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..commands.kit import FARREF
from ..hosts.network import Pair, why_not
from ..keys import key_file
from . import recipes
from .kit import SLEEPER, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there are namespaces"),
]


def test_both_nodes_notice_that_their_link_is_cut(tmp_path: Path) -> None:
    key = key_file(tmp_path / "farref.key")
    (tmp_path / "prog.py").write_text(SLEEPER, encoding="utf-8")
    names = ("first", "second")
    pair = Pair(dict(zip(names, ("10.0.0.1", "10.0.0.2"), strict=True)))
    run = ["run", "--nnodes", "2", "--first", "10.0.0.1", "--key", str(key)]
    words = ["--", sys.executable, "prog.py"]
    commands = (
        [*pair.command(name), *FARREF, *run, "--node-rank", str(rank), *words]
        for rank, name in enumerate(names)
    )
    try:
        pair.make()
        with running(tmp_path, commands, recipes.path()) as (first, other):
            first.until("ready")
            cut = ["ip", "link", "set", "net0", "down"]
            subprocess.run([*pair.command("second"), *cut], check=True)
            assert (first.end(), other.end()) == (1, 1)
            assert "farref run: node 1 (10.0.0.2) is lost" in first.err
            assert "farref run: the first node (10.0.0.1) is lost" in other.err
    finally:
        pair.remove()

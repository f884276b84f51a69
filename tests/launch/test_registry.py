"""`farref run --registry`: the program's system has its facts in a real etcd."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from ..commands.kit import farref
from ..etcd import Etcd
from .kit import nodes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

PROGRAM = """
import sys
import farref

if __name__ == "__main__":
    with farref.System(silence=2.0) as system:
        print(len(system.hosts()), flush=True)
        system.worker("far", on={"farref node": 1})
        print(farref.rpc_sync("far", pow, args=(2, 10)))
    sys.exit(7)
"""


def test_the_nodes_join_by_the_etcd_and_all_end_with_the_program(tmp_path: Path) -> None:
    with Etcd(tmp_path) as etcd:
        with nodes(tmp_path, PROGRAM, options=("--registry", etcd.spec)) as (first, other):
            assert first.end() == 7, first.err
            assert first.out.splitlines() == ["2", "1024"]
            assert (other.end(), other.out) == (7, ""), other.err
        assert etcd.keys("") == []  # the system ended everywhere, with its facts


@pytest.mark.parametrize(
    ("nnodes", "registry", "said"),
    [("2", "a:2379", "registry must be 'etcd://"), ("1", "etcd://a:2379", "for several nodes")],
)
def test_a_registry_that_does_not_fit(nnodes: str, registry: str, said: str) -> None:
    words = ["run", "--nnodes", nnodes, "--node-rank", "0", "--first", "127.0.0.2"]
    ended = farref(*words, "--registry", registry, "--", sys.executable, "-c", "")
    assert ended.returncode == 1
    assert said in ended.stderr

"""`farref run --registry`: the program's system has its facts in a real etcd."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from farref.actors.cluster.gateway import Gateway

from ..rendezvous.kit import etcd_server
from .kit import FARREF, nodes

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
    with etcd_server(tmp_path) as port:
        registry = f"etcd://127.0.0.1:{port}"
        with nodes(tmp_path, PROGRAM, options=("--registry", registry)) as (first, other):
            assert first.end() == 7, first.err
            assert first.out.splitlines() == ["2", "1024"]
            assert (other.end(), other.out) == (7, ""), other.err
        everything = {"key": "AA==", "range_end": "AA==", "count_only": True}
        said = Gateway(registry, 5.0).post("/kv/range", everything)
        assert int(said.get("count", 0)) == 0  # the system ended on all hosts, and with its facts


@pytest.mark.parametrize(
    ("nnodes", "registry", "said"),
    [("2", "a:2379", "registry must be 'etcd://"), ("1", "etcd://a:2379", "for several nodes")],
)
def test_a_registry_that_does_not_fit(nnodes: str, registry: str, said: str) -> None:
    command = [*FARREF, "run", "--nnodes", nnodes, "--node-rank", "0", "--first", "127.0.0.2"]
    command += ["--registry", registry, "--", sys.executable, "-c", ""]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert ended.returncode == 1
    assert said in ended.stderr

"""Ray as engine: a real Ray, whose nodes are loopback addresses of this machine."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ..actors.scripts import write
from .kit import PATIENCE

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.timeout(360),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed here"),
]
CLUSTER = """
    import os, signal, time
    import ray
    from ray.cluster_utils import Cluster
    import farref, farref.ray
    from farref import OwnerDiedError, SystemDownError, WorkerDiedError

    PATIENCE = 150  # of the tests; on a busy machine Ray has needed more than a minute for a host
    SMALL = {"object_store_memory": 80_000_000, "num_cpus": 1}
    head = {**SMALL, "node_ip_address": "127.0.0.2", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    others = [cluster.add_node(node_ip_address=f"127.0.0.{n}", **SMALL) for n in (3, 4)]
    ray.init(address=cluster.address, _node_ip_address="127.0.0.2", log_to_driver=False)

    def until(true):
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end
            time.sleep(0.05)

    def address(host):
        return host.address.partition(":")[0]

    def numbers(system):
        return sorted(host.capabilities.get("farref node", -1) for host in system.hosts())
"""
PLACES = (
    CLUSTER
    + """
    with farref.ray.start(3, capabilities={"zone": "east"}, patience=PATIENCE) as system:
        assert sorted(map(address, system.hosts())) == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        assert numbers(system) == [0, 1, 2]
        assert ray.available_resources().get("CPU", 0) == 0
        for n in range(3):
            system.worker(f"w{n}", on={"farref node": n, "zone": "east"})
            assert farref.rpc_sync(f"w{n}", pow, args=(2, 10)) == 1024
    until(lambda: ray.available_resources().get("CPU") == 3)  # all is given back
    try:
        farref.ray.start(4, patience=1)
    except SystemDownError as error:
        print(error)
    assert farref.System.running() == []
    ray.shutdown()
    cluster.shutdown()
"""
)
LOSSES = (
    CLUSTER
    + """
    # The first host is on the head, and takes no place there.
    small = {"CPU": 1, "node:127.0.0.3": 0.01}
    with farref.ray.start(1, resources=small, patience=PATIENCE) as other:
        assert numbers(other) == [-1, 0]
    options = {"silence": 2, "orphan_grace": 0.2}
    with farref.ray.start(2, resources={"CPU": 1}, patience=PATIENCE, **options) as system:
        host = system.hosts()[-1]
        far = host.capabilities["farref node"]
        system.worker("far", on={"farref node": far})
        ref = farref.remote("far", list, args=("abc",))
        assert ref.to_here() == ["a", "b", "c"]

        # Its process dies: Ray starts it again.
        os.kill(member(host), signal.SIGKILL)
        until(lambda: host.address not in [each.address for each in system.hosts()])
        try:
            ref.to_here()
        except (OwnerDiedError, WorkerDiedError):
            print("test: lost")
        system.worker("again", on={"farref node": far})
        print("test:", farref.rpc_sync("again", pow, args=(2, 10)))

        # The Ray node is lost: a lost host, and Ray starts it on the spare one.
        (node,) = [n for n in others if n.node_ip_address == address(host)]
        cluster.remove_node(node, allow_graceful=False)
        until(lambda: address(host) not in map(address, system.hosts()))
        system.worker("elsewhere", on={"farref node": far})
        print("test:", farref.rpc_sync("elsewhere", pow, args=(2, 11)))
    ray.shutdown()
    cluster.shutdown()
"""
)
MEMBER = """
    import psutil

    def member(host):
        place, _, port = host.address.partition(":")
        for process in psutil.process_iter(["cmdline", "name"]):
            line = " ".join(process.info["cmdline"] or ())
            # The host's other processes are forks of it, with names of their own.
            if (
                f'"host": "{place}"' in line
                and f'"port": {port}' in line
                and "farref:" not in process.info["name"]
            ):
                return process.pid
"""


REFUSALS = """
    import farref.ray

    for hosts, options in ((0, {}), (2, {"registry": "etcd://127.0.0.1:1"}), (2, {})):
        try:
            farref.ray.start(hosts, **options)
        except (ValueError, RuntimeError) as error:
            print(type(error).__name__, error)
"""


def run(folder: Path, text: str) -> str:
    done = subprocess.run(
        [sys.executable, str(write(folder, text))],
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_refusals(tmp_path: Path) -> None:
    hosts, registry, ray = run(tmp_path, REFUSALS).splitlines()
    assert hosts == "ValueError num_hosts must be 1 or more, not 0"
    assert registry.startswith("ValueError farref.ray.start takes no registry=: Ray ends the hosts")
    assert ray.startswith("RuntimeError call ray.init() first")


def test_ray_places_the_hosts_and_gets_its_resources_back(tmp_path: Path) -> None:
    out = run(tmp_path, PLACES)
    assert "Ray has no place for 4 hosts with {'CPU': 1}, each on a node of its own" in out
    assert "its 3 nodes have, used or not: 1 CPU; 1 CPU; 1 CPU" in out


def test_a_host_that_dies_and_a_node_that_is_lost_come_again(tmp_path: Path) -> None:
    lines = run(tmp_path, MEMBER + LOSSES).splitlines()
    said = [line for line in lines if line.startswith("test:")]  # Ray tells of the losses, too
    assert said == ["test: lost", "test: 1024", "test: 2048"]

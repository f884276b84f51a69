"""A system whose hosts Ray places, starts and restarts: ``farref[ray]``.

    import farref, farref.ray, ray

    ray.init()
    with farref.ray.start(4, resources={"CPU": 2}) as system:
        system.worker("B", on={"farref node": 3})

Ray gives each host a *bundle* of a placement group, on a Ray node of its own. In the bundle runs a
Ray actor, which does nothing but start the process that joins the system, and end with it. All
calls, references and values go over farref's own connections; Ray carries none of them.

The system's first host is the program that calls `start`, a driver of Ray. If one of the bundles is
on the driver's own Ray node, the first host takes this place, as a machine is one host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

try:
    import ray
except ImportError as error:
    raise ImportError("farref.ray needs Ray: pip install 'farref[ray]'") from error
from collections.abc import Iterator

from ray.util import get_node_ip_address, placement_group, remove_placement_group
from ray.util.placement_group import placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .actors.api.system import System
from .actors.base import addresses, keys
from .actors.base.lacks import hint
from .actors.hosting import launched
from .launch.children import dying_with
from .launch.joining import ErrorPipe, command, free_port
from .protocol.errors import SystemDownError

PATIENCE = 60.0
"""Seconds in which Ray places the hosts, and they join, by default."""
LOOK = 0.1
AGAIN = 1.0
"""Seconds from the failure of a host's process to the end of its Ray actor, which Ray restarts."""
UNTIL_KILLED = -1
"""Restarts of an actor: as many as it takes."""


class RaySystem(System):
    """A `System` on Ray's nodes, made by `start`. Its end gives Ray's resources back."""

    _placed: contextlib.ExitStack | None = None

    def _stop(self, *, graceful: bool) -> list[str]:
        try:
            return super()._stop(graceful=graceful)
        finally:
            placed, self._placed = self._placed, None
            if placed is not None:
                placed.close()


def start(
    num_hosts: int,
    resources: dict[str, float] | None = None,
    *,
    capabilities: dict[str, Any] | None = None,
    runtime_env: dict[str, Any] | None = None,
    patience: float = PATIENCE,
    **options: Any,
) -> RaySystem:
    """Start a system on *num_hosts* nodes of Ray, and wait until all have joined. Blocks.

    Each host has the capability ``"farref node"``, from 0 to *num_hosts* less 1. If a host's
    process dies, Ray starts it again, on another node if its own is lost; to the system it is a new
    host with the old number. References to objects of the lost one fail with `OwnerDiedError`.

    Args:
        num_hosts: each is on a node of its own.
        resources: of each host, in Ray's words: ``{"CPU": 1}`` by default, ``"GPU"``, custom ones.
        capabilities: of each host, for ``system.worker(on=...)``.
        runtime_env: Ray's, of the hosts' processes.
        patience: seconds until all hosts are there.
        options: of `System`; but not *host*, *port*, *key* and *registry*.

    Raises:
        ValueError: *num_hosts* is less than 1, or *registry* is given.
        RuntimeError: ``ray.init`` was not called, or this program is a client of Ray's
            (``ray://``), and so on none of its nodes.
        SystemDownError: Ray has no place for the hosts, or one could not join; it says the cause.
    """
    if num_hosts < 1:
        raise ValueError(f"num_hosts must be 1 or more, not {num_hosts}")
    if options.get("registry") is not None:
        raise ValueError(
            "farref.ray.start takes no registry=: Ray ends the hosts with the program that called "
            "it, so no system could go on without the first host"
        )
    if not ray.is_initialized() or ray.util.client.ray.is_connected():
        raise RuntimeError("call ray.init() first, on a node of the cluster and not by ray://")
    wanted = dict(resources or {"CPU": 1})
    until = time.monotonic() + patience
    with contextlib.ExitStack() as placed:
        group, nodes = _place(num_hosts, wanted, patience, placed)
        here = ray.get_runtime_context().get_node_id()
        mine = {launched.NODE: nodes.index(here)} if here in nodes else {}
        host, key = get_node_ip_address(), keys.new()
        port = free_port(host)
        system = RaySystem(
            host=host, port=port, key=key, capabilities={**(capabilities or {}), **mine}, **options
        )
        system._placed = contextlib.ExitStack()
        try:
            how = {
                "first": addresses.at(host, port),
                "path": [os.path.abspath(each) for each in sys.path],
            }
            made = _hosts(group, nodes, here, wanted, runtime_env)
            hosts = []
            for number, maker in made:
                own = {**(capabilities or {}), launched.NODE: number}
                hosts.append(maker.remote({**how, "capabilities": own}, key.hex()))
                placed.callback(ray.kill, hosts[-1])
            _await(system, len(hosts) + 1, [each.report.remote() for each in hosts], until)
        except BaseException:
            system.shutdown(graceful=False, timeout=0)
            raise
        system._placed = placed.pop_all()
        return system


def _place(
    num_hosts: int, wanted: dict[str, float], patience: float, placed: contextlib.ExitStack
) -> tuple[Any, list[str]]:
    """A placement group, and the Ray node of each of its bundles. Raises `SystemDownError`."""
    group = placement_group([wanted] * num_hosts, strategy="STRICT_SPREAD")
    placed.callback(remove_placement_group, group)
    if not group.wait(patience):
        there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        each = "; ".join(
            ", ".join(
                f"{amount:g} {kind}" for kind, amount in sorted(node.items()) if kind in wanted
            )
            or "none of it"
            for node in there
        )
        raise SystemDownError(
            f"Ray has no place for {num_hosts} hosts with {wanted}, each on a node of its own, "
            f"within {patience:g} s; its {len(there)} nodes have, used or not: {each}"
        )
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return group, [nodes[number] for number in range(num_hosts)]


def _hosts(
    group: Any,
    nodes: list[str],
    here: str,
    wanted: dict[str, float],
    runtime_env: dict[str, Any] | None,
) -> Iterator[tuple[int, Any]]:
    """The number of each host but the driver's own, and Ray's maker of its actor."""
    more = {kind: amount for kind, amount in wanted.items() if kind not in {"CPU", "GPU", "memory"}}
    for number, node in enumerate(nodes):
        if node != here:
            yield (
                number,
                ray.remote(RayHost).options(
                    num_cpus=wanted.get("CPU", 0),
                    num_gpus=wanted.get("GPU", 0),
                    memory=wanted.get("memory"),
                    resources=more,
                    max_restarts=UNTIL_KILLED,
                    max_concurrency=2,
                    runtime_env=runtime_env,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
                ),
            )


def _await(system: System, size: int, reports: list[Any], until: float) -> None:
    """Wait until *size* hosts are in *system*. Raises `SystemDownError`."""
    while len(there := system.hosts()) < size:
        failed = ray.wait(reports, timeout=LOOK)[0] if reports else []
        if failed:
            try:
                why = ray.get(failed[0])
            except ray.exceptions.RayError as error:
                why = str(error)
            raise SystemDownError(f"a host that Ray started did not join: {why}")
        if time.monotonic() > until:
            raise SystemDownError(
                f"of {size} hosts {len(there)} are there in time: {', '.join(map(str, there))}"
            )


class RayHost:
    """The Ray actor of one host: its process joins the system, and they end together."""

    def __init__(self, how: dict[str, Any], key: str) -> None:
        host = get_node_ip_address()
        self._why = ""
        self._ended = threading.Event()
        how, self._report = {**how, "host": host, "port": free_port(host)}, ErrorPipe()
        try:
            with self._report.given() as theirs:
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    command(how, theirs),
                    env={**os.environ, launched.KEY: key},
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs,),
                    preexec_fn=dying_with(os.getpid()),  # noqa: PLW1509 - it calls into libc alone
                )
            threading.Thread(target=self._watch, daemon=True).start()
        except (OSError, RuntimeError) as error:  # maybe there is room the next time
            self._why = f"{error}{hint(error)}"
            self._ended.set()
            signal.setitimer(signal.ITIMER_REAL, AGAIN)  # it kills us, as `_watch` does

    def report(self) -> str:
        """The reason of the end of the host's process; empty if the system has ended. Blocks."""
        self._ended.wait()
        return self._why

    def _watch(self) -> None:
        code = self._process.wait()
        with contextlib.closing(self._report):
            text = self._report.taken()
        self._why = text or (f"its process ended with {code}" if code else "")
        self._ended.set()
        if code:
            time.sleep(AGAIN)  # whoever asked for the report has it then
            os._exit(1)  # Ray sees a crash, and starts this actor again


__all__ = ["RaySystem", "start"]

"""The rendezvous of a system that spans hosts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import farref
from farref import Group, RendezvousTimeouts

from .network import address

if TYPE_CHECKING:
    from .conftest import Joining, Starting

pytestmark = pytest.mark.processes
SOON = RendezvousTimeouts(join=20, last_call=2)
SERVICE = "farref rendezvous"
met: list[Group] = []
"""The groups of this process: a node without references leaves."""


def meet_here() -> int:
    met.append(farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=SOON).next_rendezvous())
    return met[-1].world_size


def network_space() -> str:
    return os.readlink("/proc/self/ns/net")


def test_the_service_is_with_the_registrar_whoever_starts_it(
    first: Starting, joined: Joining
) -> None:
    """If only the first host is left, the loss of another host costs the service nothing."""
    with first(silence=1) as system, joined("B") as host:
        system.worker("B", on=address("B"))
        group = farref.rpc_async("B", meet_here)
        with farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=SOON) as meeting:
            here = meeting.next_rendezvous()
            assert group.result(30) == here.world_size == 2
            services = [info.name for info in system.workers() if info.name.startswith(SERVICE)]
            assert len(services) == 2
            places = [farref.rpc_sync(name, network_space) for name in services]
            assert places == [network_space()] * 2
            host.kill()
            assert here.wait_for_news(20) == "lost: B"
            assert meeting.next_rendezvous().world_size == 1

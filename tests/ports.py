"""Ports for the servers that tests start."""

from __future__ import annotations

import contextlib
import socket
from random import SystemRandom

LISTENERS = range(10_000, 32_768)
"""Linux gives none of these to connections: none is taken between the choice and the start."""
TRIES = 100


def free_port(host: str = "127.0.0.1") -> int:
    """A port of *host* without a listener at this moment."""
    for port in SystemRandom().sample(LISTENERS, TRIES):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((host, port))
            return port
    raise AssertionError(f"all of {TRIES} ports are taken")


def free_ports(number: int) -> list[int]:
    """So many ports of loopback, all different."""
    found: set[int] = set()
    while len(found) < number:
        found.add(free_port())
    return list(found)

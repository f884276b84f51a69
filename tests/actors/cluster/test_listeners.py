"""The listening port of a host is served: a connection gets an answer, or is closed."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from farref import System

from ...base.kit import PATIENCE, connections
from ...ports import free_port
from .ancestry import processes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def earlier() -> set[tuple[Any, Any]]:
    """This process's connections before the system starts: an earlier test may leave some."""
    return connections(psutil.Process())


@pytest.fixture(scope="module")
def system(earlier: set[tuple[Any, Any]]) -> Iterator[System]:
    with System(host="127.0.0.1", port=free_port("127.0.0.1")) as system:
        system.worker("A")
        yield system


def ports(process: psutil.Process, earlier: set[tuple[Any, Any]]) -> list[tuple[str, int]]:
    """The TCP addresses at which *process* listens, without *earlier*."""
    return [
        (here.ip, here.port) for here, there in connections(process, "tcp") - earlier if not there
    ]


def is_listening(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def test_the_port_is_served(system: System, earlier: set[tuple[Any, Any]]) -> None:
    """One process of the host listens, at one port, and it serves it."""
    here = psutil.Process()
    found = {p.pid: ports(p, earlier) for p in (here, *processes_of("A"))}
    assert len(found) >= 4  # the program, admin, registrar and worker
    listening = {pid: places for pid, places in found.items() if places}
    assert here.pid not in listening
    ((place,),) = listening.values()
    for _ in range(3):
        with socket.create_connection(place, PATIENCE) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""  # closed, at once


def test_the_program_has_one_socket_for_its_host(system: System) -> None:
    found = psutil.Process().net_connections("unix")
    assert len([each for each in found if is_listening(each.fd)]) == 1

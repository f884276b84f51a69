"""Passing connections on, when strangers have used up what it takes."""

from __future__ import annotations

import contextlib
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from farref.actors.base import rundir
from farref.actors.base.addresses import new_address
from farref.actors.base.gate import Dispatcher, receive
from farref.actors.base.handshake import CROWDED, GONE, preamble
from farref.actors.base.poller import Poller
from farref.actors.base.settings import SystemSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def settings(tmp_path: Path) -> SystemSettings:
    return SystemSettings(name="system", directory=tmp_path, system_id="abc")


@pytest.fixture
def passing(settings: SystemSettings, poller: Poller) -> Iterator[Dispatcher]:
    made = Dispatcher(settings, poller)
    yield made
    made.close()


def test_no_descriptor_is_left_to_pass_a_connection_on(
    passing: Dispatcher, settings: SystemSettings
) -> None:
    """The stranger is told to come again; no error reaches the loop of the admin."""
    there = new_address(settings, "abc")
    wanted = preamble(there.key)
    here, other = socket.socketpair()
    with here, other:
        assert passing.pass_on(here, wanted) == GONE
        with rundir.listen_at(there.path):
            assert passing.pass_on(here, wanted) == b""
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as next_one:
                lowest = next_one.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
            try:
                notice = passing.pass_on(here, wanted)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert notice == CROWDED


def test_a_process_that_takes_no_connections_shuts_nobody_else_out(
    passing: Dispatcher, settings: SystemSettings, poller: Poller
) -> None:
    """The kernel passes on only so many descriptors of one user that nobody has taken."""
    busy, idle = new_address(settings, "abc"), new_address(settings, "abc")
    most = settings.limits.max_handshakes
    here, other = socket.socketpair()
    with here, other, rundir.listen_at(busy.path) as door, rundir.listen_at(idle.path):
        named = [passing.pass_on(here, preamble(busy.key)) for _ in range(2 * most)]
        assert named == [b""] * most + [CROWDED] * most
        assert passing.pass_on(here, preamble(idle.key)) == b""
        door.settimeout(10)
        for _ in range(most):  # the busy one goes on
            way, _ = door.accept()
            with way, contextlib.closing(receive(way, 1 << 16)[1] or socket.socket()):
                pass
        poller.wait(0.0)
        assert passing.pass_on(here, preamble(busy.key)) == b""

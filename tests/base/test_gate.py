"""Passing connections on, when strangers have used up what it takes."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

from farref.actors.base import places
from farref.actors.base.addresses import mint
from farref.actors.base.gate import pass_on
from farref.actors.base.handshake import CROWDED, GONE, SECURE, preamble
from farref.actors.base.settings import SystemSettings


def test_no_descriptor_is_left_to_pass_a_connection_on(tmp_path: Path) -> None:
    """The stranger is told to come again; no error reaches the loop of the admin."""
    settings = SystemSettings(name="system", directory=tmp_path, system_id="abc")
    there = mint(settings, "abc")
    wanted = preamble(there.key, SECURE)
    here, other = socket.socketpair()
    with here, other:
        assert pass_on(here, wanted, settings) == GONE
        with places.listen_at(there.path):
            assert pass_on(here, wanted, settings) == b""
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as next_one:
                lowest = next_one.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
            try:
                notice = pass_on(here, wanted, settings)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert notice == CROWDED

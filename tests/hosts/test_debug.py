"""`breakpoint()` on another host: its session comes by the connections of the system."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import farref

from ..commands.kit import FARREF, PATIENCE
from .network import address

if TYPE_CHECKING:
    from .conftest import Joining, Starting
    from .network import Network

pytestmark = pytest.mark.processes


def stop(value: int) -> int:
    breakpoint()
    return value


def test_a_breakpoint_on_another_host(first: Starting, joined: Joining, network: Network) -> None:
    with first(name="far") as system, joined("B"):
        system.worker("W", on=address("B"))
        command = [*network.command("A"), *FARREF, "debug", "W", "--system", "far"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as debugger:
            assert debugger.stdout is not None
            debugger.stdout.readline()  # it waits
            call = farref.rpc_async("W", stop, (1,))
            output, _ = debugger.communicate("value = 2\nc\n", timeout=PATIENCE)
        assert "W stands at a breakpoint, stop (" in output
        assert call.result() == 2

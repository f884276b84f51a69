"""What starting a system does beyond what its base does."""

from __future__ import annotations

import socket
import sys

import pytest

from farref import System, SystemDownError, rpc_sync
from farref.actors import bases
from farref.actors.base.system import FarrefBase

pytestmark = pytest.mark.processes


@pytest.mark.skipif(sys.platform != "linux", reason="our base is Linux's")
def test_the_default_is_our_own() -> None:
    with System() as system:
        assert isinstance(system._asys._systemBase, FarrefBase)


def test_a_port_that_somebody_else_took_first_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1], bases._free_port()]
        monkeypatch.setattr(bases, "_free_port", lambda: ports.pop(0))
        with System("multiprocTCPBase") as system:
            system.worker("B")
            assert rpc_sync("B", pow, (2, 3)) == 8
    assert not ports


def test_a_port_of_the_users_own_that_is_taken_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemDownError, match="did not start"):
            System("multiprocTCPBase", capabilities={"Admin Port": port})

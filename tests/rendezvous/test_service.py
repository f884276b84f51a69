"""The service as a backend, when its process is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from typing import Any

import psutil
import pytest

import farref
from farref import System
from farref.elastic import (
    DynamicRendezvousHandler,
    RendezvousConnectionError,
    RendezvousParameters,
    ServiceRendezvousBackend,
    Timeouts,
    embedded,
)
from farref.elastic.endpoints import RendezvousEndpoint

from ..ports import free_port
from ..waiting import eventually
from .kit import SHORT, meet
from .test_handler import error_of

pytestmark = pytest.mark.processes


def kill_the_service() -> None:
    os.kill(farref.rpc_sync("farref rendezvous", os.getpid), signal.SIGKILL)


def test_a_standby_goes_on_with_the_same_states() -> None:
    with System(timeout=20):
        backend = ServiceRendezvousBackend("run")
        stored = backend.set_state(b"before")
        assert stored is not None
        nodes = [
            DynamicRendezvousHandler.from_backend(
                "of nodes", None, ServiceRendezvousBackend("of nodes"), 2, 2, name, SHORT
            )
            for name in "ab"
        ]
        first = meet(*nodes)
        kill_the_service()
        assert backend.get_state() == stored[:2]
        after = backend.set_state(b"after", stored[1])
        assert after is not None
        assert after[2]
        second = meet(*nodes)
        assert [info.rank for info in first] == [info.rank for info in second]
        assert {info.round for info in second} == {first[0].round + 1}
        assert [node.shutdown() for node in nodes] == [True, True]


STOPPED = """
import sys, time
from farref import System
from farref.elastic import RendezvousConnectionError, embedded
backend = embedded.backend(lambda _: System.attach(sys.argv[1]), "run", 10, 5)
backend.set_state(b"before")
print("ready", flush=True)
sys.stdin.readline()
while True:
    try:
        state, token = backend.get_state()
        break
    except RendezvousConnectionError:
        time.sleep(0.1)
print(state.decode(), backend.set_state(b"after", token)[2], flush=True)
sys.stdin.readline()
"""


def test_one_that_was_stopped_and_given_up_enters_again() -> None:
    with System(timeout=20, silence=3) as system:
        command = [sys.executable, "-c", STOPPED, system.name]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as agent:
            assert agent.stdin is not None
            assert agent.stdout is not None
            try:
                assert agent.stdout.readline() == "ready\n"
                me = f"program-{agent.pid}"
                agent.send_signal(signal.SIGSTOP)
                eventually(
                    lambda: me not in {info.name for info in system.workers()}, "it is given up"
                )
                agent.send_signal(signal.SIGCONT)
                agent.stdin.write("\n")
                agent.stdin.flush()
                assert agent.stdout.readline() == "before True\n"
                assert me in {info.name for info in system.workers()}
            finally:
                agent.kill()


def test_another_system_of_that_name_is_not_taken_for_it() -> None:
    """It does not know the members of a round."""
    name = f"again-{uuid.uuid4().hex[:8]}"
    with System(name=name):
        backend: Any = embedded.backend(lambda _: System.attach(name), "run", 10, 5)
        backend.set_state(b"before")
    with System(name=name):
        ServiceRendezvousBackend("run").set_state(b"of another group")
        with pytest.raises(RendezvousConnectionError, match="lost with it"):
            backend.get_state()
    backend._system.shutdown()


def test_a_service_by_hand_ends_in_order() -> None:
    command = [sys.executable, "-m", "farref", "rendezvous", f"127.0.0.1:{free_port()}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdout.readline().startswith("agents meet at farref://127.0.0.1:")
        service.terminate()
        assert service.wait(60) == 0


def test_a_service_that_is_killed_is_not_started_again() -> None:
    """Nobody knows any more which nodes are still in a round."""
    endpoint = RendezvousEndpoint(f"127.0.0.1:{free_port()}")
    found: Any = endpoint.backend(RendezvousParameters("farref", "x", "run", 1, 1), Timeouts())
    found.set_state(b"before")
    # Another parent's child that ended meanwhile has no command line any more.
    children = [c for c in psutil.Process().children() if c.status() != psutil.STATUS_ZOMBIE]
    (service,) = (child for child in children if f"127.0.0.1:{endpoint.port}" in child.cmdline())
    service.kill()
    eventually(lambda: "has ended" in error_of(found.get_state), "this program is told")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port))
    found._system.shutdown()


def test_a_system_that_ended_is_named() -> None:
    with System(timeout=20):
        backend = ServiceRendezvousBackend("run")
        assert backend.get_state() is None
    with pytest.raises(RendezvousConnectionError, match="ended"):
        backend.get_state()

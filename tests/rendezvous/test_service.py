"""The service as a backend, when its process is killed."""

from __future__ import annotations

import os
import signal

import pytest

import farref
from farref import System
from farref.actors.rendezvous.service import NAME
from farref.elastic import (
    DynamicRendezvousHandler,
    RendezvousConnectionError,
    ServiceRendezvousBackend,
)

from .kit import SHORT, MemoryStore
from .test_backends import meet

pytestmark = pytest.mark.processes


def kill_the_service() -> None:
    os.kill(farref.rpc_sync(NAME, os.getpid), signal.SIGKILL)


def test_a_standby_goes_on_with_the_same_states() -> None:
    with System(timeout=20, silence=1):
        backend = ServiceRendezvousBackend("run")
        stored = backend.set_state(b"before")
        assert stored is not None
        store = MemoryStore()
        nodes = [
            DynamicRendezvousHandler.from_backend(
                "of nodes", store, ServiceRendezvousBackend("of nodes"), 2, 2, name, SHORT
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


def test_a_system_that_ended_is_named() -> None:
    with System(timeout=20):
        backend = ServiceRendezvousBackend("run")
        assert backend.get_state() is None
    with pytest.raises(RendezvousConnectionError, match="ended"):
        backend.get_state()

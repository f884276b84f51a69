"""The backends, and the servers that they need."""

from __future__ import annotations

import gc
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from farref import System
from farref.elastic import ServiceRendezvousBackend
from farref.elastic.c10d import C10dRendezvousBackend
from farref.elastic.etcd import EtcdRendezvousBackend, client

from ..conftest import listening_ports
from ..etcd import Etcd
from ..waiting import eventually
from .kit import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from farref.elastic import RendezvousBackend


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an etcd for all tests."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server.port


@pytest.fixture(scope="session")
def tcp_store() -> Iterator[list[Any]]:
    """A TCPStore for all tests, in a list of one.

    Its server ends with the last clone, which a thread may hold that a test has given up.
    """
    distributed = pytest.importorskip("torch.distributed", reason="torch is not installed here")
    kept = [distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)]
    port = kept[0].port
    yield kept
    kept.clear()

    def is_closed() -> bool:
        gc.collect()
        return port not in listening_ports()

    eventually(is_closed)


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """A system for the tests of a module; other modules test a place without a system."""
    with System(name=f"rendezvous-{uuid.uuid4().hex[:8]}") as system:
        yield system


@pytest.fixture(
    params=["memory", pytest.param("service", marks=pytest.mark.processes), "etcd", "c10d"]
)
def backend_of(request: pytest.FixtureRequest) -> Callable[[str], RendezvousBackend]:
    """Makes backends of a run; in each kind, the backends of one run share one state."""
    unique = uuid.uuid4().hex
    runs: dict[str, MemoryBackend] = {}

    def made(run_id: str) -> RendezvousBackend:
        if request.param == "memory":
            return runs.setdefault(run_id, MemoryBackend())
        if request.param == "service":
            there = request.getfixturevalue("system").endpoint
            return ServiceRendezvousBackend(f"{run_id}-{unique}", endpoint=there)
        if request.param == "etcd":
            there = client("127.0.0.1", request.getfixturevalue("etcd"))
            return EtcdRendezvousBackend(there, f"{run_id}-{unique}")
        (store,) = request.getfixturevalue("tcp_store")
        return C10dRendezvousBackend(store.clone(), f"{run_id}-{unique}")

    made("any")  # skips here, if it has to
    return made

"""The store of an elected registrar: a real etcd keeps the rules of `protocol.succession`."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref import System, SystemDownError, rpc_sync
from farref.actors.base import keys
from farref.actors.cluster.etcd import EtcdStore, servers
from farref.protocol.succession import (
    Expired,
    Grant,
    Granted,
    Holder,
    Refused,
    Renew,
    Renewed,
    Stand,
    Vacant,
    WhoLeads,
    Write,
    Written,
)

from ...rendezvous.kit import etcd_server, free_ports
from ..scripts import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with etcd_server(tmp_path_factory.mktemp("etcd")) as port:
        yield f"etcd://127.0.0.1:{port}"


@pytest.fixture
def store(spec: str) -> EtcdStore:
    return EtcdStore(spec, uuid.uuid4().hex, 5.0)


def elected(store: EtcdStore, who: str = "one") -> Holder:
    lease = store.ask(Grant(), who, b"", 5.0)
    assert isinstance(lease, Granted)
    holder = store.ask(Stand(lease.lease), who, b"home")
    assert isinstance(holder, Holder)
    return holder


def test_one_candidate_gets_the_role(store: EtcdStore) -> None:
    assert store.ask(WhoLeads(), "one", b"") == Vacant()
    first = elected(store)
    assert (first.who, first.home) == ("one", b"home")
    assert elected(store, "two") == first
    assert store.ask(WhoLeads(), "three", b"") == first
    assert store.ask(Renew(first.lease), "one", b"") == Renewed()
    store.resign(first.lease, last=False)
    assert store.ask(Renew(first.lease), "one", b"") == Expired()
    assert store.ask(Stand(first.lease), "one", b"") == Expired()
    assert elected(store, "two").term > first.term


def test_a_write_is_taken_once_and_from_the_holder_only(store: EtcdStore) -> None:
    first = elected(store)
    assert store.read() == ({}, 0)
    one = Write(first.term, 1, 0, (("a", b"1"), ("b", b"1")))
    done = store.write(one)
    assert isinstance(done, Written)
    assert store.write(one) == done  # sent again: the answer was lost
    two = Write(first.term, 2, done.revision, (("a", None), ("b", b"2")))
    after = store.write(two)
    assert isinstance(after, Written)
    assert store.write(one) == Refused()  # it was under way for long
    assert store.read() == ({"b": b"2"}, after.revision)
    store.resign(first.lease, last=False)
    second = elected(store, "two")
    three = Write(first.term, 3, after.revision, (("b", b"3"),))
    assert store.write(three) == Refused()
    assert isinstance(store.write(Write(second.term, 1, after.revision, ())), Written)
    store.resign(second.lease, last=True)
    assert store.read() == ({}, 0)


def test_a_server_that_does_not_answer_is_passed_over(spec: str) -> None:
    (port,) = free_ports(1)
    both = f"etcd://127.0.0.1:{port},{spec.removeprefix('etcd://')}"
    store = EtcdStore(both, uuid.uuid4().hex, 5.0)
    assert store.ask(WhoLeads(), "one", b"") == Vacant()


@pytest.mark.parametrize(
    "spec", ["", "a:2379", "http://a:2379", "etcd://", "etcd://a:", "etcd://a:0", "etcd://a,,b"]
)
def test_wrong_addresses_of_an_etcd(spec: str) -> None:
    with pytest.raises(ValueError, match="etcd://host:port"):
        System(registry=spec, host="127.0.0.1", port=19010)


def test_addresses_of_an_etcd() -> None:
    assert servers("etcd://a,b:1") == [("a", 2379), ("b", 1)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "registry= needs host="),
        ({"base": "multiprocTCPBase", "host": "127.0.0.1"}, "needs base farrefBase"),
        ({"host": "127.0.0.1", "capabilities": {"a": object()}}, "plain data"),
        ({"host": "127.0.0.1", "name": "a/b"}, "no / in its name"),
    ],
)
def test_options_that_do_not_fit_a_registry(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        System(registry="etcd://127.0.0.1:1", **options)


def test_no_etcd_answers() -> None:
    (port,) = free_ports(1)
    with pytest.raises(SystemDownError, match="no etcd answers"):
        System(registry=f"etcd://127.0.0.1:{port}", host="127.0.0.1", port=19010)
    with (
        socket.create_server(("127.0.0.1", port)),  # it takes connections, and says nothing
        pytest.raises(SystemDownError, match="no etcd answers"),
    ):
        System.join(f"etcd://127.0.0.1:{port}/any", host="127.0.0.1", port=19010)


def test_a_system_to_join_needs_its_name() -> None:
    with pytest.raises(ValueError, match="names no system"):
        System.join("etcd://127.0.0.1:2379", host="127.0.0.1", port=19010)


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "etcd3gw", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'farref\[etcd\]'"):
        System(registry="etcd://127.0.0.1:1", host="127.0.0.1", port=19010)


@pytest.fixture
def options(spec: str) -> Callable[[], dict[str, Any]]:
    """The arguments of hosts of one system."""
    name = f"elected-{uuid.uuid4().hex[:8]}"

    def one() -> dict[str, Any]:
        (port,) = free_ports(1)
        return {"name": name, "registry": spec, "host": "127.0.0.1", "port": port, "silence": 1.0}

    return one


@pytest.mark.processes
def test_a_host_alone(options: Callable[[], dict[str, Any]]) -> None:
    """Start, work, attach, end, and nothing is left in the etcd; then the name is free."""
    for _ in range(2):
        with System(**options()) as system:
            system.worker("A")
            assert rpc_sync("A", pow, (2, 3)) == 8
            attached = System.attach(system.name)
            assert {info.name for info in attached.workers()} >= {"A", "program"}
            attached.shutdown()
    given = options()
    assert EtcdStore(given["registry"], given["name"], 5.0).read() == ({}, 0)


@pytest.mark.processes
def test_another_host_joins_and_leaves(options: Callable[[], dict[str, Any]]) -> None:
    with System(**options()) as system:
        system.worker("A")
        spec = f"{options()['registry']}/{system.name}"
        with System.join(spec, host="127.0.0.1", port=options()["port"]) as other:
            assert rpc_sync("A", pow, (2, 3)) == 8
            assert len(other.hosts()) == 2
        assert len(system.hosts()) == 1


SECOND = """
    import json, os, sys
    os.environ["XDG_RUNTIME_DIR"] = sys.argv[2]
    import farref

    with farref.System(**json.loads(sys.argv[1])) as system:
        print(len(system.hosts()))
"""


@pytest.mark.processes
@pytest.mark.parametrize("sharing", ["lend", "fork"])
def test_the_same_line_on_two_hosts(
    options: Callable[[], dict[str, Any]],
    sharing: str,
    tmp_path: Path,
) -> None:
    """It starts the system, or joins it. With other settings it is refused."""
    key = str(tmp_path / "key")
    keys.make(Path(key))
    with (
        tempfile.TemporaryDirectory() as home,  # as on another machine
        System(**options(), key=key) as system,
    ):
        second = {**options(), "key": key, "sharing": sharing, "program": "second"}
        with started(tmp_path, SECOND, json.dumps(second), home) as process:
            out, err = process.communicate(timeout=60)
        if sharing == "lend":
            assert (out, process.returncode) == ("2\n", 0), err
        else:
            assert f"System.join('{system.endpoint.core.settings.registry}" in err
        assert len(system.hosts()) == 1

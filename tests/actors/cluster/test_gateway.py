"""A real etcd that encrypts, asks for certificates and wants a login."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import pytest

from farref import System, SystemDownError, rpc_sync
from farref.actors.cluster.gateway import Gateway

from ...base.authority import Authority
from ...ports import free_ports
from ...rendezvous.kit import etcd_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from farref import TLS

pytestmark = pytest.mark.processes  # an etcd
HERE = "127.0.0.1"
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def closed(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An etcd where the user farref may use the folder of systems, and nobody anything else."""
    tls = authority.sign("server", at=HERE)
    with etcd_server(tmp_path_factory.mktemp("etcd"), tls) as port:
        spec = f"etcds://{HERE}:{port}"
        with pytest.MonkeyPatch.context() as patch:
            set_up(patch, tls)
            post = Gateway(spec, 5.0).post
        may = {"key": "farref/systems/", "range_end": "farref/systems0"}
        coded = {name: base64.b64encode(text.encode()).decode() for name, text in may.items()}
        for user, role in (("root", "root"), ("farref", "hosts")):
            post("/auth/user/add", {"name": user, "password": f"{user}'s: word"})
            post("/auth/role/add", {"name": role})
            post("/auth/user/grant", {"user": user, "role": role})
        post("/auth/role/grant", {"name": "hosts", "perm": {"permType": "READWRITE", **coded}})
        post("/auth/enable", {})
        yield spec


def set_up(patch: pytest.MonkeyPatch, tls: TLS | None, login: str = "") -> None:
    for name in ("CACERT", "CERT", "KEY", "USER", "PASSWORD"):
        patch.delenv(f"ETCDCTL_{name}", raising=False)
    if tls is not None:
        patch.setenv("ETCDCTL_CACERT", os.fspath(tls.ca))
        patch.setenv("ETCDCTL_CERT", os.fspath(tls.cert))
        patch.setenv("ETCDCTL_KEY", os.fspath(tls.key))
    if login:
        patch.setenv("ETCDCTL_USER", login)


def options(spec: str) -> dict[str, Any]:
    (port,) = free_ports(1)
    return {"registry": spec, "host": HERE, "port": port, "key": KEY, "silence": 1.0}


def test_a_system_whose_etcd_wants_all_of_it(
    closed: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = authority.sign("")
    set_up(monkeypatch, tls, "farref:farref's: word")
    with System(**options(closed)) as system:
        system.worker("A")
        join = f"{closed}/{system.name}"
        (port,) = free_ports(1)
        with System.join(join, host=HERE, port=port, key=KEY) as other:
            assert rpc_sync("A", pow, (2, 3)) == 8
            assert len(other.hosts()) == 2
    set_up(monkeypatch, tls, "root:root's: word")
    everything = {"key": "AA==", "range_end": "AA==", "count_only": True}
    assert int(Gateway(closed, 5.0).post("/kv/range", everything).get("count", 0)) == 0


def test_the_login_is_renewed(
    closed: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The etcd forgets a login after some minutes, and at its own start."""
    set_up(monkeypatch, authority.sign(""), "farref")
    monkeypatch.setenv("ETCDCTL_PASSWORD", "farref's: word")
    gateway = Gateway(closed, 5.0)
    here = {"key": base64.b64encode(b"farref/systems/x").decode()}
    for _ in range(2):
        gateway.post("/kv/range", here)
        (client,) = gateway._clients
        client.session.headers["Authorization"] = "forgotten.12"


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ("", "user name is empty"),
        ("farref:wrong", "authentication failed"),
        ("nobody:wrong", "authentication failed"),
    ],
)
def test_a_wrong_login(
    closed: str, authority: Authority, monkeypatch: pytest.MonkeyPatch, login: str, said: str
) -> None:
    set_up(monkeypatch, authority.sign(""), login)
    with pytest.raises(SystemDownError, match=said):
        System(**options(closed))


def test_a_certificate_with_a_name(
    closed: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway of etcd's refuses it if there is a login, too: so the error says that."""
    set_up(monkeypatch, authority.sign("client"), "farref:farref's: word")
    with pytest.raises(SystemDownError, match="CommonName of client"):
        System(**options(closed))


def test_a_wrong_authority(
    closed: str, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    set_up(monkeypatch, Authority(tmp_path, "another").sign(""), "farref:farref's: word")
    with pytest.raises(SystemDownError, match="CERTIFICATE_VERIFY_FAILED"):
        System(**options(closed))
    set_up(monkeypatch, None, "farref:farref's: word")
    monkeypatch.setenv("ETCDCTL_CACERT", os.fspath(authority.path))
    with pytest.raises(SystemDownError, match="no etcd answers"):  # no certificate of its own
        System(**options(closed))
    with pytest.raises(SystemDownError, match="no etcd answers"):  # not by TLS
        System(**options(closed.replace("etcds", "etcd")))


def test_a_password_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="ETCDCTL_USER=user:password"):
        System(**options("etcds://farref:word@127.0.0.1"))

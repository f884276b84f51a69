"""A real etcd that encrypts, asks for certificates and wants a login."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from farref import System, SystemDownError, rpc_sync

from ...base.authority import Authority
from ...etcd import HERE, Etcd, coded
from ...ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import TLS

pytestmark = pytest.mark.processes  # an etcd
KEY = bytes(range(32))
LOGIN = "farref:farref's: word"
VARIABLES = ("CACERT", "CERT", "KEY", "USER", "PASSWORD")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TLS:
    """The certificate of the etcd, and of its clients, without a common name."""
    return authority.sign("", at=HERE)


@pytest.fixture(scope="module")
def etcd(tls: TLS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """An etcd where the user farref may use the folder of systems, and nobody anything else."""
    with Etcd(tmp_path_factory.mktemp("etcd"), tls=tls) as etcd:
        for user, role in (("root", "root"), ("farref", "hosts")):
            etcd.post("/auth/user/add", {"name": user, "password": f"{user}'s: word"})
            etcd.post("/auth/role/add", {"name": role})
            etcd.post("/auth/user/grant", {"user": user, "role": role})
        systems = {"key": coded("farref/systems/"), "range_end": coded("farref/systems0")}
        may = {"permType": "READWRITE", **systems}
        etcd.post("/auth/role/grant", {"name": "hosts", "perm": may})
        etcd.post("/auth/enable", {})
        yield etcd


def set_up(patch: pytest.MonkeyPatch, tls: TLS | None = None, **more: str) -> None:
    """Set the variables of `etcdctl` for *tls* and to *more*, and no others of them."""
    files = {} if tls is None else {"CACERT": tls.ca, "CERT": tls.cert, "KEY": tls.key}
    given = {name: os.fspath(path) for name, path in files.items()} | more
    for name in VARIABLES:
        patch.delenv(f"ETCDCTL_{name}", raising=False)
    for name, value in given.items():
        patch.setenv(f"ETCDCTL_{name}", value)


def options(spec: str) -> dict[str, Any]:
    return {"registry": spec, "host": HERE, "port": free_port(), "key": KEY, "silence": 1.0}


def test_a_system_whose_etcd_wants_all_of_it(
    etcd: Etcd, tls: TLS, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, tls, USER=LOGIN)
    with System(**options(etcd.spec)) as system:
        system.worker("A")
        join = f"{etcd.spec}/{system.name}"
        with System.join(join, host=HERE, port=free_port(), key=KEY) as other:
            assert rpc_sync("A", pow, (2, 3)) == 8
            assert len(other.hosts()) == 2
    root = {"name": "root", "password": "root's: word"}
    token = etcd.post("/auth/authenticate", root)["token"]
    assert etcd.keys("", token=token) == []


def test_the_login_is_renewed(etcd: Etcd, tls: TLS, monkeypatch: pytest.MonkeyPatch) -> None:
    """The etcd forgets a login after some minutes, and at its own start."""
    set_up(monkeypatch, tls, USER="farref", PASSWORD="farref's: word")
    with System(**options(etcd.spec)) as system:
        for name in "AB":
            system.worker(name)
            etcd.restart()
        assert system.worker("C").name == "C"


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ({}, "user name is empty"),
        ({"USER": "farref:wrong"}, "authentication failed"),
        ({"USER": "nobody:wrong"}, "authentication failed"),
    ],
)
def test_a_wrong_login(
    etcd: Etcd,
    tls: TLS,
    monkeypatch: pytest.MonkeyPatch,
    login: dict[str, str],
    said: str,
) -> None:
    set_up(monkeypatch, tls, **login)
    with pytest.raises(SystemDownError, match=said):
        System(**options(etcd.spec))


def test_a_certificate_with_a_name(
    etcd: Etcd, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway of etcd's refuses it if there is a login, too: so the error says that."""
    set_up(monkeypatch, authority.sign("client"), USER=LOGIN)
    with pytest.raises(SystemDownError, match="CommonName of client"):
        System(**options(etcd.spec))


def test_a_wrong_authority(
    etcd: Etcd, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_up(monkeypatch, Authority(tmp_path, "another").sign(""), USER=LOGIN)
    with pytest.raises(SystemDownError, match="CERTIFICATE_VERIFY_FAILED"):
        System(**options(etcd.spec))
    set_up(monkeypatch, USER=LOGIN, CACERT=os.fspath(authority.path))
    with pytest.raises(SystemDownError, match="no etcd answers"):  # no certificate of its own
        System(**options(etcd.spec))
    with pytest.raises(SystemDownError, match="no etcd answers"):  # not by TLS
        System(**options(etcd.spec.replace("etcds", "etcd")))


def test_a_password_in_the_address() -> None:
    with pytest.raises(ValueError, match="ETCDCTL_USER=user:password"):
        System(**options("etcds://farref:word@127.0.0.1"))

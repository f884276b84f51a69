"""Access to an etcd, version 3, by the HTTP gateways of its servers. Needs the extra `etcd`.

``etcd://a:2379,b:2379`` names the servers; ``etcds://a:2379`` is the same by TLS. This address
contains no secrets, because it appears in settings, errors and command lines. They are in the
environment of each host, under the names that `etcdctl` reads:

====================================  ========================================================
``ETCDCTL_USER``                      ``user:password``, or the user alone
``ETCDCTL_PASSWORD``                  then the password
``ETCDCTL_CACERT``                    for ``etcds://``: the file of the authority of the servers'
                                      certificates; the system's authorities by default
``ETCDCTL_CERT``, ``ETCDCTL_KEY``     for ``etcds://``: the files of a certificate and of its
                                      private key, if the servers ask for one; without a common
                                      name, if they want a login, too (a rule of etcd's)
====================================  ========================================================
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]
"""A key and its value, as etcd gives them."""

SCHEME, SECURE = "etcd://", "etcds://"
PORT = 2379
NO_LEASE = "lease not found"
"""The words of etcd's error."""
NO_TOKEN = ("invalid auth token", "user name is empty")
"""The words of etcd's errors if it wants a login, or another one."""


class NoAnswer(Exception):
    """None of the servers has answered."""


def is_address(spec: str) -> bool:
    """Whether *spec* begins as the address of an etcd does."""
    return spec.startswith((SCHEME, SECURE))


def servers(spec: str) -> list[tuple[str, int]]:
    """The addresses in ``etcd://a:2379,b:2379``. Raises `ValueError`."""
    wrong = ValueError(
        f"registry must be 'etcd://host:port' or 'etcds://host:port', with commas between several, "
        f"not {spec!r}"
    )
    if not is_address(spec):
        raise wrong
    if "@" in spec:
        raise ValueError(
            "registry holds no user and no password, for people see it in logs and command lines: "
            "set ETCDCTL_USER=user:password on each host"
        )
    found = []
    for each in spec.partition("//")[2].split(","):
        host, colon, port = each.rpartition(":")
        if not colon:
            host, port = each, str(PORT)
        if not host.strip("[]") or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise wrong
        found.append((host, int(port)))
    return found


class Gateway:
    """The servers of one etcd. Each thread has one of its own."""

    def __init__(self, spec: str, timeout: float) -> None:
        """*timeout*: seconds that each server may take for an answer.

        Raises:
            ValueError: *spec* is not the address of an etcd.
            ModuleNotFoundError: the package `etcd3gw` is not installed.
        """
        try:
            from etcd3gw import Etcd3Client  # noqa: PLC0415 - an optional extra
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "registry= needs the package etcd3gw: pip install 'farref[etcd]'"
            ) from error
        more: dict[str, Any] = {"timeout": timeout}
        if spec.startswith(SECURE):
            more |= {
                "protocol": "https",
                "ca_cert": os.environ.get("ETCDCTL_CACERT") or None,
                "cert_cert": os.environ.get("ETCDCTL_CERT") or None,
                "cert_key": os.environ.get("ETCDCTL_KEY") or None,
            }
        self._clients = [Etcd3Client(host=host, port=port, **more) for host, port in servers(spec)]
        for client in self._clients:
            # No proxy, no other authority, no other login: requests takes them from elsewhere.
            client.session.trust_env = False
        user, _, password = os.environ.get("ETCDCTL_USER", "").partition(":")
        self._login = {"name": user, "password": password or os.environ.get("ETCDCTL_PASSWORD", "")}

    def post(self, path: str, body: dict[str, Any]) -> Mapping[str, Any]:
        """The answer of the first server that gives one.

        Raises:
            NoAnswer: none does.
            LookupError: there is no such lease.
        """
        said: list[str] = []
        for client in list(self._clients):
            try:
                return self._ask(client, path, body)
            except Exception as error:
                text = _text(error)
                if NO_LEASE in text:
                    raise LookupError(text) from error
                said.append(f"{client.base_url}: {type(error).__name__}: {text:.300}")
                self._clients.append(self._clients.pop(0))  # next time another one is asked first
        raise NoAnswer("; ".join(said))

    def _ask(self, client: Any, path: str, body: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return _checked(client.post(client.get_url(path), json=body))
        except Exception as error:
            if not self._login["name"] or not any(words in _text(error) for words in NO_TOKEN):
                raise
        # The first request, or etcd has forgotten the login: it keeps one for some minutes.
        with contextlib.suppress(KeyError):
            del client.session.headers["Authorization"]
        token = _checked(client.post(client.get_url("/auth/authenticate"), json=self._login))
        client.session.headers["Authorization"] = token["token"]
        return _checked(client.post(client.get_url(path), json=body))


def coded(data: str | bytes) -> str:
    """*data* as etcd takes it."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode("ascii")


def value_of(row: Row) -> bytes:
    return base64.b64decode(row.get("value", ""))


def change_if(
    post: Callable[[str, dict[str, Any]], Mapping[str, Any]],
    conditions: list[dict[str, Any]],
    changes: list[dict[str, Any]],
    key: str,
) -> tuple[int, Row | None]:
    """Make *changes* if all *conditions* hold, in one transaction.

    Returns its revision. If they do not hold, returns 0, and what is stored at *key*.
    """
    equal = [{**each, "result": "EQUAL"} for each in conditions]
    otherwise = [{"request_range": {"key": key}}]
    body = {"compare": equal, "success": changes, "failure": otherwise}
    answer = post("/kv/txn", body)
    if answer.get("succeeded"):
        return int(answer["header"]["revision"]), None
    (response,) = answer["responses"]
    return 0, only_row(response["response_range"])


def only_row(answer: Mapping[str, Any]) -> Row | None:
    """The only row of a range of one key."""
    row: Row | None = next(iter(answer.get("kvs") or ()), None)
    return row


def _checked(answer: Any) -> Mapping[str, Any]:
    if isinstance(answer, dict) and ("header" in answer or "result" in answer):
        return answer
    raise ValueError("this is no etcd 3")


def _text(error: Exception) -> str:
    """The words of *error*. etcd3gw's exceptions have those of the etcd beside their text."""
    said = str(getattr(error, "detail_text", None) or error)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(said)["error"])
    return said

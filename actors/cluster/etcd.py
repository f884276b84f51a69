"""The store of an elected registrar: etcd, version 3, by its HTTP gateway. Wants the extra `etcd`.

==========================================  ==================================================
``farref/systems/<system>/registrar``       the holder of the role; the key ends with its lease
``farref/systems/<system>/written``         the term and the number of the last write
``farref/systems/<system>/facts/...``       the facts
==========================================  ==================================================

A term is the revision at which the first key was made. The answers are those of
`farref.protocol.succession`: one to each question, or None if none of the servers answers. Calls
block; none is made in a thread that actors wait for.
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import SystemDownError
from ...protocol.succession import (
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.succession import Answer, Question

SCHEME = "etcd://"
PORT = 2379
SHORTEST = 2
"""Seconds: etcd's shortest lease."""
NO_LEASE = "lease not found"
"""The words of etcd's error."""


class NoAnswer(Exception):
    """None of the servers has answered."""


def servers(spec: str) -> list[tuple[str, int]]:
    """The addresses in ``etcd://a:2379,b:2379``. Raises `ValueError`."""
    wrong = ValueError(
        f"registry must be 'etcd://host:port', with commas between several, not {spec!r}"
    )
    if not spec.startswith(SCHEME):
        raise wrong
    found = []
    for each in spec.removeprefix(SCHEME).split(","):
        host, colon, port = each.rpartition(":")
        if not colon:
            host, port = each, str(PORT)
        if not host.strip("[]") or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise wrong
        found.append((host, int(port)))
    return found


def check(spec: str) -> None:
    """Raise an error unless the etcd at *spec* answers.

    Raises:
        ValueError: *spec* is no address of an etcd.
        ModuleNotFoundError: the package `etcd3gw` is not installed.
        SystemDownError: it does not answer, or is no etcd 3.
    """
    try:
        EtcdStore(spec, "", 2.0).ask(WhoLeads(), "", b"")
    except NoAnswer as error:
        raise SystemDownError(f"no etcd answers at {spec}: {error}") from error


class EtcdStore:
    """The facts of one system. Each thread has one of its own."""

    def __init__(self, spec: str, system: str, timeout: float) -> None:
        """*timeout*: seconds that each server may take for an answer.

        Raises the first two errors of `check`.
        """
        try:
            from etcd3gw import Etcd3Client  # noqa: PLC0415 - an optional extra
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "registry= needs the package etcd3gw: pip install 'farref[etcd]'"
            ) from error
        base = f"farref/systems/{system}/"
        self._registrar = _coded(f"{base}registrar")
        self._written = _coded(f"{base}written")
        self._facts = f"{base}facts/"
        self._all = {"key": _coded(base), "range_end": _coded(_next(base))}
        self._clients = [
            Etcd3Client(host=host, port=port, timeout=timeout) for host, port in servers(spec)
        ]

    def ask(self, question: Question, who: str, home: bytes, seconds: float = 0.0) -> Answer:
        """The answer to a `Question`. *home*: the way to the candidate *who*.

        *seconds*: those of a lease. Raises `NoAnswer`.
        """
        match question:
            case Grant():
                ttl = max(SHORTEST, math.ceil(seconds))
                return Granted(int(self._post("/lease/grant", {"TTL": ttl, "ID": 0})["ID"]))
            case Renew(lease=lease):
                answer = self._post("/lease/keepalive", {"ID": lease}).get("result", {})
                return Renewed() if int(answer.get("TTL", 0)) > 0 else Expired()
            case Stand(lease=lease):
                return self._stand(lease, who, home)
            case WhoLeads():
                rows = self._post("/kv/range", {"key": self._registrar}).get("kvs")
                return _holder(rows[0]) if rows else Vacant()

    def _stand(self, lease: int, who: str, home: bytes) -> Answer:
        key = {"key": self._registrar}
        value = _coded(msgspec.msgpack.encode((who, home)))
        body = {
            "compare": [{**key, "result": "EQUAL", "target": "CREATE", "create_revision": 0}],
            "success": [{"request_put": {**key, "value": value, "lease": lease}}],
            "failure": [{"request_range": key}],
        }
        try:
            answer = self._post("/kv/txn", body)
        except LookupError:
            return Expired()
        if answer.get("succeeded"):
            return Holder(int(answer["header"]["revision"]), who, lease, home)
        (response,) = answer["responses"]
        rows = response["response_range"].get("kvs")
        return _holder(rows[0]) if rows else Vacant()

    def write(self, write: Write) -> Written | Refused:
        """Change facts. Raises `NoAnswer`."""
        written = {"key": self._written}
        mark = _coded(msgspec.msgpack.encode((write.term, write.number)))
        named = {"target": "CREATE", "create_revision": write.term}
        last = {"target": "MOD", "mod_revision": write.after}
        body = {
            "compare": [
                {"key": self._registrar, "result": "EQUAL", **named},
                {**written, "result": "EQUAL", **last},
            ],
            "success": [
                *(self._operation(key, value) for key, value in write.changes),
                {"request_put": {**written, "value": mark}},
            ],
            "failure": [{"request_range": written}],
        }
        answer = self._post("/kv/txn", body)
        if answer.get("succeeded"):
            return Written(int(answer["header"]["revision"]))
        (response,) = answer["responses"]
        rows = response["response_range"].get("kvs")
        if rows and rows[0].get("value") == mark:
            return Written(int(rows[0]["mod_revision"]))
        return Refused()

    def _operation(self, key: str, value: bytes | None) -> dict[str, Any]:
        name = _coded(self._facts + key)
        if value is None:
            return {"request_delete_range": {"key": name}}
        return {"request_put": {"key": name, "value": _coded(value)}}

    def read(self) -> tuple[dict[str, bytes], int]:
        """All facts, and the revision of the last write. Raises `NoAnswer`."""
        facts, revision = {}, 0
        for row in self._post("/kv/range", self._all).get("kvs", ()):
            key = base64.b64decode(row["key"]).decode()
            if row["key"] == self._written:
                revision = int(row["mod_revision"])
            elif key.startswith(self._facts):
                facts[key.removeprefix(self._facts)] = base64.b64decode(row.get("value", ""))
        return facts, revision

    def resign(self, lease: int, *, last: bool) -> None:
        """End *lease*. With *last*, forget the system. Raises `NoAnswer`."""
        if last:
            self._post("/kv/deleterange", self._all)
        self._post("/kv/lease/revoke", {"ID": lease})

    def _post(self, path: str, body: dict[str, Any]) -> Mapping[str, Any]:
        """The answer of the first server that gives one. `LookupError`: there is no such lease."""
        said: list[str] = []
        for client in list(self._clients):
            try:
                answer: Mapping[str, Any] = client.post(client.get_url(path), json=body)
                if "header" in answer or "result" in answer:
                    return answer
                said.append(f"{client.base_url} is no etcd 3")
            except Exception as error:
                # etcd3gw's exceptions have what happened beside their text.
                text = str(getattr(error, "detail_text", None) or error)
                if NO_LEASE in text:
                    raise LookupError(text) from error
                said.append(f"{client.base_url}: {type(error).__name__}: {text:.200}")
                self._clients.append(self._clients.pop(0))  # another one first, next time
        raise NoAnswer("; ".join(said))


def _coded(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode("ascii")


def _next(prefix: str) -> bytes:
    """The first key after all that begin with *prefix*."""
    data = prefix.encode()
    return data[:-1] + bytes([data[-1] + 1])


def _holder(row: Mapping[str, Any]) -> Holder:
    who, home = msgspec.msgpack.decode(base64.b64decode(row["value"]), type=tuple[str, bytes])
    return Holder(int(row["create_revision"]), who, int(row.get("lease", 0)), home)

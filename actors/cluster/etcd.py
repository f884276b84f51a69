"""The store of an elected registrar: an etcd.

The keys of a system are in a folder, ``farref/systems/<name>/<mark>``. The mark is made of the
system's key: so systems with one name and different keys do not meet.

=================  ==================================================
``registrar``      the holder of the role; the key ends with its lease
``written``        the term and the number of the last write
``facts/...``      the facts
=================  ==================================================

A term is the revision at which the first key was made. The answers are those of
`farref.protocol.succession`: one to each question. Calls block; none is made in a thread that
actors wait for.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from typing import Any

import msgspec

from ...protocol.errors import SystemDownError
from ...protocol.succession.campaign import (
    Answer,
    Expired,
    Grant,
    Granted,
    Holder,
    Question,
    Renew,
    Renewed,
    Stand,
    Vacant,
    WhoLeads,
)
from ...protocol.succession.ledger import Refused, Write, Written
from .gateway import Gateway, NoAnswer, Row, change_if, coded, only_row, value_of

SYSTEMS = "farref/systems/"
SHORTEST = 2
"""Seconds: etcd's shortest lease."""
MARK = 16
"""Characters of a mark."""
KEYS = {"keys_only": True}


class UnreadableError(Exception):
    """The store holds something that this host cannot be part of. The text says what."""

    @classmethod
    def at(cls, where: str, error: Exception) -> UnreadableError:
        """The error for content *where* that farref cannot have written; *error* is the reason."""
        return cls(
            f"the etcd holds nonsense {where} ({error}): another program has written there; end "
            f"this system, and delete its folder below {SYSTEMS!r}"
        )


def mark(system: str, key: bytes) -> str:
    """A text that is the same on all hosts of *system*, and another one for each other key."""
    return hmac.new(key, f"farref registry {system}".encode(), hashlib.sha256).hexdigest()[:MARK]


def check(spec: str) -> None:
    """Raise an error unless the etcd at *spec* answers.

    Raises:
        ValueError: *spec* is not the address of an etcd.
        ModuleNotFoundError: the package `etcd3gw` is not installed.
        SystemDownError: it does not answer, or is not an etcd 3.
    """
    store = EtcdStore(spec, "", b"", 2.0)
    try:
        store.ask(WhoLeads(), "", b"")
    except (NoAnswer, UnreadableError, LookupError, TypeError, ValueError) as error:
        raise SystemDownError(f"no etcd answers at {spec}: {error}") from error


class EtcdStore:
    """The facts of one system. Each thread has one of its own."""

    def __init__(self, spec: str, system: str, key: bytes, timeout: float) -> None:
        """*key*: the system's. *timeout*: seconds that each server may take for an answer.

        Raises the errors of `Gateway`.
        """
        self._system = system
        self._post = Gateway(spec, timeout).post
        self._beside = f"{SYSTEMS}{system}/"
        self.folder = f"{self._beside}{mark(system, key)}/"
        self._registrar = coded(f"{self.folder}registrar")
        self._written = coded(f"{self.folder}written")
        self._facts = f"{self.folder}facts/"
        self._all = _under(self.folder)

    def ask(self, question: Question, who: str, home: bytes, seconds: float = 0.0) -> Answer:
        """The answer to a `Question`. *home*: the way to the candidate *who*.

        *seconds*: those of a lease. Raises `NoAnswer`, `UnreadableError`.
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
                return self._holder(only_row(self._post("/kv/range", {"key": self._registrar})))

    def _stand(self, lease: int, who: str, home: bytes) -> Answer:
        key = {"key": self._registrar}
        none = {**key, "target": "CREATE", "create_revision": 0}
        value = coded(msgspec.msgpack.encode((who, home)))
        put = {"request_put": {**key, "value": value, "lease": lease}}
        try:
            term, row = change_if(self._post, [none], [put], self._registrar)
        except LookupError:
            return Expired()
        return Holder(term, who, lease, home) if term else self._holder(row)

    def _holder(self, row: Row | None) -> Holder | Vacant:
        if row is None:
            return Vacant()
        try:
            who, home = msgspec.msgpack.decode(value_of(row), type=tuple[str, bytes])
        except ValueError as error:
            raise UnreadableError.at("in the place of the registrar", error) from error
        return Holder(int(row["create_revision"]), who, int(row.get("lease", 0)), home)

    def rivals(self) -> None:
        """Raise `UnreadableError` if a system of this name runs that has another key."""
        mine, rows = self._registrar, self._post("/kv/range", {**_under(self._beside), **KEYS})
        for row in rows.get("kvs", ()):
            if row["key"] != mine and base64.b64decode(row["key"]).endswith(b"/registrar"):
                raise UnreadableError(
                    f"a system named {self._system!r} with another key runs in this etcd; "
                    "choose another name, or give the key of that one to join it"
                )

    def write(self, write: Write) -> Written | Refused:
        """Change facts. Raises `NoAnswer`."""
        written = {"key": self._written}
        mark = coded(msgspec.msgpack.encode((write.term, write.number)))
        leads = {"key": self._registrar, "target": "CREATE", "create_revision": write.term}
        last = {**written, "target": "MOD", "mod_revision": write.after}
        changes = [self._operation(key, value) for key, value in write.changes]
        changes.append({"request_put": {**written, "value": mark}})
        revision, row = change_if(self._post, [leads, last], changes, self._written)
        if row is not None and row.get("value") == mark:  # it was taken before
            revision = int(row["mod_revision"])
        return Written(revision) if revision else Refused()

    def _operation(self, key: str, value: bytes | None) -> dict[str, Any]:
        name = coded(self._facts + key)
        if value is None:
            return {"request_delete_range": {"key": name}}
        return {"request_put": {"key": name, "value": coded(value)}}

    def read(self) -> tuple[dict[str, bytes], int]:
        """All facts, and the revision of the last write. Raises `NoAnswer`."""
        facts, revision = {}, 0
        for row in self._post("/kv/range", self._all).get("kvs", ()):
            key = base64.b64decode(row["key"]).decode(errors="replace")
            if row["key"] == self._written:
                revision = int(row["mod_revision"])
            elif key.startswith(self._facts):
                facts[key.removeprefix(self._facts)] = value_of(row)
        return facts, revision

    def resign(self, lease: int, forget: int = 0) -> None:
        """End *lease*. *forget*: the term of its holder, if the system has ended with it.

        Then all facts go, unless there was a later registrar. Raises `NoAnswer`, `LookupError`.
        """
        if forget:
            mine = {"key": self._registrar, "target": "CREATE", "create_revision": forget}
            goes = [{"request_delete_range": self._all}]
            self._post("/kv/txn", {"compare": [{**mine, "result": "EQUAL"}], "success": goes})
        self._post("/kv/lease/revoke", {"ID": lease})


def _under(prefix: str) -> dict[str, str]:
    """The keys that begin with *prefix*, as etcd wants them."""
    data = prefix.encode()
    return {"key": coded(data), "range_end": coded(data[:-1] + bytes([data[-1] + 1]))}

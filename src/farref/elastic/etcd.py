"""The state of a run in etcd, version 3, by its HTTP gateway. Wants the extra `etcd`.

One key per run. A token is the revision at which the key was stored last, so a comparison and a
store are one transaction of etcd's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..actors.cluster.gateway import Row, change_if, coded, only_row, value_of
from ..actors.rendezvous.handler import checked_run_id
from ..protocol.errors import RendezvousConnectionError
from .api import RendezvousBackend, Token


def client(host: str, port: int, *, timeout: float = 5.0, **options: Any) -> Any:
    """A client of the etcd at *host* and *port*, which waits *timeout* seconds for an answer.

    *options* are `etcd3gw.Etcd3Client`'s: ``protocol="https"``, ``ca_cert``, ``cert_cert``,
    ``cert_key``.

    Raises:
        ImportError: the package `etcd3gw` is not installed.
    """
    try:
        from etcd3gw import Etcd3Client  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError(
            "rendezvous over etcd needs the package etcd3gw: pip install 'farref[etcd]'"
        ) from error
    return Etcd3Client(host=host, port=port, timeout=timeout, **options)


class EtcdRendezvousBackend(RendezvousBackend):
    """Keeps the state under ``farref/rendezvous/<run id>``.

    Args:
        client: an `etcd3gw.Etcd3Client`, see `client`; it should have a timeout.
        run_id: which run.

    Raises:
        ValueError: the run id is empty.
    """

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._key = coded(f"farref/rendezvous/{checked_run_id(run_id)}")

    @property
    def name(self) -> str:
        """``etcd``."""
        return "etcd"

    def get_state(self) -> tuple[bytes, Token] | None:
        with self._asking():
            return _found(only_row(self._post("/kv/range", {"key": self._key})))

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        if token is None:
            token = 0  # the revision of a key that is not there
        if type(token) is not int or not 0 <= token < 1 << 63:
            found = self.get_state()
            return None if found is None else (*found, False)
        key = {"key": self._key}
        same = {**key, "target": "MOD", "mod_revision": token}
        put = {"request_put": {**key, "value": coded(state)}}
        with self._asking():
            revision, row = change_if(self._post, [same], [put], self._key)
            if revision:
                return state, revision, True
            found = _found(row)
            return None if found is None else (*found, False)

    def _post(self, path: str, body: dict[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._client.post(self._client.get_url(path), json=body)
        return answer

    @contextmanager
    def _asking(self) -> Iterator[None]:
        where = getattr(self._client, "base_url", "etcd")
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RendezvousConnectionError(
                f"the server at {where} is not etcd 3: {type(error).__name__}: {error}"
            ) from error
        except Exception as error:
            # etcd3gw's exceptions keep the reason in a field, and not in their text.
            said = getattr(error, "detail_text", None) or error
            raise RendezvousConnectionError(
                f"etcd at {where} cannot be reached: {type(error).__name__}: {said}"
            ) from error


def _found(row: Row | None) -> tuple[bytes, Token] | None:
    return None if row is None else (value_of(row), int(row["mod_revision"]))

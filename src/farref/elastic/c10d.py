"""The state of a run in a store with `compare_set`, such as torch's `TCPStore`.

Such a store compares values, not versions. A node that stored a value and a node that found the
same value get the same answer. So each value ends with a unique mark.
"""

from __future__ import annotations

import base64
import secrets
from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..actors.rendezvous.handler import checked_run_id
from ..protocol.errors import RendezvousConnectionError, RendezvousStateError
from .api import RendezvousBackend, Token
from .network import within

_NEVER = "farref: nothing is stored"
"""No state. A store without a value returns the expected one, so this asks without waiting."""


class StoreRendezvousBackend(RendezvousBackend):
    """Keeps the state under ``farref/rendezvous/<run id>``.

    Raises:
        ValueError: the run id is empty.
    """

    def __init__(self, run_id: str) -> None:
        self._key = f"farref/rendezvous/{checked_run_id(run_id)}"

    def get_state(self) -> tuple[bytes, Token] | None:
        found = self._compare_set(_NEVER, _NEVER)  # creates nothing
        return None if found == _NEVER.encode() else (_state(found), found)

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        expected = "" if token is None else _text(token)
        if not expected and token is not None:
            found = self.get_state()
            return None if found is None else (*found, False)
        value = f"{base64.b64encode(state).decode('ascii')} {secrets.token_hex(16)}"
        now = self._compare_set(expected, value)
        if now == value.encode():
            return state, now, True
        # For a key that is not there, the answer is the expected value.
        return None if now == expected.encode() else (_state(now), now, False)

    @abstractmethod
    def _compare_set(self, expected: str, value: str) -> bytes:
        """The store's `compare_set` of the key. Raises `RendezvousConnectionError`."""


class C10dRendezvousBackend(StoreRendezvousBackend):
    """Keeps the state under ``farref/rendezvous/<run id>`` in a store of torch's.

    Args:
        store: a `torch.distributed.TCPStore`, or another that has `compare_set`.
        run_id: which run.

    Raises:
        ValueError: the run id is empty.
    """

    def __init__(self, store: Any, run_id: str) -> None:
        super().__init__(run_id)
        self._store = store

    @property
    def name(self) -> str:
        """``c10d``."""
        return "c10d"

    def _compare_set(self, expected: str, value: str) -> bytes:
        try:
            return bytes(self._store.compare_set(self._key, expected, value))
        except Exception as error:
            raise RendezvousConnectionError(
                f"the c10d store cannot be reached: {str(error).splitlines()[0]}"
            ) from error


def tcp_store(
    host: str,
    port: int,
    what: str,
    seconds: float,
    *,
    serve: bool,
    unless: Callable[[], bool] = lambda: False,
) -> Any:
    """A `TCPStore`, which listens with *serve*, else connects; see `network.within`."""
    from torch.distributed import TCPStore  # noqa: PLC0415 - torch loads farref while it loads

    def connect() -> Any:  # when it serves, torch also connects to itself
        timeout = timedelta(seconds=seconds)
        return TCPStore(host, port, is_master=serve, wait_for_workers=False, timeout=timeout)

    return within(seconds + 1, what, connect, unless)


def _state(value: bytes) -> bytes:
    try:
        coded, _ = value.split(b" ")
        return base64.b64decode(coded, validate=True)
    except ValueError as error:
        raise RendezvousStateError(
            f"the stored state of the rendezvous is corrupt: {value[:40]!r}. Maybe another "
            "program uses the same key: use another run id"
        ) from error


def _text(token: Token) -> str:
    """What to compare with, for a token that `get_state` gave; else nothing."""
    try:
        return bytes(token).decode() if isinstance(token, bytes) else ""
    except UnicodeDecodeError:
        return ""

"""The facts of an elected registrar, as keys and bytes: plain data, so the store can run no code.

The class of the actor in an order is not among them: the registrar proxy of the asker has it, and
sends it again. A class that is found in the store all the same is not believed, because somebody
else must have written it.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from thespian.actors import ActorAddress

from ...protocol.dead import Span
from ...protocol.ids import WorkerId
from ...protocol.succession.ledger import Ledger
from ..base.addresses import MAX_PORT, Address, is_address
from .etcd import UnreadableError
from .members import Creating, Host, RegisteredEndpoint
from .tombstones import Tombstone

KINDS: dict[str, Any] = {
    "members": tuple[WorkerId, RegisteredEndpoint],
    "hosts": tuple[str, Host],
    "numbered": tuple[WorkerId, WorkerId],
    "creating": tuple[WorkerId, Creating],
    "dying": tuple[WorkerId, Tombstone],
    "numbers": tuple[str, int],
    "dead": tuple[str, tuple[Span, ...]],
}
"""The tables, and the type of an entry of each: its key and its value."""

WRONG = (ValueError, TypeError, RecursionError)
"""The errors of decoding nonsense."""


def encode(entry: object) -> bytes:
    """An entry as bytes. Raises `TypeError` for a capability that is not plain data."""
    return msgspec.msgpack.encode(entry, enc_hook=_plain)


def decode(table: str, data: bytes) -> tuple[Any, Any]:
    """The entry of *table* in *data*. Raises `UnreadableError`."""
    try:
        key, value = msgspec.msgpack.decode(data, type=KINDS[table], dec_hook=_whole)
    except WRONG as error:
        raise UnreadableError.at(f"in the table {table!r}", error) from error
    return key, _bare(value)


def _bare(value: Any) -> Any:
    """*value* without code: an order that is under way, without the class of the actor."""
    if not isinstance(value, Creating):
        return value
    order = replace(value.order, actor_class=b"", requirements=None, on=None)
    return replace(value, order=order, places=[])


def home_of(address: ActorAddress, versions: dict[str, str]) -> bytes:
    """A candidate's address and versions as bytes, for the store."""
    return msgspec.msgpack.encode((address, versions), enc_hook=_plain)


def read_home(home: bytes) -> tuple[ActorAddress, dict[str, str]]:
    """The address and the versions in *home*. Raises `UnreadableError`."""
    kind = tuple[ActorAddress, dict[str, str]]
    try:
        address, versions = msgspec.msgpack.decode(home, type=kind, dec_hook=_whole)
    except WRONG as error:
        raise UnreadableError.at("in the place of the registrar's address", error) from error
    return address, versions


def _plain(value: object) -> object:
    if isinstance(value, ActorAddress) and isinstance(value.addressDetails, Address):
        there = value.addressDetails
        return there.key, there.path, there.host, there.port
    raise TypeError(f"{value!r} is no plain data: a {type(value).__name__}")


def _whole(kind: type, value: Any) -> object:
    if kind is ActorAddress:
        key, path, host, port = msgspec.convert(value, tuple[str, str, str, int])
        if not key or not 0 <= port <= MAX_PORT or (host and not is_address(host)):
            raise ValueError("an address of nobody")
        return ActorAddress(Address(key, path, host, port))
    raise TypeError(f"no {kind.__name__} was stored")


class Noted(UserDict[Any, Any]):
    """A table that notes each change in a ledger. An entry is changed by setting it again."""

    def __init__(self, name: str, ledger: Ledger, facts: Mapping[str, bytes]) -> None:
        super().__init__()
        self._name = name
        self._ledger = ledger
        known = [data for key, data in facts.items() if key.startswith(f"{name}/")]
        self.data.update(decode(name, data) for data in known)

    def _key(self, key: Any) -> str:
        return f"{self._name}/{key.incarnation if isinstance(key, WorkerId) else key}"

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[key] = value
        self._ledger.change(self._key(key), encode((key, _bare(value))))

    def __delitem__(self, key: Any) -> None:
        del self.data[key]
        self._ledger.change(self._key(key), None)

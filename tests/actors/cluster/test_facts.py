"""An elected registrar's facts are plain data: what strangers write into the store is not run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.cluster.etcd import UnreadableError
from farref.actors.cluster.facts import KINDS, _plain, decode, read_home
from farref.actors.cluster.members import Creating
from farref.actors.wire.messages import Spawn
from farref.protocol.ids import WorkerId


class Bomb:
    """Makes the folder *path* where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.path,)


def test_a_registry_that_holds_nonsense(tmp_path: Path) -> None:
    trap = tmp_path / "exploded"
    for data in (b"", bytes(50), pickle.dumps(Bomb(trap)), msgspec.msgpack.encode((1, 2))):
        for table in KINDS:
            with pytest.raises(UnreadableError):
                decode(table, data)
        with pytest.raises(UnreadableError):
            read_home(data)
    assert not trap.exists()


@pytest.mark.parametrize(
    "address", [(), ("k", "", "", "1"), (1, 2, 3, 4), ("", "", "", 0), ("k", "", "a b", 1), {}, 5]
)
def test_an_address_of_nobody(address: object) -> None:
    with pytest.raises(UnreadableError):
        read_home(msgspec.msgpack.encode((address, {})))


def test_a_thousandfold_nesting() -> None:
    """Capabilities may be any plain data, but not so deep that decoding fails otherwise."""
    with pytest.raises(UnreadableError):
        decode("hosts", b"\x92\xa1h" + b"\x91" * 100_000)


def test_the_class_of_an_order_is_not_believed(tmp_path: Path) -> None:
    """It is a pickle, so farref writes none; one that is there is somebody else's."""
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    address = ActorAddress(Address("asker"))
    order = Spawn(1, bomb, "w", {"gpu": True}, 1, on="h")
    entry = WorkerId("w", 5), Creating(order, address, ["h"], "h")
    written = msgspec.msgpack.encode(entry, enc_hook=_plain)  # as an attacker would
    _, creating = decode("creating", written)
    assert (creating.order.actor_class, creating.order.on, creating.places) == (b"", None, [])
    assert (creating.asker, creating.place, creating.order.token) == (address, "h", 1)

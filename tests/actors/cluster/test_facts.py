"""An elected registrar's facts are plain data: what strangers write into the store is not run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farref.actors.cluster.facts import KINDS, decode, read_home


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
            with pytest.raises(msgspec.DecodeError):
                decode(table, data)
        with pytest.raises(msgspec.DecodeError):
            read_home(data)
    assert not trap.exists()

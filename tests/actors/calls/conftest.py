"""What several tests of calls use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from farref.actors.wire import parcels, rows


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The kinds of messages that this program writes in rows, and its parcels with messages."""
    seen: Counter[str] = Counter()
    encode, pack = rows.encode, parcels.pack

    def encoded(*args: Any) -> bytes | None:
        data = encode(*args)
        if data is not None:
            seen.update(type(each).__name__ for each in args[2].messages)
        return data

    def packed(*args: Any) -> bytes | None:
        seen["parcel"] += bool(args[2].messages)
        return pack(*args)

    monkeypatch.setattr(rows, "encode", encoded)
    monkeypatch.setattr(parcels, "pack", packed)
    return seen

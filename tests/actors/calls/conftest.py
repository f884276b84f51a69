"""What several tests of calls use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from farref.actors.wire import codec
from farref.actors.wire.codec import OtherPart

from ...packets import row_of


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The kinds of messages that this program writes in parts of their own, and all others."""
    seen: Counter[str] = Counter()
    encode = codec.encode

    def encoded(*args: Any) -> Any:
        made = encode(*args)
        for message, part in zip(args[2].messages, row_of(made[0]).parts, strict=True):
            seen["other" if type(part) is OtherPart else type(message).__name__] += 1
        return made

    monkeypatch.setattr(codec, "encode", encoded)
    return seen

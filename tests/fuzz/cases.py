"""Seeded cases: a case's number alone makes it, so each can be run again by itself.

A failing case prints the command that replays it::

    FARREF_FUZZ=sockets/1234 pytest tests/fuzz -k sockets

and ``FARREF_FUZZ_SEED=7`` draws ten thousand others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SEED = os.environ.get("FARREF_FUZZ_SEED", "1")
TIMES = int(os.environ.get("FARREF_FUZZ_TIMES", "1"))
"""A factor for the number of cases."""
ONLY = os.environ.get("FARREF_FUZZ", "")

COUNTS = {
    "sockets": 1600,
    "ports": 300,
    "frames": 1000,
    "handshakes": 600,
    "mailboxes": 1200,
    "registrar": 300,
    "host-agent": 100,
    "protocol lend": 1500,
    "protocol borrow": 1500,
    "protocol fork": 1200,
    "packets": 1500,
    "payloads": 800,
    "traces": 500,
    "rows": 300,
    "directory": 150,
    "arguments": 150,
}
"""The number of cases of each entrance."""


@dataclass(frozen=True)
class Case:
    """One case; a failure inside ``with case:`` prints the command that replays it."""

    entrance: str
    number: int

    def source(self) -> random.Random:
        """The source of all differences between cases."""
        return random.Random(f"{SEED} {self.entrance} {self.number}")

    def __enter__(self) -> random.Random:
        return self.source()

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if error is not None:
            error.add_note(f"replay it: FARREF_FUZZ_SEED={SEED} FARREF_FUZZ={str(self)!r} pytest")

    def __str__(self) -> str:
        return f"{self.entrance}/{self.number}"


def cases(entrance: str) -> Iterator[Case]:
    """The cases of *entrance*, or the one to replay."""
    for number in range(COUNTS[entrance] * TIMES):
        case = Case(entrance, number)
        if ONLY in ("", str(case)):
            yield case


JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 7, 1 << 63, 1 << 64, 1 << 4000, -(1 << 70), 1.5, float("nan"),
    "", "text", "x" * 10_000, "\0\ud800", b"", b"\xff" * 100, (), (1, 2), ((),), [], [1], {},
    {1: 2}, set(), object, int, ..., NotImplemented, range(3), slice(1),
)  # fmt: skip
"""Values that no field is made for."""


class Unspeakable:
    """Raises on every access except to its class."""

    def _no(self, *_: Any) -> Any:
        raise RuntimeError("no words")

    __str__ = __repr__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __getattr__ = _no


def junk(rng: random.Random) -> Any:
    """A value of a wrong type for its place."""
    return Unspeakable() if rng.random() < 0.05 else rng.choice(JUNK)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """*data* with bits flipped, bytes lost, doubled, swapped or made up."""
    bytes_ = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(bytes_) + 1)
        match rng.randrange(5):
            case 0 if at < len(bytes_):
                bytes_[at] ^= 1 << rng.randrange(8)
            case 1:
                del bytes_[at:]
            case 2:
                del bytes_[at : at + rng.randint(1, 9)]
            case 3:
                bytes_[at:at] = rng.randbytes(rng.randint(1, 9))
            case _:
                bytes_[at:at] = bytes_[: rng.randint(0, 40)]
    return bytes(bytes_)

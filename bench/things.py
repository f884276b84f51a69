"""The objects that a peer's workers make and count: the same for every peer that runs functions."""

from __future__ import annotations

from typing import Any, ClassVar


class Thing:
    """An object to refer to; its process knows how many there are."""

    live: ClassVar[int] = 0

    def __init__(self) -> None:
        type(self).live += 1

    def __del__(self) -> None:
        type(self).live -= 1

    def value(self) -> int:
        return 1

    def touch(self, _ref: Any) -> int:
        return 1


def live() -> int:
    return Thing.live


def echo(number: int) -> int:
    """The least that a call can do."""
    return number


def array(size: int) -> Any:
    """A NumPy array of *size* bytes, each of which has been written."""
    import numpy as np  # noqa: PLC0415 (optional)

    return np.ones(size, dtype=np.uint8)


def some_bytes(size: int) -> bytes:
    return b"\x01" * size


def checked(value: Any, size: int) -> None:
    """Check that *value* has *size* bytes and the right last byte."""
    if len(value) != size or int(value[-1]) != 1:
        raise AssertionError(f"{size} bytes came as {len(value)}")


def added_up(value: Any, size: int) -> None:
    """Read every byte of *value*, an array or a tensor, and check the sum."""
    import numpy as np  # noqa: PLC0415 (optional)

    if int(np.asarray(value).sum()) != size:
        raise AssertionError("some bytes are wrong")

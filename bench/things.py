"""What the workers of a peer make, and can count: the same for every peer that runs functions."""

from __future__ import annotations

from typing import Any, ClassVar


class Thing:
    """An object to be referred to; its process knows how many there are."""

    live: ClassVar[int] = 0

    def __init__(self) -> None:
        type(self).live += 1

    def __del__(self) -> None:
        type(self).live -= 1

    def value(self) -> int:
        """Something small."""
        return 1


def live() -> int:
    """How many `Thing` there are in this process."""
    return Thing.live


def echo(number: int) -> int:
    """The least that a call can do."""
    return number


def array(size: int) -> Any:
    """A NumPy array of *size* bytes, each of which has been written."""
    import numpy as np  # noqa: PLC0415 (optional)

    return np.ones(size, dtype=np.uint8)


def checked(value: Any, size: int) -> None:
    """Whether *value* has *size* bytes, and the last one is what it should be."""
    if len(value) != size or int(value[-1]) != 1:
        raise AssertionError(f"{size} bytes came as {len(value)}")


def added_up(value: Any, size: int) -> None:
    """Read every byte of *value*, an array or a tensor, and see whether they are what they were."""
    import numpy as np  # noqa: PLC0415 (optional)

    if int(np.asarray(value).sum()) != size:
        raise AssertionError("some bytes are wrong")

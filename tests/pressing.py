"""A value that is interrupted, as by Ctrl-C, while it is unpickled."""

from __future__ import annotations

from typing import Any

pressed: list[None] = []
"""Each makes one unpickling raise."""


def press() -> int:
    if pressed:
        pressed.pop()
        raise KeyboardInterrupt
    return 1


class Pressing:
    """Raises the `KeyboardInterrupt` while it is unpickled, once for each in `pressed`."""

    def __reduce__(self) -> Any:
        return press, ()

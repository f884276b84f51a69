"""Values that are interrupted, as by Ctrl-C or a deadline, while they are unpickled."""

from __future__ import annotations

import signal
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


rung: list[None] = []
"""Each makes one unpickling run the handler of SIGALRM."""


def ring() -> int:
    if rung:
        rung.pop()
        signal.raise_signal(signal.SIGALRM)
    return 1


class Ringing:
    """SIGALRM comes while it is unpickled, once for each in `rung`."""

    def __reduce__(self) -> Any:
        return ring, ()

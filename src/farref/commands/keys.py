"""Keys from a terminal, one by one, and lines of text at its foot."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "[H": "home", "[F": "end",
    "OA": "up", "OB": "down", "OC": "right", "OD": "left", "OH": "home", "OF": "end",
    "[1~": "home", "[4~": "end", "[5~": "page up", "[6~": "page down", "": "escape",
}  # fmt: skip
TOGETHER = 0.05
"""Seconds within which the parts of one key arrive."""


class Keys:
    """The pressed keys. Made by `keys`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def next(self, timeout: float | None = None) -> str | None:
        """One key: its character, or a name such as ``up``; None after *timeout* seconds.

        The end of the input counts as ``q``.
        """
        if not select.select([self._fd], [], [], timeout)[0]:
            return None
        first = os.read(self._fd, 1)
        if first == b"\x1b":
            return self._named()
        more = {0xC0: 1, 0xE0: 2, 0xF0: 3}
        wanted = next(
            (n for high, n in sorted(more.items(), reverse=True) if first >= bytes([high])), 0
        )
        text = (first + b"".join(os.read(self._fd, 1) for _ in range(wanted))).decode(
            errors="replace"
        )
        return {"": "q", "\r": "enter", "\n": "enter", "\x7f": "back", "\b": "back"}.get(text, text)

    def _named(self) -> str:
        rest = ""
        while select.select([self._fd], [], [], TOGETHER)[0]:
            rest += os.read(self._fd, 1).decode(errors="replace")
            if len(rest) > 1 and (rest[-1].isalpha() or rest[-1] == "~"):
                break
        return NAMES.get(rest, "")


class NoTerminalError(Exception):
    """There is no terminal to read keys from."""


@contextmanager
def keys() -> Iterator[Keys]:
    """The terminal's keys, as they are pressed. Raises `NoTerminalError`."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminalError(
            "stepping needs a terminal, for keys and screen; without one, use "
            "--export html, which steps in a browser"
        )
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield Keys(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)

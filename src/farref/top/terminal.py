"""Draws a picture at each look and at each key, in a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import select
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from rich.console import RenderableType
from rich.live import Live

from ..console import Console
from .screen import TopView

T = TypeVar("T")

STDIN: Final = 0
KEYS = re.compile("\x1b[\\[O](?:[A-Z]|[56]~)|.", re.DOTALL)
"""A key, as a terminal sends it."""
NAMES = {"A": "up", "B": "down", "5~": "page up", "6~": "page down"}


def interact(
    look: Callable[[], tuple[T, float]],
    draw: Callable[[T, int, int], RenderableType],
    view: TopView,
    console: Console,
) -> None:
    """Draw what *look* returns until a key ends it, on a screen of its own.

    *look* also says when the next look is due; *draw* gets the width and the height.
    """
    seen, due = look()
    with _keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw(seen, console.width, console.height), refresh=True)
            for key in keys(max(0.0, due - time.monotonic())):
                if not view.press(key):
                    return
            if time.monotonic() >= due:
                seen, due = look()


@contextlib.contextmanager
def _keyboard() -> Iterator[Callable[[float], list[str]]]:
    """A function that waits at most so many seconds, and returns the keys that were pressed.

    The terminal is as before when the block ends.
    """
    terminals = [STDIN] if os.isatty(STDIN) else []

    def pressed(seconds: float) -> list[str]:
        for terminal in select.select(terminals, [], [], seconds)[0]:
            text = os.read(terminal, 1024).decode(errors="replace") or "q"  # it was closed
            return [NAMES.get(key[2:], key) for key in KEYS.findall(text)]
        return []

    before = [termios.tcgetattr(each) for each in terminals]
    try:
        for each in terminals:
            tty.setcbreak(each)
        yield pressed
    finally:
        for each, attributes in zip(terminals, before, strict=True):
            termios.tcsetattr(each, termios.TCSADRAIN, attributes)

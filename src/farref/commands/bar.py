"""A progress bar for work that turns out to take long.

`bar` is for work that reports its progress, `waiting` for work that cannot: one call, or the wait
for an answer. Both show nothing before `LATE`, and nothing without a terminal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ..console import Console

if TYPE_CHECKING:
    from ..trace import Progress

LATE = 2.0
"""Seconds after which a bar is worth showing."""
SELDOM = 256
"""Steps of the work between two looks at the clock."""


COLUMNS = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """Give the block a function that reports its progress; shown on stderr if the work is late."""
    console = Console(stderr=True)
    begun, shown = time.monotonic(), Bar(*COLUMNS, console=console, transient=True)
    task = shown.add_task(what)
    running = False

    def tell(done: int, whole: int) -> None:
        nonlocal running
        if done % SELDOM:
            return
        if not running and console.is_terminal and time.monotonic() - begun > LATE:
            running = True
            shown.start()
        if running:
            shown.update(task, completed=done, total=whole)

    try:
        yield tell
    finally:
        if running:
            shown.stop()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that the block is running, and for how long; the bar disappears at the end."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    shown = Bar(*COLUMNS, console=console, transient=True)
    shown.add_task(what, total=None)
    late = threading.Timer(LATE, shown.start)
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        shown.stop()

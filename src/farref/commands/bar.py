"""A progress bar for work that turns out to take long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ..console import Console
from ..trace.progress import Progress, silent

LATE = 2.0
"""Seconds after which a bar is worth showing."""
SELDOM = 256
"""Steps of the work between two changes of the bar."""
COLUMNS = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """Show on stderr that the block is running, and for how long, if it is late; in a terminal.

    The block gets a function that reports its progress. Without such reports the bar has no end.
    """
    console = Console(stderr=True)
    if not console.is_interactive:
        yield silent
        return
    shown = Bar(*COLUMNS, console=console, transient=True)
    task = shown.add_task(what, total=None)
    late = threading.Timer(LATE, shown.start)

    def tell(done: int, whole: int) -> None:
        if not done % SELDOM:
            shown.update(task, completed=done, total=whole)

    late.start()
    try:
        yield tell
    finally:
        late.cancel()
        late.join()
        shown.stop()

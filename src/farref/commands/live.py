"""`farref trace` on a running system: the lanes grow until the viewer leaves.

The system records only while this watches, and drops everything it recorded afterwards (see
`farref.actors.inspect.watching`). The viewer keeps only the last steps, so it may watch for any
time.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live

from ..actors.api.system import System
from ..actors.api.viewing import Watching
from ..console import Console, Text, echo
from ..protocol.errors import SystemDownError
from ..trace import TraceError
from ..trace.look import glyphs
from ..trace.records import group, parse
from ..trace.show import window
from ..trace.story import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..trace import Only
    from ..trace.records import Record, Recording

KEPT = 100_000
"""Steps that are kept; beyond, the oldest are dropped."""
DRAWN = 2_000
"""The last steps, from which the live picture is drawn."""
OFTEN = 0.3
"""The least seconds between two pictures."""


def watch(
    name: str, only: Only, seconds: float | None, *, show: Callable[[Record], None] | None
) -> Recording:
    """Watch the system *name* for so many *seconds*, or until Ctrl-C or its end.

    *show* gets each step as it comes; with None the lanes are drawn, if there is a terminal.
    Raises `SystemDownError` if there is no such system.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so SIGTERM leaves in order, too
    console = Console()
    kept: deque[Record] = deque(maxlen=KEPT)
    seen = 0
    end = None if seconds is None else time.monotonic() + seconds
    with System.attach(name) as system, Watching(system) as watching:
        echo(f"watching {name}; Ctrl-C leaves it", err=True)
        drawn = console.is_terminal and show is None
        with Live(console=console, screen=drawn, auto_refresh=False) as live:
            due = 0.0
            try:
                while end is None or time.monotonic() < end:
                    left = OFTEN if end is None else min(OFTEN, max(0.0, end - time.monotonic()))
                    came = watching.lines(left)
                    for record in chain.from_iterable(map(parse, came)):
                        kept.append(record)
                        seen += 1
                        if show is not None:
                            show(record)
                    if drawn and time.monotonic() >= due:
                        begun = time.monotonic()
                        _draw(kept, seen, only, name, live)
                        due = time.monotonic() + max(OFTEN, 3 * (time.monotonic() - begun))
            except (KeyboardInterrupt, SystemDownError):
                pass  # the steps so far are the result
    return _recording(kept, seen, f"{name}, while it was watched.")


def _recording(last: Collection[Record], seen: int, title: str = "") -> Recording:
    """The *last* steps of those that were *seen*."""
    lost = seen - len(last)
    problems = (f"{lost:,} earlier steps were not kept",) if lost else ()
    return group(last, problems, title)


def _draw(kept: deque[Record], seen: int, only: Only, name: str, live: Live) -> None:
    console = live.console
    look = glyphs(console)
    try:
        story = tell(_recording(list(kept)[-DRAWN:], seen), only=only, fold=True)
    except TraceError as error:  # such as a reference that no step has mentioned yet
        live.update(Text(str(error)), refresh=True)
        return
    room = console.height - 4
    first = max(0, len(story.rows) - room)
    heads, rows = window(story, console.width, look, first, len(story.rows))
    lines = [line for row in rows for line in row][-max(1, room - len(heads)) :]
    foot = f" {name}: {seen:,} steps   Ctrl-C leaves it, and ends the recording"
    bar = Text(foot[: console.width].ljust(console.width), style="reverse")
    live.update(Group(*heads, *lines, bar), refresh=True)

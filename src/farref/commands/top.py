"""`farref top`: a running system at a glance, again and again."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import termios
import time
import tty
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.live import Live

from ..console import Console, echo, write_json
from ..protocol.errors import SystemDownError
from ..top.figures import Looks
from ..top.screen import ALL, SORTS, TopView, picture
from .failing import failing
from .refs import PATIENCE, AnswerTimeout, SystemName, attached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..top.figures import Figures

KEYS = re.compile("\x1b[\\[O][A-Z]|.", re.DOTALL)
"""A key, as a terminal sends it."""
ARROWS = {"A": "up", "B": "down"}


def top(
    name: SystemName = None,
    *,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show one picture, and end.")] = False,
    sort: Annotated[
        str, typer.Option(help=f"The order of the endpoints: {', '.join(SORTS)}.")
    ] = "calls/s",
    search: Annotated[str, typer.Option(metavar="TEXT", help="Only rows with this text.")] = "",
    timeout: AnswerTimeout = PATIENCE,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line for each look.")
    ] = False,
) -> None:
    """Show what a running system does: calls, latencies, queues, objects, deaths and errors.

    Keys: / searches, s sorts, Tab shows one table alone, arrows scroll, q ends.
    """  # fmt: skip
    if sort not in SORTS:
        raise typer.BadParameter(f"use one of {', '.join(SORTS)}", param_hint="--sort")
    view, console = TopView(sort=sort, search=search), Console()
    with contextlib.suppress(KeyboardInterrupt), failing("top"), attached(name) as system:
        look = partial(Looks().look, system, every, timeout)
        try:
            if console.is_terminal and not (as_json or once):
                _watch(look, view, console)
                return
            _, due = look()  # the rates are differences
            while True:
                time.sleep(max(0.0, due - time.monotonic()))
                figures, due = look()
                if as_json:
                    write_json(msgspec.to_builtins(figures))
                else:
                    console.print(picture(figures, view, console.width, ALL))
                if once:
                    return
        except SystemDownError as error:
            echo(f"farref top: {error}", err=True)


def _watch(look: Callable[[], tuple[Figures, float]], view: TopView, console: Console) -> None:
    """Draw the picture at each look and at each key, until a key ends it."""
    figures, due = look()
    with _keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(picture(figures, view, console.width, console.height), refresh=True)
            for key in keys(max(0.0, due - time.monotonic())):
                if not view.press(key):
                    return
            if time.monotonic() >= due:
                figures, due = look()


@contextlib.contextmanager
def _keyboard() -> Iterator[Callable[[float], list[str]]]:
    """A function that waits at most so many seconds, and returns the keys that were pressed.

    The terminal is as before when the block ends.
    """
    terminals = [each for each in [sys.stdin.fileno()] if os.isatty(each)]

    def pressed(seconds: float) -> list[str]:
        for terminal in select.select(terminals, [], [], seconds)[0]:
            text = os.read(terminal, 1024).decode(errors="replace") or "q"  # it was closed
            return [ARROWS.get(key[2:], key) for key in KEYS.findall(text)]
        return []

    before = [termios.tcgetattr(each) for each in terminals]
    try:
        for each in terminals:
            tty.setcbreak(each)
        yield pressed
    finally:
        for each, attributes in zip(terminals, before, strict=True):
            termios.tcsetattr(each, termios.TCSADRAIN, attributes)

"""`farref top`: a running system at a glance, again and again."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Annotated

import msgspec
import typer

from ..console import Console, echo, write_json
from ..protocol.errors import SystemDownError
from ..top.figures import Looks
from ..top.screen import ALL, SORTS, TopView, picture
from ..top.terminal import interact
from .failing import failing
from .refs import PATIENCE, AnswerTimeout, SystemName, attached


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
    with contextlib.suppress(KeyboardInterrupt), failing("top"), attached(name, "top") as system:
        look = partial(Looks().look, system, every, timeout)
        try:
            if console.is_terminal and not (as_json or once):
                interact(look, lambda seen, *size: picture(seen, view, *size), view, console)
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

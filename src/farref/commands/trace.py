"""`farref trace`: a recorded trace, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..trace import TraceError, read, show
from .stage import check_suffix, save_story


def trace(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE_OR_FOLDER",
            help="A saved .jsonl, or the folder given as System(trace=...).",
        ),
    ],
    *,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Save it too: .jsonl, .svg or .html."),
    ] = None,
) -> None:
    """Show a recorded trace: a lane per endpoint, arrows between them, the owners' view."""
    if save is not None:
        check_suffix(save)
    try:
        story = read(path)
    except TraceError as error:
        typer.echo(f"farref trace: {error}", err=True)
        raise typer.Exit(1) from error
    if save is not None:
        save_story(story, save)
    show(story, Console())

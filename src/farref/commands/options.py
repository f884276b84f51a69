"""Options that several commands, and the examples, have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..actors.hosting import bases
from ..console import Console, echo
from ..protocol.sharing import Sharing
from ..trace import Story, save, saver
from .bar import bar

PAUSES: dict[bool | None, float] = {True: 0.5, False: 0.0}
"""Seconds between two lines of a trace, with ``--slow`` and ``--fast``."""
PAUSE = 0.04
"""The same in a terminal, without either option."""


def checked_base(name: str | None) -> str | None:
    """*name*, if it is a system base. Raises `typer.BadParameter` if farref does not run on it."""
    if name is not None:
        try:
            bases.check(name)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return name


BaseOption = Annotated[
    str | None,
    typer.Option(
        callback=checked_base,
        help=f"The system base: {', '.join(bases.BASES)}.",
        show_default=False,
    ),
]
SharingOption = Annotated[
    Sharing | None,
    typer.Option(
        "--sharing",
        help="How calls share the references in their arguments; by default as the demo says.",
        show_default=False,
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save the trace: as .jsonl (the steps), .svg or .html.",
    ),
]
PaceOption = Annotated[
    bool | None,
    typer.Option(
        "--slow/--fast",
        help="Show a trace slowly, line by line, or all at once; in a terminal the default is in "
        "between.",
        show_default=False,
    ),
]


def pause_of(slow: bool | None) -> float:
    """Seconds between two lines of a trace. Into a pipe, the default is 0."""
    return PAUSES.get(slow, PAUSE if Console().is_terminal else 0.0)


def check_suffix(path: Path) -> None:
    """Refuse a file name whose suffix is not known, as a mistake on the command line."""
    try:
        saver(path)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--save") from error


def save_story(story: Story, path: Path) -> None:
    """Save *story*, with a bar; see `writing`."""
    with writing(path), bar("saving") as progress:
        save(story, path, progress)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say that the block has written *path*. If it cannot, end the program with exit code 1."""
    try:
        yield
    except OSError as error:
        echo(f"{path} cannot be written: {error.strerror or error}", err=True)
        raise typer.Exit(1) from error
    echo(f"saved {path}", err=True)

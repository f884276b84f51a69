"""The console of the commands: whatever is printed there is printable, and no markup.

Every command prints by this module (ruff refuses rich's own classes and typer's ``echo``). So no
name of another process and no line of a file reaches the terminal raw, also in a command that does
not think of it. Texts are escaped before they are measured, so tables and lanes keep their shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import rich.console
import rich.text
import typer
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from .printable import json_text, printable


class PrintableText(rich.text.Text):
    """One line of text, or a part of it. All that is put into it is escaped."""

    def __init__(self, text: str = "", *args: Any, **options: Any) -> None:
        super().__init__(printable(text), *args, **options)

    def append(self, text: Any, style: Any = None) -> PrintableText:
        """Add *text*."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


class PrintableConsole(rich.console.Console):
    """A terminal or a file. A string is shown as it is: ``[red]`` is five characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> rich.text.Text:
        """*text* as a line, or as lines, for rich."""
        options.update(markup=False, emoji=False, highlight=False)
        return super().render_str(printable(text, lines=True), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The parts of *renderable*; escaped, if it is made of something else than our texts."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, lines=True), segment.style)


if TYPE_CHECKING:  # rich's functions return their own
    from rich.console import Console as Console  # noqa: PLC0414 - exported
    from rich.text import Text as Text  # noqa: PLC0414 - exported
else:
    Console, Text = PrintableConsole, PrintableText


def echo(text: str, *, err: bool = False) -> None:
    """Print *text*, on standard error with *err*. Its further lines are indented.

    So no part of a text can pass for a line of its own.
    """
    typer.echo(printable(text, lines=True).replace("\n", "\n    "), err=err)


def write(text: str) -> None:
    """Print the *text* of an export as it is: its maker has escaped it."""
    typer.echo(text, nl=False)


def write_json(value: Any, indent: int | None = None) -> None:
    """Print *value* as JSON, and the end of the line."""
    typer.echo(json_text(value, indent=indent))

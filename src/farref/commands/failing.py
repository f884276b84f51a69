"""The errors that a command expects: one line on standard error, and exit code 1.

A wrong argument is exit code 2, as typer has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..console import echo
from ..protocol.errors import FarrefError


@contextmanager
def failing(command: str, *more: type[Exception]) -> Iterator[None]:
    """Let a `FarrefError`, or one of *more*, in the block end `farref` *command* with one line."""
    expected: tuple[type[Exception], ...] = (FarrefError, *more)
    try:
        yield
    except expected as error:
        echo(f"farref {command}: {error}", err=True)
        raise typer.Exit(1) from error

"""`farref key` makes the key that the hosts of a system share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..actors.base import keys
from ..console import echo


def key(file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")]) -> None:
    """Make a key for the hosts of a system: 32 random bytes, in a file that only you may read."""
    try:
        keys.make(file)
    except FileExistsError as error:
        echo(f"farref key: {file} exists already, and may be in use; choose another name", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        echo(f"farref key: cannot write {file}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    echo(
        f"{file} holds a new key; only you may read it."
        " Anybody who has it can run code on every host.\n"
        f"copy it to each other host:  scp {file} HOST:\n"
        f"on the first host:           System(host=ADDRESS, key={str(file)!r})\n"
        f"on the others:               farref join ADDRESS --key {file}"
    )

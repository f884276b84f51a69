"""The command `farref`."""

from importlib.metadata import version
from typing import Annotated

import typer

app = typer.Typer(
    name="farref",
    help="Remote references for Thespian actors.",
    add_completion=False,
    no_args_is_help=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farref {version('farref')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Remote references for Thespian actors."""

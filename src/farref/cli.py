"""The command `farref`. Each subcommand is a module of `farref.commands`."""

import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
import typer.core

from .actors.hosting.versions import FARREF
from .commands.dashboard import dashboard
from .commands.debug import debug
from .commands.demo import demo
from .commands.down import down
from .commands.gc import gc
from .commands.join import join
from .commands.metrics import metrics
from .commands.new_key import key
from .commands.ps import ps
from .commands.refs import refs
from .commands.rendezvous import rendezvous
from .commands.run import run
from .commands.top import top
from .commands.trace import trace
from .console import echo
from .printable import printable

UsageError: Any = typer.BadParameter.__base__
"""The error of a wrong command line, which typer shows."""


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        error.message = printable(error.message)
        raise


class _Commands(typer.core.TyperGroup):
    """The commands. A message of typer's shows no argument raw, and flags have no type."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        for command in (self, *self.commands.values()):
            found: Any = command.get_help_option(typer.Context(command))
            for each in (found, *command.params):
                if getattr(each, "is_flag", False):
                    each.metavar = ""
        with _printable_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="farref",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"farref {FARREF}")
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
    """Share objects between Python processes by reference: an object stays where it was made,
    others call it and pass it on, and it is freed when its last holder has gone, killed or not.
    """  # noqa: D205 - one sentence, which README.md and docs/index.md begin with
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # the starter did that
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or a child would have no exit code


def _help(command: Callable[..., None]) -> str:
    """The docstring of *command*, each paragraph as one line: the terminal breaks it."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


for _command in (dashboard, debug, demo, down, gc, join, key, metrics, ps, refs, rendezvous):
    app.command(help=_help(_command))(_command)
# Behind the program's name, options are the program's.
app.command(context_settings={"allow_interspersed_args": False}, help=_help(run))(run)
for _command in (top, trace):
    app.command(help=_help(_command))(_command)

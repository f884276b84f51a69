"""`farref debug`: a terminal for the breakpoints of a running system's workers and actors."""

from __future__ import annotations

from typing import Annotated

import typer

from ..actors.inspect.terminal import Terminal
from ..console import echo, write_json
from ..plurals import some
from ..protocol.errors import WorkerNotFoundError
from .failing import failing
from .refs import PATIENCE, AnswerTimeout, attached, complete_name


def debug(
    worker: Annotated[
        str | None,
        typer.Argument(help="Only breakpoints of this worker or actor.", show_default=False),
    ] = None,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--system",
            metavar="NAME",
            help="The system's name; not needed if only one of yours runs.",
            autocompletion=complete_name,
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Only list the breakpoints where threads stand.")
    ] = False,
    timeout: AnswerTimeout = PATIENCE,
    as_json: Annotated[bool, typer.Option("--json", help="Like --list, as JSON.")] = False,
) -> None:
    """Debug the workers and actors of a running system with pdb, in this terminal.

    It takes the threads that stand at a breakpoint, one after the other, and
    then waits for the next ones, until Ctrl-C or the end of the system.
    """  # fmt: skip
    with failing("debug"), attached(name, "debug") as system:
        endpoint = system.endpoint
        terminal = Terminal(endpoint.core, alone=True, wanted=worker)
        if not (listed or as_json):
            endpoint.debugging.terminal = terminal
        infos = system.workers()
        there = sorted(info.name for info in infos)
        if worker not in {None, *there}:
            raise WorkerNotFoundError(
                f"there is no endpoint {worker} in system {system.name!r}; there are {some(there)}"
            )
        answers = endpoint.inspector.inspect(infos, timeout, rows=False)
        stops = [
            {"worker": info.name, "place": place}
            for info, answer in answers.items()
            for place in (() if answer is None else answer.stops)
        ]
        if as_json:
            write_json(stops, indent=2)
            return
        for each in stops:
            echo(f"{each['worker']} stands at a breakpoint, {each['place']}")
        if listed:
            return
        if worker not in {None, *(each["worker"] for each in stops)} or not stops:
            echo(f"waiting for a breakpoint of {worker or 'any endpoint'}; Ctrl-C leaves")
        try:
            terminal.serve()
        except KeyboardInterrupt:
            return
        if endpoint.core.closed:
            echo(f"{system.name} has ended")

"""`farref rendezvous` serves a meeting place for the agents of `torchrun`, on any machine."""

from __future__ import annotations

import math
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from .. import background
from ..actors.api.system import System
from ..actors.base import addresses
from ..actors.base.errors import InvalidAddress
from ..actors.hosting import launched
from ..actors.rendezvous.starting import NAME
from ..console import echo
from .failing import failing

PORT = 29400
FIRST = 60.0
"""If the service ends by itself, it waits at least so many seconds for the first agent."""
LOOK = 0.5
"""Seconds between two looks at the agents."""


def rendezvous(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS[:PORT]", help=f"This machine's address; the port is {PORT} by default."
        ),
    ],
    *,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The key of all agents; FARREF_KEY by default.",
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End when no agent has been here for so long."),
    ] = None,
) -> None:
    """Serve the rendezvous of torchrun's agents at an address, until it is stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), failing("rendezvous", InvalidAddress, ValueError):
        host, port = addresses.split(address, PORT)
        name = f"rendezvous-{port}-{secrets.token_hex(4)}"
        with System(name=name, host=host, port=port, key=key or launched.key()) as system:
            # The only output: later, its reader may have ended.
            echo(f"agents meet at farref://{addresses.at(host, port)}; Ctrl-C ends it")
            _serve(system, idle)


def _serve(system: System, idle: float | None) -> None:
    """Serve until no agent has been here for *idle* seconds.

    Raises `FarrefError` if the system is lost.
    """

    def used() -> bool:
        here = [w for w in system.workers() if w.id != system.endpoint.core.me]
        return any(not w.name.startswith(NAME) for w in here)

    background.wait_while(used, FIRST, math.inf if idle is None else idle, LOOK)

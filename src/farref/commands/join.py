"""`farref join` makes this machine one more host of a system."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from ..actors.api.system import System
from ..actors.base.certificates import TLS
from ..actors.hosting.bases import DEFAULT
from ..console import echo
from ..protocol.errors import FarrefError
from .options import checked_base


def join(
    first: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS[:PORT]",
            help="The first host's: System(host=, port=). Or etcd://ADDRESS:PORT/NAME, as in "
            "System(name=, registry=).",
        ),
    ],
    *,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="The first host's key."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="This machine's address, if the first host sees a wrong one.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="This machine's port, 1900 by default.")] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="The address that the others must dial, if it is another one: behind NAT, in a "
            "container with a published port, at the end of a tunnel.",
        ),
    ] = None,
    tls: Annotated[
        tuple[Path, Path, Path] | None,
        typer.Option(
            metavar="CERT KEY CA", help="Certificates of an authority of your own: System(tls=)."
        ),
    ] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=TEXT]", help="A capability of this host; may be repeated."),
    ] = None,
    base: Annotated[
        str, typer.Option(callback=checked_base, help="The first host's system base.")
    ] = DEFAULT,
) -> None:
    """Let the system that runs on another machine create workers here, until it ends."""
    # SIGTERM then ends our workers in order, and tells the system.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with System.join(
            first,
            key=key,
            host=host,
            port=port,
            advertise=advertise,
            tls=TLS(*tls) if tls else None,
            base=base,
            capabilities=dict(map(capability_of, capability or [])),
        ) as system:
            here = system.endpoint.core.me.name.partition("@")[2]
            echo(f"{here} is a host of {system.name} at {first}; Ctrl-C leaves it")
            system.serve()
            echo(f"{system.name} has ended")
    except KeyboardInterrupt:
        echo("left")
    except FarrefError as error:
        echo(f"farref join: {error}", err=True)
        raise typer.Exit(1) from error


def capability_of(text: str) -> tuple[str, Any]:
    """The name and the value of a capability, as it is written on the command line."""
    name, given, value = text.partition("=")
    return name, value if given else True

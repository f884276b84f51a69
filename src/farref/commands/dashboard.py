"""`farref dashboard`: a running system in a browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from ..actors.api.system import System
from ..console import echo
from ..hostnames import LOOPBACK, url
from ..protocol.errors import SystemDownError
from .failing import failing
from .metrics import HostNames, check_address
from .refs import PATIENCE, AnswerTimeout, SystemName, attached

LAST = 3
"""Seconds in which the pages hear of the end."""


def dashboard(
    name: SystemName = None,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where it listens. 0: a free port.")
    ] = 0,
    address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where it listens. It does not encrypt: from other machines use an SSH tunnel.",
        ),
    ] = LOOPBACK,
    names: HostNames = None,
    timeout: AnswerTimeout = PATIENCE,
) -> None:
    """Show a running system in a browser: what top and refs --why show.

    It prints its address, and serves until the system ends, or Ctrl-C. Who
    has the address may read everything there, and change nothing.
    """  # fmt: skip
    check_address(address)
    try:
        failed = failing("dashboard", OSError, ModuleNotFoundError)
        with failed, attached(name, "dashboard") as system:
            _serve(system, address, port, names or [], timeout)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _serve(system: System, address: str, port: int, names: Sequence[str], timeout: float) -> None:
    """Serve until the system has ended, or Ctrl-C."""
    try:
        import uvicorn  # noqa: PLC0415 - an optional extra
        from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "it needs the package uvicorn: pip install 'farref[web]'", name=error.name
        ) from error
    from ..dashboard.app import Dashboard  # noqa: PLC0415 - loads asyncio
    from ..dashboard.strangers import AT_ONCE  # noqa: PLC0415

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listening = socket.create_server((address, port), family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        raise OSError(
            f"cannot serve at {address}:{port}: {reason}; choose another --port, and an"
            " --address of this host"
        ) from error
    app = Dashboard(system, [address, *names], timeout)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=app.strangers.meeting(H11Protocol),
            backlog=AT_ONCE,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level="error",  # a stranger could fill the output with its warnings
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=LAST,
        )
    )
    with listening:
        serving = threading.Thread(target=server.run, args=([listening],), daemon=True)
        serving.start()
        echo(f"dashboard of {system.name}: {url(listening)}{app.token}/")
        try:
            system.serve()
            app.ended = f"system {system.name!r} has ended"
        except SystemDownError as error:
            app.ended = str(error)
            echo(f"farref dashboard: {error}", err=True)
        finally:
            app.ended = app.ended or "farref dashboard was stopped"
            server.should_exit = True
            serving.join()

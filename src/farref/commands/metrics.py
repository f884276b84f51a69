"""`farref metrics`: the counters of a running system's endpoints, for Prometheus or people."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

import typer

from ..actors.api.system import System
from ..actors.base.lacks import hint
from ..actors.core.counters import Counters
from ..actors.inspect import metrics as table
from ..actors.inspect.snapshot import count
from ..console import echo, write, write_json
from ..hostnames import LOOPBACK, are_ours, url
from ..protocol.errors import FarrefError, SystemDownError
from .failing import failing
from .refs import PATIENCE, AnswerTimeout, SystemName, attached

SLOW = 10.0
"""Seconds that a client has to send its request."""

HostNames = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A further name of this server that a URL may have, besides its address. "
        "May be repeated.",
    ),
]
"""An option of commands that serve by HTTP."""


def check_address(address: str) -> None:
    """Refuse an empty address to listen at, which means each one of this host."""
    if not address:
        raise typer.BadParameter("it is empty", param_hint="--address")


def metrics(
    name: SystemName = None,
    *,
    serve: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve them by HTTP at /metrics, until the system ends. 0: a free port.",
            show_default=False,
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where --serve listens. Anybody who reaches it may read the metrics.",
        ),
    ] = LOOPBACK,
    names: HostNames = None,
    timeout: AnswerTimeout = PATIENCE,
    as_json: Annotated[bool, typer.Option("--json", help="The counters as JSON.")] = False,
) -> None:
    """Print the metrics of a running system as Prometheus' text, or serve them.

    Each endpoint of the system reports its own. An endpoint that does not
    answer in time has only the sample farref_up, which is 0.
    """  # fmt: skip
    if as_json and serve is not None:
        raise typer.BadParameter("--serve only serves Prometheus' text", param_hint="--json")
    check_address(address)
    try:
        with failing("metrics", OSError), attached(name, "metrics") as system:
            if serve is not None:
                _serve(system, address, serve, timeout, names or [])
                return
            seen = system.name, *_counted(system, timeout)
            if as_json:
                write_json(table.as_dict(*seen), indent=2)
            else:
                write(table.text(*seen))
    except KeyboardInterrupt:
        raise typer.Exit(0 if serve is not None else 130) from None


def _counted(system: System, timeout: float) -> tuple[dict[str, Counters], dict[str, str]]:
    return count(system.endpoint.inspector, timeout, attached=True)


def _serve(system: System, address: str, port: int, timeout: float, names: Sequence[str]) -> None:
    """Serve until the system has ended, or Ctrl-C."""

    def text() -> str:
        return table.text(system.name, *_counted(system, timeout))

    try:
        server = ThreadingHTTPServer(
            (address, port),
            partial(_Handler, text, {address, *names}),
        )
    except OSError as error:
        raise OSError(
            f"cannot serve at {address}:{port}: {error.strerror}; choose another port, or"
            " --serve 0 for a free one, and an --address of this host"
        ) from error
    with server:
        server.daemon_threads = True
        try:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        except RuntimeError as error:
            raise OSError(f"cannot serve: {error}{hint(error)}") from error
        echo(f"serving {url(server.socket)}metrics", err=True)
        try:
            system.serve()
        except SystemDownError as error:
            echo(f"farref metrics: {error}", err=True)
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    """Answers ``GET /metrics``, and nothing else."""

    timeout = SLOW
    server_version = "farref"
    sys_version = ""

    def __init__(self, text: Callable[[], str], names: set[str], *connection: Any) -> None:
        self._text = text
        self._names = names
        super().__init__(*connection)

    def do_GET(self) -> None:
        reached = self.connection.getsockname()[0]
        if not are_ours(self.headers.get_all("Host", ()), reached, self._names):
            self.send_error(
                HTTPStatus.MISDIRECTED_REQUEST,
                "ask by the address of this server, or give farref metrics the --host in your URL",
            )
            return
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")
            return
        try:
            body = self._text().encode()
        except FarrefError as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", table.CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: a scraper comes every few seconds."""

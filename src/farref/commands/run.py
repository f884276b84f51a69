"""`farref run` runs a program on several nodes; the same line starts it on each of them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from ..actors.base import addresses, keys
from ..actors.base.errors import BaseError
from ..actors.base.lacks import hint
from ..actors.base.system import shared_key
from ..actors.cluster import gateway
from ..actors.hosting import launched
from ..launch import launchers, notes
from ..launch.children import NOT_FOUND, NOT_STARTED
from ..launch.errors import FAILED, LaunchError
from ..launch.first import First
from ..launch.options import Options, say
from ..launch.others import Other
from ..protocol.errors import FarrefError
from .join import capability_of

PATIENCE = 300.0
"""Seconds to wait for the other nodes, by default."""
LEAST = 0.1


def run(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="PROGRAM",
            help="The program and its arguments, after --: for example -- python a.py",
        ),
    ],
    *,
    nnodes: Annotated[
        int | None,
        typer.Option(envvar="FARREF_NNODES", help="The number of nodes; most launchers tell it."),
    ] = None,
    node_rank: Annotated[
        int | None,
        typer.Option(envvar="FARREF_NODE_RANK", help="This node's number, 0 for the first."),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            envvar="FARREF_FIRST",
            help=f"The first node, and the port where it gathers the others ({launchers.PORT}).",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The key of all nodes; FARREF_KEY by default."),
    ] = None,
    shared: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="FARREF_SHARED",
            help="A folder that all nodes see: the first leaves its address and a key there. "
            "By default the working folder, under srun and mpirun.",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="This node's address, if the others see a wrong one.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="This node's port in the system; any free one by default.")
    ] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=TEXT]", help="A capability of this node, if not the first."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=LEAST, help="How long to wait for the other nodes."),
    ] = PATIENCE,
    registry: Annotated[
        str,
        typer.Option(
            metavar="etcd://HOST:PORT",
            envvar=launched.REGISTRY,
            help="As System(registry=): hosts outside of the run can join by the system's name. "
            "The run still ends with its program.",
        ),
    ] = "",
    no_kill: Annotated[
        bool, typer.Option("--no-kill", help="Let the program go on when a node is lost.")
    ] = False,
) -> None:
    """Run a program on several nodes: write the same line on each.

    Node 0 runs the program, and its System() spans all nodes. All end together, with the
    program's exit code. srun, mpirun, torchrun and Kubernetes tell each node its number;
    without them, give --nnodes, --node-rank and --first. docs/launch.md has a recipe for each.
    """  # fmt: skip
    try:
        launch = launchers.find(os.environ) if None in (nnodes, node_rank) else launchers.BY_HAND
        launch = launch.with_options(nnodes, node_rank, first)
        _check_registry(registry, launch)
        if launch.nnodes == 1:
            _become(program)
        secret, note = _meeting(launch, key, shared)
        options = Options(
            launch=launch,
            words=program,
            key=secret,
            note=note,
            bind=_bind(launch, note),
            host=None if host is None else addresses.numeric(host),
            port=None if port is None else addresses.checked_port(port),
            capabilities=dict(map(capability_of, capability or [])),
            timeout=timeout,
            registry=registry,
            no_kill=no_kill,
        )
        code = asyncio.run(_run(options))
    except (LaunchError, BaseError, FarrefError) as error:
        say(str(error))
        raise typer.Exit(getattr(error, "code", FAILED)) from error
    except (OSError, RuntimeError) as error:
        if not (advice := hint(error)):
            raise
        say(f"{error}{advice}")
        raise typer.Exit(FAILED) from error
    raise typer.Exit(code)


def _check_registry(registry: str, launch: launchers.Launch) -> None:
    """Raise `LaunchError` if *registry* is not the address of an etcd, or cannot be used."""
    if not registry:
        return
    if launch.nnodes == 1:
        raise LaunchError(
            "--registry is for several nodes; on one, write System(registry=, host=) in the program"
        )
    try:
        gateway.servers(registry)
    except ValueError as error:
        raise LaunchError(str(error)) from error


async def _run(options: Options) -> int:
    return await (Other(options) if options.rank else First(options)).run()


def _become(program: list[str]) -> None:
    """One node needs no agent: this process becomes the program."""
    os.environ[launched.HOSTS] = "1"
    try:
        os.execvp(program[0], program)  # noqa: S606 - the user's own command
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
        say(f"cannot start {program[0]}: {error.strerror}")
        raise typer.Exit(code) from error


def _meeting(
    launch: launchers.Launch, key: Path | None, shared: Path | None
) -> tuple[bytes, Path | None]:
    """The key, and the note in the shared folder, if one is needed for the key or the address.

    Raises:
        LaunchError: the nodes cannot find each other, or have no key.
        FarrefError: FARREF_KEY is not a key.
        BaseError: the key's file has none; see `base.errors`.
    """
    try:
        given = launched.key() if key is None else keys.read(key)
    except OSError as error:
        raise LaunchError(f"cannot read the key {error.filename}: {error.strerror}") from error
    loopback = bool(launch.first) and addresses.is_loopback(launch.first)
    if shared is None and launch.first and (given is not None or loopback):
        return given or shared_key(None, launch.first), None
    if shared is None and not launch.shares:
        raise LaunchError(_missing(launch))
    note = notes.path_in((shared or Path()).absolute(), launch.run)
    return given or keys.new(), note


def _missing(launch: launchers.Launch) -> str:
    if not launch.first:
        return (
            f"the first node's address is missing in {launch.by}; give --first ADDRESS, or --shared"
            " FOLDER if all nodes see one"
        )
    return (
        "the nodes need a shared key, for whoever can join can run code on all of them: make one"
        " with `farref key FILE`, copy it to each node, and give --key FILE or set FARREF_KEY; or"
        " give --shared FOLDER if all nodes see one"
    )


def _bind(launch: launchers.Launch, note: Path | None) -> str:
    """The first agent listens at loopback only, if that is the address that the user gave."""
    return launch.first if not note and addresses.is_loopback(launch.first) else ""

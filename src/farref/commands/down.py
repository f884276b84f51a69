"""`farref down` ends a system from outside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..actors.api.stay import ALONE
from ..actors.api.system import System
from ..actors.hosting import directory, processes
from ..actors.hosting.bases import BASES, OBJECT
from ..console import echo
from ..protocol.errors import FarrefError, SystemDownError
from .bar import bar
from .failing import failing
from .refs import SystemName, only_system

PATIENCE = 2.0
"""Seconds for the processes of a system that does not answer, before they are killed."""


def down(
    name: SystemName = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="End all systems of this machine.")] = False,
) -> None:
    """End a system that was started on this machine, with all its workers on all hosts.

    Without a name, it ends the only one that runs, and does not ask; if several run,
    it ends none.

    The program that started it goes on, and gets SystemDownError. A system with a
    registry ends on all hosts, too, whichever of them began. To end one machine's
    part of a system, stop `farref join`, or the program, there.
    """  # fmt: skip
    if every and name is not None:
        raise typer.BadParameter("name a system, or use --all", param_hint="--all")
    with failing("down"):
        running = directory.entries()
        for each in sorted(running) if every else [_chosen(name, running)]:
            with bar(f"ending {each}"):
                killed = _end(each, running[each])
            echo(f"{each} has ended")
            for line in killed:
                echo(f"farref down: {line}", err=True)


def _chosen(name: str | None, running: dict[str, dict[str, Any]]) -> str:
    name = only_system() if name is None else name
    if name not in running:
        for entry in directory.hosts():
            if entry["system"] == name:
                raise SystemDownError(
                    f"this machine has joined {name} at {entry['first']}: end it by `farref down` "
                    f"on the host that began it; to leave it, stop process {entry['pid']}"
                )
        raise directory.not_running(name, running)
    return name


def _end(name: str, entry: dict[str, Any]) -> list[str]:
    """End the system in order, or kill its processes if it does not answer."""
    base = entry["base"]
    if base == OBJECT or (base in BASES and not BASES[base].processes):
        raise SystemDownError(
            f"system {name!r} runs inside one program, process {entry['pid']}; end that program"
        )
    try:
        return System.attach(name).end()
    except FarrefError:
        if "session" not in entry:
            raise
    killed = processes.end(entry["session"], PATIENCE)
    directory.remove(name, **entry)
    return [*killed, ALONE] if entry.get("registry") else killed

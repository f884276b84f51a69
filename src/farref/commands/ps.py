"""`farref ps` lists the systems of this machine, and their processes."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import psutil
import typer
from rich.table import Table

from ..actors.base import addresses
from ..actors.hosting import directory, processes
from ..actors.inspect.why import seconds_text, size_text
from ..console import Console, Text, echo, write_json
from ..refs.table import QUIET
from .failing import failing

TITLE = "farref: "
"""The beginning of the names of a system's processes."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process of a system."""

    pid: int
    name: str
    """Its endpoint or its part; for a program, its command line."""
    memory: int
    """Bytes in main memory, those that it shares with others included."""
    cpu: float
    """Seconds of computing."""
    age: float
    """Seconds since its start."""


@dataclass(frozen=True, slots=True)
class SystemRow:
    """This machine's part of a system."""

    system: str
    role: str
    """``first``: the program that started the system is here. ``joined``: it is elsewhere."""
    base: str
    address: str
    """This machine's, for the other hosts; empty if the system has one host only."""
    first: str
    """The address of the first host, if this one has joined."""
    pid: int
    """The process of the program that started the system, or that joined."""
    processes: list[ProcessRow]
    """The program's first."""


def ps(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False
) -> None:
    """List the systems of this machine, and their processes.

    Only your own. Names of workers are cut after seven letters, unless the package
    setproctitle is installed.
    """  # fmt: skip
    with failing("ps"):
        rows = look()
    if as_json:
        write_json([asdict(row) for row in rows], indent=2)
    elif rows:
        Console().print(_table(rows))
    else:
        echo("no system of yours runs on this machine")


def look() -> list[SystemRow]:
    """The systems of this machine. Raises `FarrefError` if their folder is not safe."""
    found = []
    for name, entry in directory.entries().items():
        door = entry.get("door", {})
        address = addresses.at(door["host"], door["port"]) if "host" in door else ""
        found.append(_row(name, "first", address, "", entry))
    found += [
        _row(entry["system"], "joined", entry["host"], entry["first"], entry)
        for entry in directory.hosts()
    ]
    return found


def _row(name: str, role: str, address: str, first: str, entry: dict[str, Any]) -> SystemRow:
    pid = entry["pid"]
    try:
        here = [psutil.Process(pid)]
        session = entry.get("session")  # none yet, if the system is just being started
        if session is not None and session != os.getsid(pid):  # an in-process system's is its own
            pids = [each.pid for each in processes.members(session)]
            here += [psutil.Process(each) for each in pids if each != pid]
    except (OSError, psutil.Error):
        here = []
    told = [row for each in here if (row := _process(each)) is not None]
    return SystemRow(name, role, entry["base"], address, first, pid, told)


def _process(process: psutil.Process) -> ProcessRow | None:
    """The row of *process*; None if it has ended."""
    try:
        with process.oneshot():
            name, line, times = process.name(), process.cmdline(), process.cpu_times()
            if line and line[0].startswith(TITLE):  # setproctitle has overwritten it
                name = line[0].partition(" (")[0]
            shown = name.removeprefix(TITLE) if name.startswith(TITLE) else " ".join(line) or name
            memory, age = process.memory_info().rss, time.time() - process.create_time()
            return ProcessRow(process.pid, shown, memory, times.user + times.system, age)
    except psutil.Error:
        return None


def _table(rows: list[SystemRow]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
    for title in ("system", "host", "pid", "process", "memory", "cpu", "age"):
        table.add_column(
            title,
            header_style=QUIET,
            justify="right" if title in {"pid", "memory", "cpu", "age"} else "left",
            no_wrap=True,
            ratio=1 if title == "process" else None,  # it gives way to the others
        )
    for row in rows:
        where = row.address + (f" joined {row.first}" if row.first else "")
        for number, process in enumerate(row.processes):
            head = (Text(row.system, style="bold"), Text(where)) if number == 0 else ("", "")
            table.add_row(
                *head,
                str(process.pid),
                Text(process.name),
                size_text(process.memory),
                f"{process.cpu:.1f} s",
                seconds_text(process.age),
            )
    return table

"""The folder in which programs find running systems by name. Only the user may enter it.

Each running system has one small file there, written when it starts and removed when it ends. The
file has all that another program of the same user needs to join.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ...protocol.errors import SystemDownError
from ..base import rundir
from ..base.errors import BaseError
from ..base.lives import Watched

DOORS = (
    {"Admin Port", "Convention Address.IPv4"},
    {"host", "port", "key", "advertise", "tls"},
)
"""The keys of the address in an entry, in either of its forms."""
HOSTS = "*.host"
"""The files of `add_host`."""
START_PATIENCE = 10.0
"""The most seconds from a system's entry until programs can join it."""


def folder() -> Path:
    """The folder, made if need be; see `base.rundir`.

    Raises:
        SystemDownError: no folder exists that only the user may enter.
    """
    try:
        return rundir.private_directory()
    except BaseError as error:
        raise SystemDownError(str(error)) from error


def add(name: str, entry: dict[str, Any]) -> None:
    """Make the system *name* known. Raises `SystemDownError` if one of that name runs."""
    path = _path(name)
    sweep()
    draft = _draft(path, entry)
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise SystemDownError(
            f"a system named {name!r} runs already; attach to it with System.attach({name!r})"
        ) from error
    finally:
        draft.unlink()


def sweep() -> None:
    """Remove the entries of systems and hosts that were killed, and their sockets.

    Each program that starts a system, or looks for one, calls this, and only one at a time does so:
    otherwise one might read an old entry, and remove it after another program has given its name to
    a new system.
    """
    with rundir.claiming(folder()):
        for kind in ("*.json", HOSTS):
            for path in folder().glob(kind):
                if not _runs(path):
                    path.unlink(missing_ok=True)
        rundir.sweep(folder())


def entries() -> dict[str, dict[str, Any]]:
    """The entries of the running systems, by name. Damaged ones are left out."""
    found = {}
    for name in names():
        with contextlib.suppress(SystemDownError, FileNotFoundError):  # damaged, or it ended
            found[name] = _whole(_path(name))
    return found


def add_host(entry: dict[str, Any]) -> Path:
    """Note that the program of *entry* has made this machine a host of another's system.

    The caller unlinks the returned file at its end. Only `hosts` reads it.
    """
    path = folder() / f"host-{entry['pid']}-{os.urandom(4).hex()}.host"
    _draft(path, entry).replace(path)
    return path


def hosts() -> list[dict[str, Any]]:
    """The entries that `add_host` made, of programs that run. It removes the others."""
    sweep()
    found = []
    for path in sorted(folder().glob(HOSTS)):
        with contextlib.suppress(OSError, ValueError):  # it has just ended
            found.append(_read(path))
    return found


def replace(name: str, entry: dict[str, Any]) -> None:
    """Replace the entry of the system *name*, which this program added."""
    path = _path(name)
    _draft(path, entry).replace(path)


def names() -> list[str]:
    """The names of the running systems. Entries of other systems are removed."""
    sweep()
    return sorted(path.stem for path in folder().glob("*.json"))


def find(name: str) -> dict[str, Any]:
    """The data to join *name*. Raises `SystemDownError` if no such system runs."""
    path = _path(name)
    if name not in (running := names()):
        raise not_running(name, running)
    end = time.monotonic() + START_PATIENCE
    try:
        while "door" not in (entry := _whole(path)):
            if time.monotonic() > end:
                raise SystemDownError(f"system {name!r} did not start in {START_PATIENCE:g} s")
            time.sleep(0.02)
    except FileNotFoundError:
        raise SystemDownError(f"system {name!r} has just ended") from None
    return entry


def has(name: str, **mine: Any) -> bool:
    """Whether there is an entry of the system *name* that has all that *mine* has."""
    path = _path(name)
    with contextlib.suppress(FileNotFoundError, ValueError):
        return mine.items() <= _read(path).items()
    return False


def still_has(name: str, entry: dict[str, Any]) -> bool:
    """Whether the system of *entry*, which was found as *name*, still runs."""
    pid, started = entry.get("pid"), entry.get("started")
    return has(name, pid=pid, started=started) and _runs(_path(name))


def not_running(name: str, running: Iterable[str]) -> SystemDownError:
    """The error if *name* is not among the *running* systems."""
    others = ", ".join(sorted(running)) or "none"
    return SystemDownError(f"no system named {name!r} runs; your running systems: {others}")


def at(host: str, port: int) -> str | None:
    """The name of the running system that other hosts reach at *host* and *port*, or None."""
    for path in folder().glob("*.json"):
        with contextlib.suppress(SystemDownError, FileNotFoundError):  # damaged, or it ended
            door = _whole(path).get("door", {})
            if (door.get("host"), door.get("port")) == (host, port) and _runs(path):
                return path.stem
    return None


def _whole(path: Path) -> dict[str, Any]:
    """The entry that `System` wrote. Raises `SystemDownError` if it has been damaged since."""
    try:
        entry = _read(path)
        door = entry.get("door", {})
        right = isinstance(entry["base"], str) and isinstance(door, dict)
        if not right or not any(set(door) <= doors for doors in DOORS):
            raise ValueError("it is no entry of a system")  # noqa: TRY301 - handled below
    except (ValueError, KeyError, TypeError) as error:
        raise SystemDownError(
            f"the file {path} is damaged, so nobody can join system {path.stem!r}; start it again"
        ) from error
    return entry


def _read(path: Path) -> dict[str, Any]:
    entry: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    return entry


def remove(name: str, **mine: Any) -> None:
    """Remove the entry of the system *name*, which has ended, if it has all that *mine* has.

    Otherwise it is that of a new system, which has the name by now.
    """
    with rundir.claiming(folder()):
        if has(name, **mine):
            _path(name).unlink(missing_ok=True)


def _draft(path: Path, entry: dict[str, Any]) -> Path:
    """Write *entry* to a file beside *path*, so that no reader finds half of it at *path*."""
    draft = rundir.draft(path.parent)
    draft.touch(mode=0o600)  # it may hold a key
    draft.write_bytes(msgspec.json.encode(entry))
    return draft


def _path(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise ValueError(
            f"a system's name must be 1 to 64 letters, digits, '.', '_' or '-', not {name!r}"
        )
    return folder() / f"{name}.json"


def _runs(path: Path) -> bool:
    try:
        entry = _read(path)
        return bool(entry["pid"] == os.getpid() or Watched(entry["pid"], entry["started"]).alive())
    except (OSError, ValueError, KeyError, TypeError):
        return False

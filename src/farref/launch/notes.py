"""The note of the first node: a file in a shared folder, with its addresses and the key.

Only this user may read it. The first agent removes it at the end. A note that a killed run left is
replaced; a node that reads the old one dials in vain, and reads again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ..actors.base import keys
from .errors import LaunchError


@dataclass(frozen=True, slots=True)
class RunNote:
    """The addresses of the first node, the port of its agent, and the key."""

    addresses: tuple[str, ...]
    port: int
    key: bytes


def path_in(folder: Path, run: str) -> Path:
    return folder / f".farref-run-{hashlib.sha256(run.encode()).hexdigest()[:12]}"


def write(path: Path, note: RunNote) -> None:
    """Write *note*. Raises `LaunchError` if there is another user's file, or no folder."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    content = {"addresses": note.addresses, "port": note.port, "key": note.key.hex()}
    try:
        keys.write(draft, json.dumps(content).encode())
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise LaunchError(
            f"cannot write {path} for the other nodes: {error.strerror}; name a folder that all"
            " nodes see with --shared"
        ) from error


def read(path: Path) -> RunNote | None:
    """The note, or None while there is none. Raises `LaunchError` if others may know the key."""
    try:
        # NFS looks a missing name up again only after the folder has been opened.
        with os.scandir(path.parent):
            pass
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise LaunchError(f"other users may read {path}, with the key; use --key instead")
            content = json.load(file)
        return RunNote(tuple(content["addresses"]), content["port"], bytes.fromhex(content["key"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

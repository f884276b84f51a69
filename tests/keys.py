"""Keys of systems of several hosts."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def key_file(path: Path) -> Path:
    """Make a key at *path*, as an administrator may do it by hand; returns *path*."""
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(), encoding="ascii")
    return path

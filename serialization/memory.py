"""The free memory of a process: of the machine, and of its control groups.

Linux lets a process write more than there is memory for, and then kills some process. So farref
looks before it takes much, where there is ``/proc``. A look reserves nothing: two processes that
look at once may both be told that there is room.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

GROUPS = Path("/sys/fs/cgroup")


class _Version(msgspec.Struct, frozen=True):
    """The files of one version of control groups."""

    root: Path
    limit: str
    used: str
    reclaimable: str
    """The field in ``memory.stat`` with memory that only caches files."""


_V2 = _Version(GROUPS, "memory.max", "memory.current", "inactive_file")
_V1 = _Version(
    GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
)


def available() -> int:
    """Bytes that this process can still use; a very large number if the kernel does not say.

    Swap does not count.
    """
    return min(_machine(), _groups())


def _machine() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    known = dict(line.split(":", 1) for line in lines)
    return int(known["MemAvailable"].split()[0]) << 10 if "MemAvailable" in known else sys.maxsize


def _groups() -> int:
    """The free bytes in the fullest of this process's control groups and their parents."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return sys.maxsize
    left = sys.maxsize
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        version = _V1 if kinds else _V2
        folder = version.root / path.lstrip("/")
        if not folder.is_dir():  # a container sees only its own group, as the root
            folder = version.root
        while folder.is_relative_to(version.root):
            left = min(left, _left(folder, version))
            folder = folder.parent
    return left


def _left(folder: Path, version: _Version) -> int:
    try:
        limit = (folder / version.limit).read_text(encoding="ascii").strip()
        if limit == "max":
            return sys.maxsize
        used = int((folder / version.used).read_text(encoding="ascii"))
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        stat = dict(line.split(" ", 1) for line in lines)
        return max(0, int(limit) - used + int(stat.get(version.reclaimable, "0")))
    except (OSError, ValueError):
        return sys.maxsize  # the group does not limit memory, or is not visible

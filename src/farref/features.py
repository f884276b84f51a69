"""The features of the operating system, by feature and not by the system's name.

``has("pidfd")`` is true if there are pidfds, and every use of one asks for that.  If a feature is
missing, a replacement is used.  So our own base runs on every system with Unix sockets that report
the user at their other end: on Linux, on macOS, on the BSDs.

**Only Linux was tried.**  The replacement of a feature is tested there, with the feature switched
off: ``FARREF_WITHOUT=all``, or some names with commas between them, in the environment of a
program; its processes inherit it.  That variable is for tests.
"""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import struct
from pathlib import Path
from typing import Any, Final

if importlib.util.find_spec("fcntl") is None:
    raise ImportError(
        "farref needs a POSIX system such as Linux or macOS, and this one has no module fcntl."
        " On Windows use WSL"
    )

SWITCH: Final = "FARREF_WITHOUT"
_off = frozenset(filter(None, os.environ.get(SWITCH, "").split(",")))


def _getpeereid() -> Any:
    """The function of the C library of macOS and the BSDs; None if it is not needed."""
    if hasattr(socket, "SO_PEERCRED") and not _off & {"all", "peercred"}:
        return None
    import ctypes  # noqa: PLC0415 - Linux needs none

    try:
        return ctypes.CDLL(None, use_errno=True).getpeereid
    except (OSError, AttributeError):
        return None


_peereid: Final = _getpeereid()
_THERE: Final = {
    "affinity": hasattr(os, "sched_getaffinity"),
    "epoll": hasattr(select, "epoll"),
    "eventfd": hasattr(os, "eventfd"),
    "memfd": hasattr(os, "memfd_create"),
    "peercred": hasattr(socket, "SO_PEERCRED"),
    "peereid": _peereid is not None,
    "pidfd": hasattr(os, "pidfd_open"),
    "procfs": Path("/proc/self/stat").exists(),
    "tcp patience": hasattr(socket, "TCP_USER_TIMEOUT"),
}
"""Whether each feature exists.

``peercred`` is Linux's way to learn the user at the other end of a Unix socket, ``peereid`` that of
macOS and the BSDs.  ``procfs`` is Linux's ``/proc``.
"""
LINUX_ONLY: Final = frozenset(_THERE) - {"peereid"}
if "all" in _off:
    _off = LINUX_ONLY
if _off - set(_THERE):
    raise ValueError(f"{SWITCH} may name {', '.join(_THERE)}, not {', '.join(_off - set(_THERE))}")
_HAS: Final = {name: there and name not in _off for name, there in _THERE.items()}
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


def has(name: str) -> bool:
    """Whether the feature *name* exists, and is not switched off."""
    return _HAS[name]


def knows_peers() -> bool:
    """Whether Unix sockets report the user at their other end."""
    return hasattr(socket, "AF_UNIX") and (has("peercred") or has("peereid"))


def peer_uid(sock: socket.socket) -> int:
    """The uid of the process at the other end of a Unix socket, as the kernel knows it.

    Raises OSError if the other end has gone, and the kernel does not know any more.
    """
    if has("peercred"):
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(raw)[1]
        return uid
    import ctypes  # noqa: PLC0415 - as above

    found, group = ctypes.c_uint(), ctypes.c_uint()
    if _peereid(sock.fileno(), ctypes.byref(found), ctypes.byref(group)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found.value


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if has("affinity") else os.cpu_count() or 1

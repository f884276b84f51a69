"""The names of a system's processes in `top` and `ps`.

The kernel keeps 15 bytes of a name, which `top` and ``ps -o comm`` show: ``farref: B``. `ps` shows
the command line too. The package setproctitle, if it is installed, overwrites that with the whole
name and the system's: ``farref: B (system-1a2b)``. Where there is no ``/proc``, only this is done.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from ...features import has

COMM = 15
"""Bytes of a name that Linux keeps."""


@functools.cache
def _setproctitle() -> Callable[[str], None] | None:
    """The package's function.  Forked processes inherit the result, and search no more for it."""
    try:
        from setproctitle import setproctitle  # noqa: PLC0415 - an optional extra
    except ImportError:
        return None
    show: Callable[[str], None] = setproctitle
    return show


def name_process(role: str, system: str = "") -> None:
    """Name this process after its *role* and, if it is known, its *system*.  Any thread."""
    name = f"farref: {role}"
    if (show := _setproctitle()) is not None:
        show(f"{name} ({system})" if system else name)
    if has("procfs"):
        # By way of /proc any thread names the process; prctl would name only the calling thread.
        with contextlib.suppress(OSError):
            whole = name.encode()[:COMM].decode(errors="ignore")  # no half of a letter
            with open("/proc/self/comm", "w", encoding="utf-8") as file:
                file.write(whole)

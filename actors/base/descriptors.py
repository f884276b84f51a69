"""How many files a process may have open, sockets among them.

The soft limit is mostly 1,024, for the sake of programs that use ``select()``.  The hard limit, up
to which every process may raise it, is far higher.  A registrar needs four descriptors for each
worker, and a program two for each that it calls.
"""

from __future__ import annotations

import resource
from typing import Final

ENOUGH: Final = 1 << 16


def raise_limit() -> None:
    """Raise this process's soft limit as far as it makes sense; its children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

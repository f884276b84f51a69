"""What to do if a process gets no more descriptors, threads, processes or disk space.

The soft limit of descriptors is mostly 1,024, for the sake of programs that use ``select()``.  The
hard limit, up to which every process may raise it, is far higher.  A registrar needs four
descriptors for each worker, and a program two for each that it calls.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Final

from thespian.actors import InvalidActorSpecification

ENOUGH: Final = 1 << 16
"""Descriptors of a process."""


def raise_limit() -> None:
    """Raise this process's soft limit as far as it makes sense; its children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def hint(error: BaseException) -> str:
    """Advice about *error*, to append to its text; empty for an error of another kind."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, InvalidActorSpecification) and os.strerror(errno.EAGAIN) in str(error):
        number = errno.EAGAIN  # the admin's error, as text
    if number in {errno.EMFILE, errno.ENFILE}:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"; the limit of open descriptors is {soft}, and cannot be raised above {hard} from "
            "here: raise that (`ulimit -n`, or `LimitNOFILE=` of systemd), or have fewer workers"
        )
    if number == errno.EAGAIN or error.args == ("can't start new thread",):
        return "; raise the limit of the user (`ulimit -u`) or of the container (`pids.max`)"
    if number in {errno.ENOSPC, errno.EDQUOT}:
        return "; free some space there, or set `XDG_RUNTIME_DIR` to a folder on another disk"
    return ""

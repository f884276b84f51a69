"""What to do if the machine lets a process have no more descriptors, threads, processes or disk."""

from __future__ import annotations

import errno
import os
import resource

from thespian.actors import InvalidActorSpecification


def hint(error: BaseException) -> str:
    """What to do about *error*, if it is about such a want; else empty."""
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

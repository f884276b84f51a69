"""What a new actor has from the process that asks for it: variables, folder, path, log levels.

The processes of a system are made by its admin, which is as old as the system. So whoever asks for
an actor tells it what has changed since then.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from ..hosting import logs, processes
from ..wire.messages import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

Variables: TypeAlias = "Mapping[str, str | None]"
"""Variables of the environment, by name; None removes one."""
Folder: TypeAlias = "str | os.PathLike[str]"


def of_this_process(env: Variables | None, cwd: Folder | None, *, apart: bool) -> Surroundings:
    """The surroundings of this process, with the user's choices. *apart*: for other processes.

    Raises:
        TypeError: a variable is not a string, or *cwd* is not a path.
        ValueError: an actor shares this process, which has these things once only.
    """
    given: dict[Any, Any] = dict(env or {})
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str | None)):
            raise TypeError(f"env must have texts, or None to remove one, not {name!r}: {value!r}")
    if not apart and (env or cwd is not None):
        raise ValueError("on simpleSystemBase a worker has the program's own env and cwd")
    try:
        folder: str | None = os.getcwd()
    except OSError:  # it has been removed
        folder = None
    return Surroundings(
        processes.host(),
        dict(os.environ),
        folder,
        list(sys.path),
        given,
        None if cwd is None else os.path.join(folder or "", os.fspath(cwd)),
        logs.levels(),
    )


def take_over(them: Surroundings) -> None:
    """Give this new process these surroundings. Raises `OSError` if it cannot enter the folder.

    On another host it takes only the levels, and what was chosen.
    """
    logs.set_levels(them.levels)
    if them.host == processes.host():
        for name in os.environ.keys() - them.environ.keys():
            del os.environ[name]
        os.environ.update(them.environ)
        sys.path[:] = them.path
        if them.folder is not None:
            with contextlib.suppress(OSError):  # it has just been removed
                os.chdir(them.folder)
    for name, value in them.env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if them.cwd is not None:
        os.chdir(them.cwd)

"""What a new actor has from the process that asks for it: variables, folder, path, log levels.

The processes of a system are made by its admin, which is as old as the system. So whoever asks for
an actor tells it what has changed since then.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..hosting import logs, processes
from ..wire.messages import Surroundings

Variables: TypeAlias = "Mapping[str, str | None]"
"""Variables of the environment, by name; None removes one."""
Folder: TypeAlias = "str | os.PathLike[str]"


def of_this_process(
    env: Variables | None, cwd: Folder | None, *, apart: bool
) -> Surroundings | None:
    """The surroundings of this process, with the user's choices, if actors are processes *apart*.

    Raises:
        TypeError: a variable is not a string, or *cwd* is not a path.
        ValueError: an actor shares this process, which has these things once only.
    """
    given: dict[Any, Any] = dict(env or {})
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str | None)):
            raise TypeError(f"env must have texts, or None to remove one, not {name!r}: {value!r}")
    if not apart:
        if env or cwd is not None:
            raise ValueError("on simpleSystemBase a worker has the program's own env and cwd")
        return None
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
    environ = dict(os.environ)
    if them.host == processes.host():
        environ = them.environ
        sys.path[:] = them.path
        if them.folder is not None:
            with contextlib.suppress(OSError):  # it has just been removed
                os.chdir(them.folder)
    chosen = {name: value for name, value in (environ | them.env).items() if value is not None}
    for name in os.environ.keys() - chosen.keys():
        del os.environ[name]
    os.environ.update(chosen)
    if them.cwd is not None:
        os.chdir(them.cwd)

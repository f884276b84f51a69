"""What a new worker has from its creator's process: variables, folder, search path, log levels.

The processes of a system are made by its admin, which is as old as the system. So the creator tells
the worker what has changed since then, before anybody else can know the worker.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from ..hosting import logs, processes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..handles.front import Front
    from ..wire.messages import WorkerInfo

Variables: TypeAlias = "Mapping[str, str | None]"
"""Variables of the environment, by name; None removes one."""
Folder: TypeAlias = "str | os.PathLike[str]"


def check(env: Variables | None, cwd: Folder | None, *, apart: bool) -> None:
    """Check the user's choices. *apart*: whether a worker is a process of its own.

    Raises:
        TypeError: a variable is no text, or *cwd* no path.
        ValueError: a worker shares the program's process, which has these things once only.
    """
    given: dict[Any, Any] = dict(env or {})
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str | None)):
            raise TypeError(f"env must have texts, or None to remove one, not {name!r}: {value!r}")
    if cwd is not None:
        os.fspath(cwd)
    if not apart and (env or cwd is not None):
        raise ValueError("on simpleSystemBase a worker has the program's own env and cwd")


def hand_over(front: Front, worker: WorkerInfo, env: Variables | None, cwd: Folder | None) -> None:
    """Have the new *worker* take this process's surroundings, changed by *env* and *cwd*. Blocks.

    Raises the errors of a call; `OSError` if the worker cannot enter *cwd*.
    """
    try:
        folder: str | None = os.getcwd()
    except OSError:  # it has been removed
        folder = None
    mine = processes.host(), dict(os.environ), folder, list(sys.path)
    chosen = dict(env or {}), None if cwd is None else os.fspath(cwd)
    what: Any = _take_over, (mine, chosen, logs.levels()), {}
    taken = front.calls.call(worker, what, None, ())
    front.core.port.wait(taken, front.core.settings.timeout)
    taken.result()


def _take_over(
    theirs: tuple[str, dict[str, str], str | None, list[str]],
    chosen: tuple[dict[str, str | None], str | None],
    levels: dict[str, int],
) -> None:
    """Runs at the worker. On another host it takes only the levels, and what was chosen."""
    logs.set_levels(levels)
    (host, environ, folder, path), (changes, cwd) = theirs, chosen
    if host == processes.host():
        for name in os.environ.keys() - environ.keys():
            del os.environ[name]
        os.environ.update(environ)
        sys.path[:] = path
        if folder is not None:
            with contextlib.suppress(OSError):  # it has just been removed
                os.chdir(folder)
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if cwd is not None:
        os.chdir(cwd)

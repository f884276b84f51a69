"""New processes get the program's modules as they are on disk now.

Thespian forks each actor from the process that creates it, and the child inherits all modules that
are loaded there. A module that was edited since then would stay old in it. So before the registrar
or a host agent creates an actor, it drops the modules with changed files, and the modules that
imported something from these. Whoever needs one imports it again. The same goes for the class of
the actor itself.

Modules of Python, installed packages, and farref's own are never dropped.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

Mark = tuple[int, int] | None

_KEPT = ("__main__", "__mp_main__")
_INSTALLED = ("site-packages", "dist-packages")


class Modules:
    """The program's modules that are loaded in this process."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[str, Mark]] = {}
        """By name: the file, and its time and size when the module was first met here."""
        self._newest = ""
        """The module that was last when `note` looked: later ones are new."""
        self.note()

    def note(self) -> None:
        """Remember the state of the files of all modules that are new here.

        It touches no others.  What a parent touches after a fork is no longer shared with the
        children that it has forked.
        """
        for name in list(takewhile(lambda each: each != self._newest, reversed(sys.modules))):
            if name not in self._marks and (path := _file_of(name, sys.modules.get(name))):
                self._marks[name] = path, _mark(path)
        self._newest = next(reversed(sys.modules))

    def renew(self) -> None:
        """Drop the modules that are out of date."""
        old = {
            name
            for name, (path, mark) in self._marks.items()
            if name in sys.modules and _mark(path) != mark
        }
        fresh = set(old)
        while fresh:
            fresh = {n for n in self._marks if n not in old and _uses(sys.modules.get(n), old)}
            old |= fresh
        for name in old:
            del self._marks[name]
            _drop(name)
        if old:
            self._newest = ""  # one of these may be imported again, as the last
            importlib.invalidate_caches()


def _uses(module: ModuleType | None, old: set[str]) -> bool:
    """Whether *module* has a module in *old*, or something that is defined in one."""
    names: dict[str, Any] = getattr(module, "__dict__", {})
    for each in list(names.values()):
        with contextlib.suppress(Exception):  # of an object with attributes of its own making
            if (each.__name__ if type(each) is ModuleType else each.__module__) in old:
                return True
    return False


def _drop(name: str) -> None:
    sys.modules.pop(name, None)
    package, _, last = name.rpartition(".")
    if package in sys.modules:  # else `from package import last` would still find it
        vars(sys.modules[package]).pop(last, None)


def _file_of(name: str, module: object) -> str:
    """The source file of a module that is the program's; else empty."""
    path = getattr(module, "__file__", None)
    if name in _KEPT or type(path) is not str or not path.endswith(".py"):
        return ""
    ours = any(path.startswith(folder) for folder in _FOLDERS)
    return "" if ours or any(part in path for part in _INSTALLED) else path


def _mark(path: str) -> Mark:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _folders() -> tuple[str, ...]:
    package = Path(__file__).parents[2]  # farref, as it is imported, and where it really is
    library = Path(os.__file__).parent
    return tuple(f"{each}{os.sep}" for each in (library, package, package.resolve()))


_FOLDERS = _folders()

"""Checks before the functions that have a duty (`farref.actors.core.duties`).

They run in each process that is forked while they are switched on. A caller that breaks a duty gets
an error. That error may only be logged, so each is also written to a file, which the run of the
tests looks at when it ends.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import traceback
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import farref  # noqa: F401 - it loads the modules that have duties
from farref.actors.base.interrupts import undisturbed
from farref.actors.core.core import Core
from farref.actors.core.duties import DUTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_handling: dict[int, int] = {}
"""The thread that handles messages now, by the `id` of its core."""


def broken() -> Path:
    """The file with the duties that were broken in this run."""
    return Path(os.environ["XDG_RUNTIME_DIR"]) / "broken-duties"


def _core(part: Any) -> Core:
    for name in ("_core", "core"):
        core = part if isinstance(part, Core) else getattr(part, name, None)
        if isinstance(core, Core):
            return core
    raise AssertionError(f"{type(part).__name__} has a duty, and no core")


def _holds_lock(core: Core) -> bool:
    held: bool = core.lock._is_owned()  # type: ignore[attr-defined]  # a condition uses it, too
    return held


def _keeps(duty: str, core: Core) -> bool:
    if duty == "under the lock":
        return _holds_lock(core)
    if duty == "without the lock":
        return not _holds_lock(core)
    assert duty == "in a section"
    main = threading.get_ident() == threading.main_thread().ident
    return bool(undisturbed.within) or not main


def _break(duty: str, function: Callable[..., Any]) -> None:
    said = f"{function.__qualname__} was not called {duty}"
    with broken().open("a") as file:
        file.write(said + "\n" + "".join(traceback.format_stack(sys._getframe(2), 6)))
    raise AssertionError(said)


def _checked(function: Callable[..., Any], duty: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def check(self: Any, *args: Any, **kwargs: Any) -> Any:
        core = _core(self)
        if duty != "in the mailbox thread":
            if not _keeps(duty, core):
                _break(duty, function)
            return function(self, *args, **kwargs)
        me, key = threading.get_ident(), id(core)
        nested = _handling.get(key) == me
        if _handling.setdefault(key, me) != me:
            _break(duty, function)
        try:
            return function(self, *args, **kwargs)
        finally:
            if not nested:
                del _handling[key]

    return check


@contextmanager
def checked_duties() -> Iterator[None]:
    """Check all duties during the block, also in processes that are forked in it."""
    found = []
    for function, duty in DUTIES:
        path, _, name = function.__qualname__.rpartition(".")
        owner = attrgetter(path)(sys.modules[function.__module__])
        found.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, _checked(owner.__dict__[name], duty))
    try:
        yield
    finally:
        for owner, name, function in reversed(found):
            setattr(owner, name, function)

"""The processes of an actor's children, and the way each of them ended.

Thespian tells the parent that a child has exited, but not how. The parent has the child's process,
and so its exit code. No other process has it: the end of an actor that the admin created has no
cause.
"""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from multiprocessing.util import register_after_fork
from typing import Any

from thespian.actors import Actor, ActorAddress

from ..base.managers import forget_child

EXITED = "it exited"
"""The end of a child about which nothing else is known: it handled an exit request."""
LEFT = "it left"
"""The end of an endpoint that reported its end itself."""
HINTS = {signal.SIGKILL: ", by a user, or for lack of memory: see `dmesg`"}
"""Possible reasons for a signal."""


class Children:
    """The children that one actor has created."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._processes: list[tuple[ActorAddress, Any]] = []

    def made(self, address: ActorAddress) -> None:
        """Remember the process of the child that was just created at *address*."""
        manager = self._actor._myRef
        for child in getattr(manager, "_child_procs", ()):
            if child.childAddr is address:
                manager._childExited = partial(forget_child, manager)  # also on Thespian's base
                self._processes.append((address, child.childProc))
                register_after_fork(child.childProc._popen, _let_go)

    def cause(self, address: ActorAddress) -> str:
        """The way in which the child at *address*, which has exited, ended; empty if not known."""
        for entry in self._processes:
            if entry[0] == address:
                self._processes.remove(entry)
                return how_it_ended(entry[1].exitcode)
        return ""


def _let_go(started: Any) -> None:
    """In a child that was forked later: close the pipes to an earlier child, *started*.

    It runs once. The child's own children inherit this task, and have other files under these
    numbers.
    """
    pipes, started.finalizer._args = started.finalizer._args or (), ()
    for pipe in pipes:
        with contextlib.suppress(OSError):
            os.close(pipe)


def how_it_ended(code: int | None) -> str:
    """*code*, as `multiprocessing` gives it, in words. None: it still runs, and exits in order."""
    if code is None:
        return EXITED
    if code >= 0:
        return f"exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"
    return f"killed by {number.name}{HINTS.get(number, '')}"


ORDERLY = (LEFT, EXITED, how_it_ended(0))
"""Intended ends: metrics do not count them as deaths, and the log has them at INFO."""

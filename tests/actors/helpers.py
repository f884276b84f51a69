"""Helpers for tests of real systems: waiting on either base, looking into every table."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import farref
from farref import RefActor, RRef
from farref.actors.core.current import frame
from farref.testing import assert_nothing_held, references_everywhere, until
from farref.testing.held import PATIENCE, list_references

from ..waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System

__all__ = ["PATIENCE", "assert_nothing_held", "list_references", "references_everywhere", "until"]
HELD = 60.0
"""If a gate stays closed for this many seconds, the test is wrong."""


def idle(system: System, seconds: float) -> None:
    """Let time pass without any request to the system."""
    until(system, lambda: False, seconds)


def come_to_rest(system: System) -> None:
    """Wait until no endpoint sends messages for what was done before."""
    sent: Any = None
    while sent != (now := {k: (v.user, v.control) for k, v in system.counters().items()}):
        sent = now
        idle(system, 0.2)


def hold(gate: Path, value: Any = None) -> Any:
    """Return *value* once *gate* is open (see the fixture); in any process."""
    eventually(gate.exists, "nobody opened the gate", HELD)
    return value


def somebody_waits() -> bool:
    """Whether a function of the worker that this runs on waits in the library."""
    return bool(frame().core.pool.blocked)


class Box:
    """A value that takes weak references and shows its content."""

    def __init__(self, content: Any = None) -> None:
        self.content = content

    def get(self) -> Any:
        return self.content

    def put(self, content: Any) -> None:
        self.content = content


def make_box(content: Any = None) -> Box:
    return Box(content)


def kill(name: str) -> None:
    """Kill the process of the worker *name*."""
    os.kill(farref.rpc_sync(name, os.getpid), signal.SIGKILL)


def hog(seconds: float) -> float:
    """Hold the interpreter in one call; returns the seconds that it took."""
    numbers = 1_000_000
    while True:
        start = time.perf_counter()
        sum(range(numbers))
        took = time.perf_counter() - start
        if took >= seconds:
            return took
        numbers *= 2


PLACES = ("worker", "actor", "program")
"""Where an object of a test may live."""


def made_at(system: System, place: str, kind: type, *args: Any) -> RRef[Any]:
    """An object of *kind* at one of `PLACES`."""
    if place == "actor":
        made: RRef[Any] = system.ask(system.create(Owner), (kind, args))
        return made
    return farref.remote("B", kind, args) if place == "worker" else RRef(kind(*args))


class Owner(RefActor):
    def receiveMsg_tuple(self, message: tuple[type, tuple[Any, ...]], sender: Any) -> None:
        kind, args = message
        self.send(sender, RRef(kind(*args)))

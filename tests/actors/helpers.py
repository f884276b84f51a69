"""What the tests of real systems share: waiting on either base, looking into every table."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import farref
from farref.actors.program import CallInPort

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from farref import ReferenceInfo, System

PATIENCE = 20.0
"""Seconds within which everything that these tests wait for has long happened."""
HELD = 60.0
"""Seconds after which a gate that nobody opens is a mistake of the test's."""


def until(system: System, condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether *condition* holds before *seconds* are over; the system runs meanwhile.

    The in-process base runs its actors only while the program calls in, so there the
    waiting pumps; on the others the program really does nothing.
    """
    if isinstance(system._port, CallInPort):
        met = False

        def once() -> bool:  # pumping looks again after it was met; a condition may take something
            nonlocal met
            met = met or bool(condition())
            return met

        return system._port.run_until(once, seconds)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def idle(system: System, seconds: float) -> None:
    """Let time pass; nothing is asked of the system."""
    until(system, lambda: False, seconds)


def references_everywhere(system: System) -> dict[str, list[ReferenceInfo]]:
    """The tables of every living endpoint, those without a reference left out."""
    futures = {
        info.name: farref.rpc_async(info, list_references, timeout=PATIENCE)
        for info in system.workers()
    }
    return {name: rows for name, future in futures.items() if (rows := future.result())}


def list_references() -> list[ReferenceInfo]:
    """This endpoint's table; garbage is collected only where that can make a difference."""
    if farref.references():
        gc.collect()
    return farref.references()


def assert_nothing_held(system: System, seconds: float = 15.0) -> None:
    """G5: no endpoint holds, owns or is pinned for anything.

    Messages that the program never listened for (poison, where errors are on purpose) hold
    what is in them, so they are dropped first.
    """

    def nothing() -> bool:
        while not system._port.inbox.empty():
            system.listen(timeout=1)
        return not references_everywhere(system)

    if not until(system, nothing, seconds):
        tables = references_everywhere(system)
        text = "\n".join(f"{name}: {row}" for name, rows in tables.items() for row in rows)
        raise AssertionError(f"references are left after {seconds:g} s:\n{text}")


def hold(gate: Path, value: Any = None) -> Any:
    """*value*, once *gate* is open (see the fixture), in whatever process."""
    end = time.monotonic() + HELD
    while not gate.exists():
        assert time.monotonic() < end, "nobody opened the gate"
        time.sleep(0.005)
    return value


class Box:
    """A value that can be referred to weakly and looked at from outside."""

    def __init__(self, content: Any = None) -> None:
        self.content = content

    def get(self) -> Any:
        return self.content

    def put(self, content: Any) -> None:
        self.content = content


def make_box(content: Any = None) -> Box:
    return Box(content)

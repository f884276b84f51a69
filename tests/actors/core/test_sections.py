"""What it costs a call of the main thread that no signal handler comes in between.

Each section sets the handlers and sets them back, which are system calls.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import sys
from typing import TYPE_CHECKING

import pytest

import farref
from farref import RefActor, RRef, System
from farref.actors.base.interrupts import HELD

if TYPE_CHECKING:
    from collections.abc import Callable


class Silent(RefActor):
    def receiveMsg_str(self, message: str, sender: object) -> None:
        """It takes it."""


def make(number: int) -> int:
    return number


def handlers_set(work: Callable[[], object]) -> float:
    """How often *work* sets a signal handler, for each one that the program has."""
    count = 0

    def called(_frame: object, event: str, function: object) -> None:
        nonlocal count
        count += event == "c_call" and function is _signal.signal

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count / sum(callable(_signal.getsignal(number)) for number in HELD)


@pytest.mark.processes
def test_a_call_takes_one_section_and_the_turn_of_its_wait() -> None:
    with System(timeout=30) as system:
        system.create(Silent, "B")
        made, kept = farref.remote("B", make, (1,)), RRef(1)
        works: tuple[tuple[Callable[[], object], int], ...] = (
            (lambda: farref.rpc_sync("B", make, (1,)), 4),
            (lambda: farref.rpc_sync("B", repr, (kept,)), 4),
            (made.to_here, 4),
            (lambda: system.tell("B", "x"), 2),
        )
        for work, most in works:
            assert 0 < min(handlers_set(work) for _ in range(5)) <= most

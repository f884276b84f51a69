"""What a call takes, exactly: how many functions are called for it, here and at the worker.

A process looks at one thread, the one that does all of it if nobody else is in the way; the least
of many calls is the way that nobody was in. It does not depend on how busy the machine is.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import farref

CALLS = 200
_counts: list[int] = []
"""How many functions had been called, each time that one came: at a worker."""
_counting = False


class Counter:
    """Counts the functions that the thread calls in which it was made, until it is told to end."""

    def __init__(self) -> None:
        self.count = 0
        self.ended = False
        sys.setprofile(self._called)

    def _called(self, _frame: object, event: str, _argument: object) -> None:
        self.count += event in {"call", "c_call"}
        if self.ended:
            sys.setprofile(None)


_counter: Counter | None = None


def begin() -> None:
    """Count from now on, in the thread that this runs in."""
    global _counter  # noqa: PLW0603 - of a process: whoever counts tells it to others
    _counts.clear()
    _counter = Counter()
    note()


def note() -> None:
    """A call has come."""
    profiled: Any = sys.getprofile()
    if _counter is not None and profiled is not None and profiled.__self__ is _counter:
        _counts.append(_counter.count)


def end() -> list[int]:
    """The functions that were called from one call to the next."""
    if _counter is not None:
        _counter.ended = True
    return [after - before for before, after in pairwise(_counts)]


def steps_of_a_call(name: str) -> tuple[int, int | None]:
    """Functions that are called here, and at the worker *name*: the least for one call.

    None: at the worker each call was another thread's.
    """
    here = []
    farref.rpc_sync(name, begin)
    for _ in range(CALLS):
        counter = Counter()
        farref.rpc_sync(name, note)
        counter.ended = True
        sys.setprofile(None)
        here.append(counter.count)
    there = farref.rpc_sync(name, end)
    return min(here), min(there, default=None)

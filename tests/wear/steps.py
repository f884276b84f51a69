"""The exact steps of a call: the number of function calls for it, here and at the worker.

A process counts in one thread, which does all the work if no other thread interferes. Other threads
interfere with few of many calls: they add steps, or on an in-process base they save a wait. So the
median call is one without interference. It does not depend on the machine's load.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from statistics import median_low
from typing import Any

import farref

CALLS = 200
_counts: list[int] = []
"""At a worker: the number of functions called before each call's arrival."""
_counting = False


class Counter:
    """Counts the function calls of the thread that made it, until it is told to end."""

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
    """Count from now on, in the current thread."""
    global _counter  # noqa: PLW0603 - one counter for the whole process
    _counts.clear()
    _counter = Counter()
    note()


def note() -> None:
    """Note the arrival of a call."""
    profiled: Any = sys.getprofile()
    if _counter is not None and profiled is not None and profiled.__self__ is _counter:
        _counts.append(_counter.count)


def end() -> list[int]:
    """The functions called between each call and the next."""
    if _counter is not None:
        _counter.ended = True
    return [after - before for before, after in pairwise(_counts)]


def steps_of_a_call(name: str) -> tuple[int, int | None]:
    """The number of functions called here, and at the worker *name*: those of the median call.

    The latter is None if no two of the calls met the worker's thread that counts.
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
    return median_low(here), median_low(there) if there else None

"""The cost of an idle system, and of a call: here, and at a worker."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import psutil

import farref

from .census import CHANCE, census
from .work import make

QUIET = 2.0
"""Seconds without any request to the system."""
CALLS = 300
MOST: dict[str, Callable[[float], float]] = {
    "timers": lambda first: first + CHANCE,
    "threads": lambda first: first + CHANCE,
    "fds": lambda first: first + CHANCE,
    "blocks": lambda first: 1.03 * first,
    "MB": lambda first: first + 10,
    "waits/s": lambda first: 1.5 * first + 5,
    "% idle": lambda first: first + 1,
}
"""By the name of a figure: the most that it may be later, by its first value."""
Figures = dict[str, float]


def gauge(name: str) -> dict[str, Figures]:
    """The figures of the program, and of the worker *name*. Takes a bit more than `QUIET` seconds.

    This does not suit the in-process base, where nothing runs meanwhile.
    """
    start = spent(name)
    time.sleep(QUIET)
    awake = spent(name)
    call_often(name)
    end = spent(name)
    found = {"program": lent(), name: farref.rpc_sync(name, lent)}
    for figures, first, idle, last in zip(found.values(), start, awake, end, strict=True):
        figures["waits/s"] = (idle[0] - first[0]) / QUIET
        figures["% idle"] = 100 * (idle[1] - first[1]) / QUIET
        figures["µs a call"] = 1e6 * (last[1] - idle[1]) / CALLS
    return found


def lent() -> Figures:
    """What this process has. The blocks are those that Python's own allocator has given out."""
    found = census()  # which collects garbage
    return {
        "timers": found["Timers._heap"],
        "threads": found["threads"],
        "fds": found["descriptors"],
        "blocks": sys.getallocatedblocks(),
        "MB": psutil.Process().memory_info().rss / 1e6,
    }


def in_turns(ways: tuple[Callable[[], None], Callable[[], None]], name: str, turns: int) -> float:
    """The cost of calls after the first of *ways*, divided by their cost after the other."""
    costs: tuple[list[float], list[float]] = [], []
    for _ in range(turns):
        for go, found in zip(ways, costs, strict=True):
            go()
            call_often(name)
            before = spent(name)
            call_often(name)
            pairs = zip(before, spent(name), strict=True)
            found.append(sum(last - first for (_, first), (_, last) in pairs))
    return min(costs[0]) / min(costs[1])


def call_often(name: str) -> None:
    """Some calls, which do nothing."""
    for _ in range(CALLS):
        farref.rpc_sync(name, make, (1,))


def spent(name: str) -> tuple[tuple[int, float], tuple[int, float]]:
    """What the program, and the worker *name*, have used so far; see `spent_here`."""
    return spent_here(), farref.rpc_sync(name, spent_here)


def spent_here() -> tuple[int, float]:
    """How often a thread of this process has waited, and its processor seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw, used.ru_utime + used.ru_stime

"""The cost of an idle system, and of a call: here, and at a worker."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil

import farref

from .census import census
from .work import make

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET = 2.0
"""Seconds without any request to the system."""
CALLS = 300


class Lent(NamedTuple):
    """The resources of one process."""

    timers: int
    """Wakeups that are under way."""
    threads: int
    descriptors: int
    blocks: int
    """Pieces of memory that Python's own allocator has given out."""
    megabytes: float


class Spent(NamedTuple):
    """The resources that one process has used so far."""

    sleeps: int
    """How often one of its threads waited."""
    seconds: float
    """Processor seconds."""


class Figures(NamedTuple):
    """The figures of one process."""

    lent: Lent
    wakeups: float
    """Waits per second while nothing happens."""
    idle: float
    """Percent of a processor while nothing happens."""
    call: float
    """Microseconds of a processor for one call."""


def gauge(name: str) -> dict[str, Figures]:
    """The figures of the program, and of the worker *name*. Takes a bit more than `QUIET` seconds.

    This does not suit the in-process base, where nothing runs meanwhile.
    """
    start = spent(name)
    time.sleep(QUIET)
    awake = spent(name)
    call_often(name)
    end = spent(name)
    lent = [lent_here(), farref.rpc_sync(name, lent_here)]
    return {
        who: Figures(
            lent[place],
            (awake[place].sleeps - start[place].sleeps) / QUIET,
            100 * (awake[place].seconds - start[place].seconds) / QUIET,
            1e6 * (end[place].seconds - awake[place].seconds) / CALLS,
        )
        for place, who in enumerate(("program", name))
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
            found.append(sum(each.seconds for each in spent(name)))
            found[-1] -= sum(each.seconds for each in before)
    return min(costs[0]) / min(costs[1])


def call_often(name: str) -> None:
    """Some calls, which do nothing."""
    for _ in range(CALLS):
        farref.rpc_sync(name, make, (1,))


def spent(name: str) -> tuple[Spent, Spent]:
    """The used resources of the program, and of the worker *name*."""
    return spent_here(), farref.rpc_sync(name, spent_here)


def spent_here() -> Spent:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Spent(used.ru_nvcsw, used.ru_utime + used.ru_stime)


def lent_here() -> Lent:
    found = census()  # which collects garbage
    return Lent(
        found["Timers._heap"],
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
        sys.getallocatedblocks(),
        psutil.Process().memory_info().rss / 1e6,
    )

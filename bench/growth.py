"""Growth: references held, workers, and the cost of each additional one.

These measure farref alone, each part in a system of its own. Each step adds some, and its figures
are of the added ones, and of a call or a share at that size. Times are processor time of all the
system's processes together, so other programs on the machine do not count. `bench/scale.py` shows
the figures. `bench/hosts.py` adds hosts.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import farref
from farref import RRef, System
from farref.actors.hosting import processes

from .peer import resident, until
from .peers.ours import make
from .peers.references import touch
from .things import Thing, echo, live

PATIENCE = 600.0
CHUNK = 10_000
"""References in one message."""
TIMES = 300
"""A figure is the mean of this many calls."""


@dataclass
class Growth:
    """One thing that grows: its figures at each step, by their names."""

    title: str
    what: str
    steps: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Of processor time."""
    bytes: dict[str, list[float]] = field(default_factory=dict)
    dropping: float | None = None
    """Processor seconds for each object of the last step, until the last one is freed."""

    def step(self, number: int, seconds: dict[str, float], size: dict[str, float]) -> None:
        self.steps.append(number)
        for all_of, new in ((self.seconds, seconds), (self.bytes, size)):
            for name, value in new.items():
                all_of.setdefault(name, []).append(value)


class Crew:
    """The processes of a system: this one, and those in the session of its actors."""

    def __init__(self, system: System) -> None:
        session = system._stay.session
        self.processes = [psutil.Process()]
        if session != os.getsid(0):
            self.processes += [psutil.Process(each.pid) for each in processes.members(session)]

    def spent(self, work: Callable[[], object], times: int = 1) -> float:
        """Processor seconds for each *work*, done *times* times."""
        before = self._processor()
        for _ in range(times):
            work()
        return (self._processor() - before) / times

    def _processor(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)

    def weight(self) -> float:
        """Bytes of memory; pages that several share count once.

        Pages of files do not count: other programs may begin or end to share them meanwhile.
        """
        gc.collect()
        return sum(_pages(process.pid) for process in self.processes)


def _pages(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    kinds = {kind: rest for kind, _, rest in (line.partition(":") for line in lines)}
    return sum(1024.0 * int(kinds[kind].split()[0]) for kind in ("Pss_Anon", "Pss_Shmem"))


def decades(most: int, first: int) -> Iterator[int]:
    """first, 3 x first, 10 x first, and so on up to *most*."""
    number = first
    for factor in itertools.cycle((3, 10 / 3)):
        if number >= most:
            break
        yield number
        number = round(number * factor)
    yield most


def memory() -> float:
    """Bytes that this process occupies, without garbage."""
    gc.collect()
    return resident()


# ---- references that one endpoint holds


def references(most: int) -> Growth:
    """References that the program holds to B's objects."""
    part = Growth("references held by one endpoint", "references")
    with System(timeout=PATIENCE) as system:
        system.worker("B"), system.worker("C")
        crew, before = Crew(system), farref.rpc_sync("B", live)
        other = farref.remote("B", echo, (1,))
        held: list[Any] = [*farref.rpc_sync("B", make, (100,))]

        def share() -> None:
            farref.rpc_sync("C", touch, ([other],))

        def grow(wanted: int) -> None:
            while len(held) < wanted:
                held.extend(farref.rpc_sync("B", make, (min(CHUNK, wanted - len(held)),)))

        share()
        start: tuple[float, float] = memory(), farref.rpc_sync("B", memory)
        for number in decades(most, 1_000):
            new = number - len(held)
            each = crew.spent(partial(grow, number)) / new
            size = memory() - start[0], farref.rpc_sync("B", memory) - start[1]
            part.step(
                number,
                {"making and sending one": each, "a share of another": crew.spent(share, TIMES)},
                {"at the holder": size[0] / number, "at the owner": size[1] / number},
            )

        def drop() -> None:
            held.clear()
            # B has inherited its count from this process.
            until(lambda: farref.rpc_sync("B", live) <= before)

        part.dropping = crew.spent(drop) / most
    return part


# ---- workers


def workers(most: int, base: str | None = None) -> Growth:
    """Workers, each of which answers a call and is lent a reference."""
    where = "in one process" if base else "a process each"
    part = Growth(f"workers, {where}", "workers")
    with System(base, timeout=PATIENCE) as system:
        start, number = Crew(system).weight(), 0
        names: list[str] = []
        refs = [RRef(Thing())]

        def to_each(work: Any, *args: Any) -> None:
            for future in [farref.rpc_async(name, work, args) for name in names]:
                future.result()

        for wanted in decades(most, 20):
            began = time.perf_counter()
            for n in range(number, wanted):
                names.append(f"W{n}")
                farref.rpc_sync(system.worker(names[-1], threads=2), echo, (1,))
            each = (time.perf_counter() - began) / (wanted - number)
            number, crew = wanted, Crew(system)
            times = max(5, TIMES // number)
            part.step(
                number,
                {
                    "a call to each, each": crew.spent(lambda: to_each(echo, 1), times) / number,
                    "a loan to each, each": crew.spent(lambda: to_each(touch, refs), times)
                    / number,
                    "starting one (by the clock)": each,
                },
                {"of one": (crew.weight() - start) / number},
            )
    return part

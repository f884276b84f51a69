"""What grows: references held, forks of one object, workers, and what each more of them costs.

Farref alone, each part in a system of its own. A figure is of one step: of what was added since the
step before, and of what a call or a share takes then. `bench/scale.py` shows them.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil

import farref
from farref import RRef, System

from ..actors.current import frame
from .peer import resident
from .peers.ours import keep, let_go, make, touch
from .peers.ours import kept as all_kept
from .things import Thing, echo, live

PATIENCE = 600.0
CHUNK = 10_000
"""References in one message."""


@dataclass
class Part:
    """One thing that grows: at each step the figures, by what they are of."""

    title: str
    what: str
    steps: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    bytes: dict[str, list[float]] = field(default_factory=dict)

    def step(self, number: int, seconds: dict[str, float], size: dict[str, float]) -> None:
        """What was measured when there were *number*."""
        self.steps.append(number)
        for all_of, new in ((self.seconds, seconds), (self.bytes, size)):
            for name, value in new.items():
                all_of.setdefault(name, []).append(value)


def clocked(work: Callable[[], object], times: int = 1) -> float:
    """Seconds for each of *times* times *work*, in a row."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def usual(work: Callable[[], object], times: int = 100) -> float:
    """The median of *times* times *work*: without the pauses of a garbage collection."""
    return statistics.median(clocked(work) for _ in range(times))


def decades(most: int, first: int) -> Iterator[int]:
    """first, 3 x first, 10 x first, and so on up to *most*."""
    number, factor = first, (3, 10 / 3)
    while number < most:
        yield number
        number = round(number * factor[0])
        factor = factor[::-1]
    yield most


# ---- references that one endpoint holds


def references(most: int) -> Part:
    """The program holds them; the objects are B's."""
    part = Part("references held by one endpoint", "references")
    with System(timeout=PATIENCE) as system:
        system.worker("B"), system.worker("C")
        other = farref.remote("B", echo, (1,))
        share = functools.partial(farref.rpc_sync, "C", touch, (other,))
        held: list[Any] = [*farref.rpc_sync("B", make, (100,))]
        share()
        start = memory(), farref.rpc_sync("B", memory)
        for number in decades(most, 1_000):
            began, before = time.perf_counter(), len(held)
            while len(held) < number:
                held += farref.rpc_sync("B", make, (min(CHUNK, number - len(held)),))
            each = (time.perf_counter() - began) / (number - before)
            size = memory() - start[0], farref.rpc_sync("B", memory) - start[1]
            part.step(
                number,
                {"making and sending one": each, "a share of another": usual(share)},
                {"at the holder": size[0] / number, "at the owner": size[1] / number},
            )
        began = time.perf_counter()
        held.clear()
        while farref.rpc_sync("B", live):
            time.sleep(0.01)
        part.seconds["dropping one, the last step"] = [
            *[float("nan")] * (len(part.steps) - 1),
            (time.perf_counter() - began) / most,
        ]
    return part


def memory() -> int:
    """Bytes that this process occupies, without garbage."""
    gc.collect()
    return resident()


# ---- forks of one object


def forks(most: int) -> Part:
    """B's object, of which it sends references to three holders in turn; nobody drops any."""
    part = Part("forks of one object", "forks")
    holders = ("C", "D", "E")
    with System(timeout=PATIENCE) as system:
        for name in ("B", *holders):
            system.worker(name)
        ref = farref.remote("B", Thing)
        farref.rpc_sync("B", keep, (ref,))
        size, number = farref.rpc_sync("B", memory), 0
        for wanted in decades(most, 300):
            began, before = time.perf_counter(), number
            while number < wanted:
                burst = min(1_000, wanted - number)
                for future in [farref.rpc_async(holders[n % 3], ask) for n in range(burst)]:
                    future.result()
                number += burst
            each = (time.perf_counter() - began) / (number - before)
            if farref.rpc_sync("B", counted) < number:
                raise AssertionError("some forks are not counted")
            grown = (farref.rpc_sync("B", memory) - size) / number
            part.step(number, {"one more fork": each}, {"at the owner": grown})
        began = time.perf_counter()
        for name in ("B", *holders):
            farref.rpc_sync(name, let_go)
        del ref
        while farref.rpc_sync("B", live):
            time.sleep(0.01)
        part.seconds["dropping one, the last step"] = [
            *[float("nan")] * (len(part.steps) - 1),
            (time.perf_counter() - began) / number,
        ]
    return part


def ask() -> None:
    """Have B send one more reference, and keep it."""
    keep(farref.rpc_sync("B", first))


def first() -> RRef[Any]:
    """The object that B keeps."""
    return all_kept[0]


def counted() -> int:
    """Forks of the kept object that its owner knows."""
    return len(frame().endpoint.context.owners[first().id].forks)


# ---- workers


def workers(most: int, base: str | None = None) -> Part:
    """As many workers, each of which answers a call and holds a reference."""
    where = "in one process" if base else "a process each"
    part = Part(f"workers, {where}", "workers")
    with System(base, timeout=PATIENCE) as system:
        start, number = weight(), 0
        ref = None
        for wanted in decades(most, 2):
            began, before = time.perf_counter(), number
            while number < wanted:
                number += 1
                info = system.worker(f"W{number}", threads=2)
                farref.rpc_sync(info, echo, (1,))
                ref = farref.remote(info, Thing) if ref is None else ref
            each = (time.perf_counter() - began) / (number - before)
            names = [f"W{n + 1}" for n in range(number)]

            def everybody(names: list[str] = names) -> None:
                for future in [farref.rpc_async(name, echo, (1,)) for name in names]:
                    future.result()

            def hand_round(names: list[str] = names, ref: Any = ref) -> None:
                for future in [farref.rpc_async(name, touch, (ref,)) for name in names]:
                    future.result()

            seconds = {
                "starting one": each,
                "a call to each at once, each": usual(everybody, 10) / number,
                "a reference lent to each, each": usual(hand_round, 10) / number,
            }
            part.step(number, seconds, {"of one": (weight() - start) / number})
    return part


def weight() -> float:
    """Bytes of this process and all it started, pages that are shared counted once."""
    me = psutil.Process()
    session = {process.pid: process for process in (me, *me.children(recursive=True))}
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.pid not in session and _same_program(process, me):
            session[process.pid] = process
    total = 0.0
    for process in session.values():
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):
            continue
    return total


def _same_program(process: psutil.Process, me: psutil.Process) -> bool:
    """The admin of a system is nobody's child, but was forked with our command line."""
    try:
        return bool(process.cmdline() == me.cmdline() and process.create_time() >= me.create_time())
    except psutil.Error:
        return False

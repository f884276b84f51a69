"""The cost of recording a trace: the same work on a system that records and on one that does not.

    python -m bench.tracing                              # a table
    python -m bench.tracing --json figures.json --rounds 201

Three systems run at once. One never recorded. One records to a folder. One had a watcher of its
steps until a moment ago; it must cost the same as the first. They take turns of a few operations in
changing order, so that noise of the machine affects all alike. A figure is the median over the
rounds of the ratio to the first system's turn of the same round. Two things are measured: the
duration of a turn, and the processor time of all processes in it, which a busy machine disturbs
less.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from farref import System, remote, rpc_sync
from farref.actors.api.viewing import Watching
from farref.actors.core.current import running_in

from .machine import about, machine

TURN = 20
"""Operations of one system before the next one's turn."""


def call() -> None:
    """A call that carries no reference, there and back."""
    rpc_sync("B", int)


def share() -> None:
    """An object made on B, lent to C for a call, and freed."""
    rpc_sync("C", id, args=(remote("B", int),))


WORK: dict[str, Callable[[], None]] = {"call": call, "remote, lend, free": share}


def seconds(system: System, work: Callable[[], None], times: int = TURN) -> tuple[float, float]:
    """The duration and the processor time of one operation, measured over *times*."""
    with running_in(system.endpoint.core):
        work()  # leftovers of the previous turn do not count
        used = processor_time()
        started = perf_counter()
        for _ in range(times):
            work()
        took = perf_counter() - started
        return took / times, (processor_time() - used) / times


def processor_time() -> float:
    """Processor seconds of this process and the workers."""
    return sum((rpc_sync(name, process_time) for name in "BC"), start=process_time())


def measure(rounds: int) -> dict[str, dict[str, Any]]:
    """For each kind of work: seconds without recording, and the ratios of the others to it."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        systems = {
            "off": stack.enter_context(System()),
            "recording": stack.enter_context(System(trace=folder)),
            "watched before": stack.enter_context(System()),
        }
        for system in systems.values():
            system.worker("B"), system.worker("C")
        watch_for_a_while(systems["watched before"])
        turns: dict[str, dict[str, list[tuple[float, float]]]] = {
            name: {each: [] for each in systems} for name in WORK
        }
        for name, work in WORK.items():
            for system in systems.values():
                seconds(system, work, 100)  # warm up
            order = list(systems)
            for _ in track(range(rounds), name, transient=True):
                random.shuffle(order)
                for each in order:
                    turns[name][each].append(seconds(systems[each], work))
    return {name: figures(of) for name, of in turns.items()}


def watch_for_a_while(system: System) -> None:
    """Have its endpoints record for a viewer, which leaves."""
    with Watching(System.attach(system.name)) as watching:
        seconds(system, call, 10)
        if not watching.lines(timeout=10.0):
            raise SystemExit("the system that is watched records nothing")


def figures(turns: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """The median turn without recording; for the others median and quartiles of the ratios."""
    off = turns.pop("off")
    found: dict[str, Any] = {"seconds": statistics.median(took for took, _ in off)}
    for which, what in enumerate(("time", "processor")):
        found[what] = {
            name: statistics.quantiles(
                [b[which] / a[which] for a, b in zip(off, mine, strict=True)], n=4
            )
            for name, mine in turns.items()
        }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("quartiles need 2 rounds at least")
    where, found = machine(), measure(arguments.rounds)
    table = Table("work", "off, µs", "ratio of", "recording", "after a viewer left")
    for name, each in found.items():
        for what in ("time", "processor"):
            cells = [f"{m:.3f} ({low:.2f}..{high:.2f})" for low, m, high in each[what].values()]
            table.add_row(name, f"{each['seconds'] * 1e6:.0f}", what, *cells)
    console = Console()
    console.print(table)
    console.print(f"ratios to off: median (quartiles) of {arguments.rounds} rounds")
    console.print(about(where))
    if arguments.json:
        said = {"machine": where, "rounds": arguments.rounds, "work": found}
        arguments.json.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

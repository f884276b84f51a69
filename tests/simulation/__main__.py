"""As many seeds as fit into a time: ``python -m tests.simulation --seconds 120 --first 0``.

A few of the programs are long: they find mistakes that only show after a long life. With
``--record FOLDER`` one seed is played, and recorded for ``farref trace FOLDER``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from . import Plan, draw, simulate
from .plan import WEATHERS
from .shrink import shrink

SHORT, LONG = 60, (1000, 2000, 3000, 4000, 5000)
"""The acts of a short program, and of the long ones."""
EVERY = 20
"""One seed in this many is that of a long program."""


def length(seed: int) -> int:
    """The number of acts in the program of *seed*."""
    return LONG[seed // EVERY % len(LONG)] if seed % EVERY == EVERY - 1 else SHORT


def main() -> int:
    parser = argparse.ArgumentParser(description="Random programs over the machines, by seed.")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument(
        "--acts", type=int, help=f"of each program; else {SHORT}, and of one in {EVERY} thousands"
    )
    parser.add_argument("--weather", choices=WEATHERS, help="else the seed decides")
    parser.add_argument("--record", type=Path, help="a folder for the trace of the first seed")
    wanted = parser.parse_args()
    console = Console()

    def plan(seed: int) -> Plan:
        return draw(seed, wanted.acts or length(seed), weather=wanted.weather)

    if wanted.record:
        console.print(*map(str, plan(wanted.first).acts), sep="\n")
        outcome = simulate(plan(wanted.first), wanted.record)
        console.print(outcome.wrong or "nothing is wrong")
        return 1 if outcome.wrong else 0
    wrong: list[int] = []
    begin, seed = time.monotonic(), wanted.first
    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=wanted.seconds)
        while (passed := time.monotonic() - begin) < wanted.seconds:
            outcome = simulate(plan(seed))
            if outcome.wrong:
                wrong.append(seed)
                console.print(f"seed {seed}: {outcome.wrong}")
            seed += 1
            told = f"{seed - wanted.first:,} seeds, {len(wrong)} wrong"
            bar.update(task, completed=passed, description=told)
    console.print(f"{seed - wanted.first:,} seeds, {len(wrong)} wrong")
    if wrong:
        shortest = min(wrong, key=length)
        least = shrink(plan(shortest))
        console.print(
            f"seed {shortest}, with the acts that it takes:", *map(str, least.acts), sep="\n  "
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""As many seeds as fit into a time: ``python -m tests.simulation --seconds 120 --first 0``.

A few of the programs are long: they find mistakes that only show after a long life.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from farref.simulation import draw, simulate

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
    wanted = parser.parse_args()
    console = Console()
    wrong: list[int] = []
    begin, seed = time.monotonic(), wanted.first
    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=wanted.seconds)
        while (passed := time.monotonic() - begin) < wanted.seconds:
            outcome = simulate(draw(seed, wanted.acts or length(seed)))
            if outcome.wrong:
                wrong.append(seed)
                console.print(f"seed {seed}: {outcome.wrong}")
            seed += 1
            told = f"{seed - wanted.first:,} seeds, {len(wrong)} wrong"
            bar.update(task, completed=passed, description=told)
    console.print(f"{seed - wanted.first:,} seeds, {len(wrong)} wrong")
    if wrong:
        shortest = min(wrong, key=length)
        least = shrink(draw(shortest, wanted.acts or length(shortest)))
        console.print(f"seed {shortest}, with the acts that it takes:", *least.acts, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

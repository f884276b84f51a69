"""As many seeds as fit into a time: ``python -m tests.simulation --seconds 120 --first 0``."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from farref.simulation import draw, shrink, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description="Random programs over the machines, by seed.")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--acts", type=int, default=60, help="acts of each program")
    wanted = parser.parse_args()
    console = Console()
    wrong: list[int] = []
    begin, seed = time.monotonic(), wanted.first
    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=wanted.seconds)
        while (passed := time.monotonic() - begin) < wanted.seconds:
            outcome = simulate(draw(seed, wanted.acts))
            if outcome.wrong:
                wrong.append(seed)
                console.print(f"seed {seed}: {outcome.wrong}")
            seed += 1
            told = f"{seed - wanted.first:,} seeds, {len(wrong)} wrong"
            bar.update(task, completed=passed, description=told)
    console.print(f"{seed - wanted.first:,} seeds, {len(wrong)} wrong")
    if wrong:
        least = shrink(draw(wrong[0], wanted.acts))
        console.print(f"seed {wrong[0]}, with the acts that it takes:", *least.acts, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

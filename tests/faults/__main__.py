"""The soak from the command line: ``python -m tests.faults --seconds 600 --seed 1``."""

from __future__ import annotations

import argparse
import random
from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from farref.protocol import delivery
from farref.protocol.sharing import DISCIPLINES

from ..wear.gauge import Figures
from .conftest import RETRY
from .soak import soak


def main() -> None:
    parser = argparse.ArgumentParser(description="Random reference traffic under faults.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--sharing", choices=DISCIPLINES, default="lend")
    wanted = parser.parse_args()
    delivery.FIRST_RETRY, delivery.LAST_RETRY = RETRY, 2 * RETRY
    console = Console()
    console.print(f"seed {wanted.seed}")
    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=wanted.seconds)

        def show(passed: float, done: Counter[str]) -> None:
            said = f"{done.total():,} done, {done['kill']} killed, {done['cut']} links cut"
            bar.update(task, completed=passed, description=said)

        run = soak(wanted.seconds, wanted.seed, show, wanted.sharing)
    for what, number in sorted(run.done.items()):
        console.print(f"{number:>9,}  {what}")
    for who in run.readings[0][1]:
        console.print(table(who, run.readings))


def table(who: str, readings: list[tuple[float, dict[str, Figures]]]) -> Table:
    """The resources and costs of *who*, from the beginning to the end. In 80 columns."""
    shown = Table(title=f"{who}, while nothing happens", box=None)
    for heading in ("after", *readings[0][1][who]):
        shown.add_column(heading, justify="right")
    for seconds, figures in readings:
        rounded = (round(each, 1) for each in figures[who].values())
        shown.add_row(f"{seconds:,.0f} s", *(f"{each:,}" for each in rounded))
    return shown


if __name__ == "__main__":
    main()

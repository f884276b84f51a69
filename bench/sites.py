"""The cost of noting the creation sites of references: ``System(sites=True)`` against without.

    python -m bench.sites
    python -m bench.sites --rounds 31

Two systems of one process take turns, so that noise of the machine affects both alike. The figures
are processor time per creation, the least of the rounds; only their difference means anything.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from farref import RRef, System, remote

from .machine import about, machine

if TYPE_CHECKING:
    from collections.abc import Callable

CREATIONS = 500
"""Creations in one round."""


def _make() -> None:
    for number in range(CREATIONS):
        RRef(number)


def _ask_for() -> None:
    for number in range(CREATIONS):
        remote("B", abs, args=(number,))


def _microseconds(work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return (time.process_time() - before) / CREATIONS * 1e6


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    rounds, where = parser.parse_args().rounds, machine()
    table = Table("microseconds for each", "without", "with sites", box=None, padding=(0, 2, 0, 0))
    with System("simpleSystemBase") as plain, System("simpleSystemBase", sites=True) as noting:
        for system in (plain, noting):
            system.worker("B")
        for name, work in (("RRef(value)", _make), ("remote(...)", _ask_for)):
            least = {False: float("inf"), True: float("inf")}
            for _ in range(rounds):
                for sites, system in ((False, plain), (True, noting)):
                    with_system(system)
                    least[sites] = min(least[sites], _microseconds(work))
            table.add_row(name, f"{least[False]:.1f}", f"{least[True]:.1f}")
    Console().print(table, about(where))


def with_system(system: System) -> None:
    """Run the following code in *system*, in which nothing is left to be freed."""
    system.__enter__()
    system.references(timeout=60)


if __name__ == "__main__":
    main()

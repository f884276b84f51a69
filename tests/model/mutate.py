"""`python -m tests.model.mutate`: all mutants of the machines, and those that no test notices.

It takes hours. Each survivor shows a missing test, or an unnecessary rule. If it is right to
survive, write it into `survivors.txt`, with the reason. With `--record`, only the lines of
`caught.txt` that no longer name a mutant get others of their modules in their place.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from .judges import Court, Judge, judges
from .mutation import CAUGHT, SURVIVORS, Mutant, edits, module_of, mutants, named
from .test_explorer import SMALL

WORLDS = (
    (
        *("alias", "aliases", "borrowing", "context", "creations", "cycles", "dead", "deadlocks"),
        *("death", "entries", "holders", "hosting", "lending", "loans", "names", "owner"),
        *("references", "requests", "search", "user"),
    ),
    ("credit", "delivery"),
    tuple(f"rendezvous.{name}" for name in ("attendant", "observer", "ranks", "state")),
    tuple(f"succession.{name}" for name in ("campaign", "ledger", "line")),
)
"""Modules that run together, so that one of their tests may notice a mutant of another."""


def jury(modules: tuple[str, ...], most: int) -> list[Judge]:
    """The judges of *modules*; those of the first world have the programs of so many states."""
    known = {judge for mutant, judge in CAUGHT.items() if module_of(mutant) in modules}
    return [
        judge
        for name, judge in judges().items()
        if name in known or (modules[0] in worlds()[0] and judge.states <= most)
    ]


def worlds() -> list[tuple[str, ...]]:
    """The modules of each world, by their full names."""
    return [tuple(f"protocol.{name}" for name in names) for names in WORLDS]


def judged(some: Iterable[Mutant], options: Any) -> Iterator[tuple[Mutant, str | None]]:
    """Each of *some* mutants, with the judge that notices it, while a bar shows the progress."""
    by_module = defaultdict(list)
    for mutant in some:
        by_module[module_of(str(mutant))].append(mutant)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        for modules in worlds():
            asked = tuple(module for module in modules if by_module[module])
            here = [mutant for module in asked for mutant in by_module[module]]
            if here:
                court = Court(jury(asked, options.most), asked, options.jobs)
                opening = progress.add_task("judges", total=len(court.judges))
                court.open(partial(progress.advance, opening))
                judging = progress.add_task("mutants", total=len(here))
                for verdict in court.judge(here):
                    progress.advance(judging)
                    yield verdict


def soak(options: Any) -> int:
    """Judge the mutants, and print those that are not as `SURVIVORS` says. Returns how many."""
    modules = [f"protocol.{name}" for name in options.module] or list(chain(*worlds()))
    some = [each for module in modules for each in mutants(module).values()][:: options.one_in]
    some += [each for name, each in edits().items() if module_of(name) in modules]
    wrong = 0
    for mutant, judge in judged(some, options):
        if (judge is None) != (str(mutant) in SURVIVORS):
            wrong += 1
            what = f"is in survivors.txt, and {judge} notices it" if judge else "survives"
            print(f"{mutant}\n    (line {mutant.line}) {what}")  # noqa: T201 - the findings
    return wrong


def record(options: Any) -> None:
    """Replace the lines of `CAUGHT` that name no mutant any more by others of their modules."""
    gone = {each for each in CAUGHT if named(each) is None}
    lost = Counter(map(module_of, gone))
    some: list[Mutant] = []
    for module, number in lost.items():
        new = [each for each in mutants(module).values() if str(each) not in {*CAUGHT, *SURVIVORS}]
        some += random.Random(module).sample(new, min(len(new), 2 * number))  # some may survive
    lines = [f"{mutant}  <-  {judge}" for mutant, judge in CAUGHT.items() if mutant not in gone]
    for mutant, judge in judged(some, options):
        module = module_of(str(mutant))
        if judge in judges() and lost[module] > 0:
            lost[module] -= 1
            lines.append(f"{mutant}  <-  {judge}")
    text = "".join(f"{line}\n" for line in sorted(lines))
    (Path(__file__).parent / "caught.txt").write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model.mutate", description=__doc__)
    parser.add_argument("module", nargs="*", help="only the mutants of these, such as owner")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at once")
    parser.add_argument("--most", type=int, default=SMALL, help="the states of a program")
    parser.add_argument("--one-in", type=int, default=1, help="only one in so many mutants")
    parser.add_argument("--record", action="store_true", help="only replace lines of caught.txt")
    options = parser.parse_args()
    if options.record:
        record(options)
    elif wrong := soak(options):
        sys.exit(f"{wrong} mutants are not as survivors.txt says")


if __name__ == "__main__":
    main()

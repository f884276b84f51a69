"""The benchmarks, by farref and by the peers that are installed, in turns: ``python -m bench``.

The exit code is 1 if farref itself failed at something. A full run takes about half an hour, or
`--minutes`; ``python -m bench call share`` takes a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from . import plots, report
from .catalogue import BENCHMARKS, BY_NAME, Benchmark, typed
from .machine import machine, one_core_busy
from .peers import OURS, PEERS, Spec
from .rounds import Plan, Row, Stage, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_PEERS = [name for name, spec in PEERS.items() if not spec.asked]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, and return the exit code."""
    parser, console = _parser(), Console()
    options = parser.parse_args(arguments)
    plan = Plan(rounds=options.rounds, named=options.points)
    if options.quick:
        plan = replace(plan, rounds=min(options.rounds, 2), seconds=0.01, quick=True)
    if options.list:
        _list(console, plan)
        return 0
    chosen = [BY_NAME[name] for name in dict.fromkeys(options.names)] or list(BENCHMARKS)
    if mistake := _mistake(chosen, plan):
        parser.error(mistake)
    for path in (options.json, options.plots):  # now, not after half an hour
        if path is not None and not path.parent.is_dir():
            parser.error(f"there is no folder {path.parent}")
    if options.plots is not None:
        plots.pyplot()
        options.plots.mkdir(exist_ok=True)
    specs = [PEERS[name] for name in options.peers]
    absent = {spec.title: why for spec in specs if (why := spec.missing())}
    present = [spec for spec in specs if spec.title not in absent]
    where = {**machine(), "one core busy": options.busy}

    def keep(rows: list[Row]) -> None:  # after each: an interrupted run keeps its rows
        if options.json is not None:
            report.save(report.as_json(rows, plan, where, present), options.json)

    with one_core_busy() if options.busy else contextlib.nullcontext():
        rows = _run(chosen, present, plan, keep, options.minutes)
    keep(rows)
    console = Console(width=200) if not console.is_terminal else console
    if rows:
        said = report.heading(report.as_json(rows, plan, where, present))
        console.print(Text(said), soft_wrap=True)
        for table in report.tables(rows, [spec.name for spec in present], plan.rounds):
            console.print(table)
        aims = report.targets(rows, plan.rounds)
        if aims is not None:
            console.print(aims)
    lines = [f"{title}: skipped, {why}" for title, why in absent.items()]
    lines += report.reasons(rows)
    if options.plots is not None:
        lines += [f"drawn: {path}" for path in plots.draw(rows, options.plots)]
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    ours = [row.without.get(OURS, "") for row in rows]  # of peers a failure is only reported
    return int(any(why.startswith(("failed", "did not start")) for why in ours))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure farref beside PyTorch RPC, Ray, Xoscar, Dask, RPyC, "
        "multiprocessing's Manager and raw Thespian messages.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", choices=[*BY_NAME, []], help="benchmarks; default: all")
    add(
        "--peers",
        type=_peers,
        default=DEFAULT_PEERS,
        metavar="NAME,...",
        help=f"compare with these of {', '.join(PEERS)}; the default is {', '.join(DEFAULT_PEERS)}",
    )
    add(
        "--points",
        type=lambda given: tuple(map(typed, given.split(","))),
        default=(),
        metavar="POINT,...",
        help="a benchmark with any of these points, such as 1KB or 1000, is measured at no others, "
        "and the rest keep all of theirs; --list shows them",
    )
    add("--rounds", type=int, default=7, help="the number of turns of each peer")
    add("--minutes", type=float, help="the time for all benchmarks, roughly")
    add("--quick", action="store_true", help="a quick look: two rounds, little work, small sizes")
    add("--busy", action="store_true", help="another program keeps one core busy meanwhile")
    add("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    add("--plots", type=Path, metavar="FOLDER", help="draw PNGs (needs matplotlib)")
    add("--list", action="store_true", help="list the benchmarks with their points, and the peers")
    return parser


def _peers(given: str) -> list[str]:
    names = given.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"there is no peer {unknown[0]!r}: {', '.join(PEERS)}")
    return [name for name in PEERS if name in names]


def _mistake(chosen: list[Benchmark], plan: Plan) -> str | None:
    """The error about a named point of *plan*, if none of the *chosen* benchmarks has it."""
    known = {benchmark.name: _names(benchmark, plan) for benchmark in chosen}
    there = {name for names in known.values() for name in names}
    unknown = [name for name in plan.named if name not in there]
    if not unknown:
        return None
    listed = [f"{', '.join(names)} ({name})" for name, names in known.items() if names]
    run = "a quick run of these" if plan.quick else "these benchmarks"
    there_are = f"there are {'; '.join(listed)}" if listed else "there is none"
    return f"argument --points: no point {unknown[0]!r} in {run}: {there_are}"


def _names(benchmark: Benchmark, plan: Plan) -> list[str]:
    """The names of its points; a benchmark that has one way only has none."""
    return [name for name in plan.offered(benchmark).values() if name]


def _run(
    chosen: list[Benchmark],
    specs: list[Spec],
    plan: Plan,
    keep: Callable[[list[Row]], None],
    minutes: float | None,
) -> list[Row]:
    todo = [(benchmark, point) for benchmark in chosen for point in plan.points(benchmark)]
    todo.sort(key=lambda each: each[0].workers(each[1]))  # keeps the same peers as long as possible
    shown = Console(stderr=True)
    rows: list[Row] = []
    end = None if minutes is None else time.monotonic() + minutes * 60
    with Stage(specs) as stage:
        steps = track(todo, console=shown, transient=True, disable=not shown.is_terminal)
        for benchmark, point in steps:
            hurried = plan
            if end is not None:
                share = (end - time.monotonic()) / (len(todo) - len(rows))
                peers = sum(spec.does(benchmark, point) for spec in specs)
                hurried = plan.within(share, peers, benchmark, point)
            rows.append(measure(benchmark, point, hurried, stage))
            keep(rows)
    order = list(BY_NAME)
    return sorted(rows, key=lambda row: (order.index(row.benchmark.name), row.point))


def _list(console: Console, plan: Plan) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for benchmark in BENCHMARKS:
        names = ", ".join(_names(benchmark, plan))
        table.add_row(
            benchmark.name, f"{benchmark.what} Points: {names}." if names else benchmark.what
        )
    table.add_row()
    for spec in PEERS.values():
        table.add_row(spec.name, f"{spec.title}: {spec.missing() or spec.version()}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

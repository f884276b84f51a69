"""`farref bench`: the benchmarks, by farref and by the peers that are installed, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..bench import plots, report
from ..bench.catalogue import BENCHMARKS, BY_NAME, Benchmark
from ..bench.machine import machine
from ..bench.peers import OURS, PEERS, Spec
from ..bench.rounds import Plan, Row, Stage, measure

DEFAULT_PEERS = [name for name in PEERS if name != "base-no-spin"]


def complete(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names that begin so, with a sentence each: for the shell's tab key."""
    for benchmark in BENCHMARKS:
        if benchmark.name.startswith(incomplete):
            yield benchmark.name, benchmark.what


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Which ones; all of them without it.",
            autocompletion=complete,
            show_default=False,
        ),
    ] = None,
    *,
    peers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help=f"Beside whom: of {', '.join(PEERS)}. Without it, all that are installed, "
            "but not base-no-spin.",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each peer has its turn.")] = 7,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="About how long all of it may take; without it as long as it needs.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance: two rounds of little work, small sizes.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Save every figure as JSON.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option("--plots", metavar="FOLDER", help="Draw PNGs, by matplotlib.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the benchmarks and peers.")] = False,
) -> None:
    """Measure farref beside PyTorch RPC, Ray, Xoscar and raw Thespian messages, in one run.

    Each peer works in processes of its own; they take turns, round by round. The
    exit code is 1 if farref itself failed at something. A full run takes about
    half an hour, or `--minutes`; `farref bench call share` a minute.
    """  # fmt: skip
    console = Console()
    if listed:
        _list(console)
        return
    chosen = [_benchmark(name) for name in dict.fromkeys(names)] if names else list(BENCHMARKS)
    specs = _peers(peers)
    if pictures is not None:
        try:
            plots.pyplot()
            pictures.mkdir(parents=True, exist_ok=True)
        except (plots.NoMatplotlib, OSError) as error:  # now, not after half an hour
            raise typer.BadParameter(str(error), param_hint="--plots") from error
    if save is not None:
        if not save.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {save.parent}", param_hint="--json")
        try:
            save.open("a").close()
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--json") from error
    absent = {spec.name: why for spec in specs if (why := spec.missing())}
    present = [spec for spec in specs if spec.name not in absent]
    plan = Plan(rounds=min(rounds, 2), seconds=0.01, quick=True) if quick else Plan(rounds=rounds)
    where = machine()

    def keep(rows: list[Row]) -> None:  # after each: a run that is broken off keeps what it has
        if save is not None:
            report.save(report.as_json(rows, plan, where, present), save)

    rows = _run(chosen, present, plan, keep, minutes)
    keep(rows)
    console = Console(width=200) if not console.is_terminal else console
    if rows:
        said = report.heading(report.as_json(rows, plan, where, present))
        console.print(Text(said), soft_wrap=True)
        for table in report.tables(rows, [spec.name for spec in present], plan.rounds):
            console.print(table)
        aims = report.targets(rows)
        if aims is not None:
            console.print(aims)
    for name, why in absent.items():
        console.print(Text(f"{PEERS[name].title}: skipped, {why}"), soft_wrap=True)
    for line in report.reasons(rows):
        console.print(Text(line), soft_wrap=True)
    if pictures is not None:
        for path in plots.draw(rows, pictures):
            console.print(Text(f"drawn: {path}"), soft_wrap=True)
    if any(_failed(row) for row in rows):
        raise typer.Exit(1)


def _run(
    chosen: list[Benchmark],
    specs: list[Spec],
    plan: Plan,
    keep: Callable[[list[Row]], None],
    minutes: float | None,
) -> list[Row]:
    todo = [(benchmark, point) for benchmark in chosen for point in plan.points(benchmark)]
    todo.sort(key=lambda each: each[0].workers(each[1]))  # the same peers as long as they will do
    shown = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=shown,
        transient=True,
        disable=not shown.is_terminal,
    )
    rows: list[Row] = []
    end = None if minutes is None else time.monotonic() + minutes * 60
    with progress, Stage(specs) as stage:
        task = progress.add_task("", total=len(todo))
        for done, (benchmark, point) in enumerate(todo):
            progress.update(task, description=benchmark.named(point))
            hurried = plan
            if end is not None:
                share = (end - time.monotonic()) / (len(todo) - done)
                hurried = plan.within(share, sum(spec.does(benchmark.work) for spec in specs))
            rows.append(measure(benchmark, point, hurried, stage, progress.refresh))
            keep(rows)
            progress.advance(task)
    order = list(BY_NAME)
    return sorted(rows, key=lambda row: (order.index(row.benchmark.name), row.point))


def _failed(row: Row) -> bool:
    """Whether farref did not do what it should: a peer's failure is only told."""
    return row.without.get(OURS, "").startswith(("failed", "did not start"))


def _benchmark(name: str) -> Benchmark:
    if name not in BY_NAME:
        known = ", ".join(BY_NAME)
        raise typer.BadParameter(
            f"there is no benchmark {name!r}; there are: {known}", param_hint="NAME"
        )
    return BY_NAME[name]


def _peers(given: str | None) -> list[Spec]:
    if given is None:
        return [PEERS[name] for name in DEFAULT_PEERS]
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        said = f"there is no peer {unknown[0]!r}" if unknown else "no peer is named"
        raise typer.BadParameter(f"{said}; there are: {', '.join(PEERS)}", param_hint="--peers")
    return [spec for name, spec in PEERS.items() if name in names]


def _list(console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for benchmark in BENCHMARKS:
        table.add_row(benchmark.name, benchmark.what)
    table.add_row()
    for spec in PEERS.values():
        table.add_row(spec.name, f"{spec.title}: {spec.missing() or spec.version()}")
    console.print(table)

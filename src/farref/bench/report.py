"""Rows as a table for people, in a terminal or in Markdown, and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from .machine import about
from .peers import OURS, PEERS, RAW

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .catalogue import Unit
    from .peers import Spec
    from .rounds import Plan, Row

LOST = "worse"
"""What marks a row that a peer wins."""


def shown(value: float, unit: Unit) -> str:
    """*value* with three digits and a unit that suits it."""
    if unit == "per second":
        return f"{_digits(value)}/s"
    steps = (
        ((1, "s"), (1e-3, "ms"), (1e-6, "us"))
        if unit == "seconds"
        else ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
    )
    for scale, name in steps:
        if abs(value) >= scale:
            return f"{_digits(value / scale)} {name}"
    scale, name = steps[-1]
    return f"{_digits(value / scale)} {name}"


def _digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.10g}"


def table(rows: Iterable[Row], names: Sequence[str], *, markdown: bool = False) -> Table:
    """The figures of *rows*, a column for each of the peers *names*, and the ratios."""
    made = Table(box=box.MARKDOWN if markdown else box.SIMPLE_HEAD, padding=(0, 1))
    made.add_column("")
    for name in names:
        made.add_column(PEERS[name].title, justify="right")
    compared = _compared(names)
    for _, head in compared:
        made.add_column(head, justify="right")
    for row in rows:
        cells = [_cell(row, name) for name in names]
        made.add_row(row.title, *cells, *(_ratio(row, what) for what, _ in compared))
    return made


def _compared(names: Sequence[str]) -> list[tuple[str, str]]:
    if OURS not in names:
        return []
    peers = [("best", "ours : best peer")] if any(not PEERS[name].ours for name in names) else []
    return [*peers, *([("raw", "ours : raw")] if RAW in names else [])]


def _cell(row: Row, name: str) -> Text:
    if name not in row.figures:
        return Text("-", style="dim")
    low, high = row.quartiles(name)
    median = row.median(name)
    spread = (high - low) / 2 / median if median else 0.0
    return Text(f"{shown(median, row.benchmark.unit)} ±{spread:.0%}")


def _ratio(row: Row, what: str) -> Text:
    ratio = row.ratio(OURS, row.best() if what == "best" else RAW)
    if ratio is None:
        return Text("-", style="dim")
    if what == "best" and row.loses:
        return Text(f"{_digits(ratio)} {LOST}", style="bold red")
    return Text(_digits(ratio))


def reasons(rows: Iterable[Row]) -> list[str]:
    """A line for each peer and reason why it has no figure, with the benchmarks it lacks."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, why in row.without.items():
            lacking.setdefault((name, why), []).append(row.benchmark.name)
    return [
        f"{PEERS[name].title}: no {', '.join(dict.fromkeys(benchmarks))} ({why})"
        for (name, why), benchmarks in lacking.items()
    ]


def heading(plan: Plan, where: dict[str, object], versions: dict[str, str]) -> str:
    """How it was measured, in two lines."""
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"median of {plan.rounds} interleaved rounds (3 where they are slow), "
        f"± half the interquartile range; {said}\n"
        f"{about(where)}"
    )


def as_json(
    rows: Iterable[Row], plan: Plan, where: dict[str, object], specs: Sequence[Spec]
) -> dict[str, object]:
    """All that is known, to keep or to plot."""
    return {
        "machine": where,
        "versions": {spec.distribution: spec.version() for spec in specs},
        "rounds": plan.rounds,
        "seconds a round": plan.seconds,
        "quick": plan.quick,
        "results": [row.said() for row in rows],
    }

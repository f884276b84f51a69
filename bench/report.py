"""Rows as a table for people, in a terminal or in Markdown, and as JSON for programs."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from .catalogue import GROUPS
from .figures import digits, shown
from .machine import about, versions
from .peers import OURS, PEERS, RAW, VARIANTS
from .rounds import FEW
from .targets import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from .catalogue import Unit
    from .growth import Growth
    from .peers import Spec
    from .rounds import Plan, Row

LOST = "worse"
"""The mark of a row that a peer wins."""


def tables(
    rows: Sequence[Row], names: Sequence[str], rounds: int, *, markdown: bool = False
) -> list[Table]:
    """A table for each group of *rows*; a peer without any figure in it has no column.

    A row with fewer rounds than *rounds* says so.
    """
    found = []
    for group in GROUPS:
        of_group = [row for row in rows if row.benchmark.group == group]
        there = [name for name in names if any(name in row.figures for row in of_group)]
        if there:
            found.append(_table(group, of_group, there, rounds, markdown=markdown))
    return found


def _table(
    title: str, rows: Sequence[Row], names: Sequence[str], rounds: int, *, markdown: bool
) -> Table:
    made = _empty(title, title if markdown else "", markdown=markdown)
    for name in names:
        made.add_column(PEERS[name].title, justify="right")
    compared: list[tuple[str, Callable[[Row], Text]]] = []
    if OURS in names and any(not PEERS[name].ours for name in names):
        compared.append(("ours : best peer", _to_best))
    if OURS in names and RAW in names:
        compared.append(("ours : raw", functools.partial(_ratio, one=OURS, other=RAW)))
    compared += [
        (f"{name} : ours", functools.partial(_ratio, one=name, other=OURS))
        for name in VARIANTS
        if name in names and OURS in names
    ]
    if any(map(verdicts, rows)):
        compared.append(("targets", _aims))
    for head, _ in compared:
        made.add_column(head, justify="right")
    for row in rows:
        cells = [_cell(row, name) for name in names]
        made.add_row(_named(row, rounds), *cells, *(cell(row) for _, cell in compared))
    return made


def _named(row: Row, rounds: int, enough: int | None = None) -> str:
    """The title of *row*, which says so if it has fewer rounds than *enough* of *rounds*."""
    few = row.rounds < (enough or rounds)
    return f"{row.title} ({row.rounds} of {rounds} rounds)" if few else row.title


def _empty(title: str, first: str, *, markdown: bool) -> Table:
    made = Table(
        box=box.MARKDOWN if markdown else box.SIMPLE_HEAD,
        padding=(0, 1),
        title=None if markdown else title,
        title_justify="left",
    )
    made.add_column(first, no_wrap=True)
    return made


def _cell(row: Row, name: str) -> Text:
    if name not in row.figures:
        return Text("-", style="dim")
    median = row.median(name)
    said = shown(median, row.benchmark.unit)
    if row.rounds < 2 or not median:
        return Text(said)
    low, high = row.quartiles(name)
    return Text(f"{said} ±{(high - low) / 2 / median:.0%}")


def _to_best(row: Row) -> Text:
    ratio = row.ratio(OURS, row.best())
    if ratio is None:
        return Text("-", style="dim")
    if row.loses:
        return Text(f"{digits(ratio)} {LOST}", style="bold red")
    return Text(digits(ratio))


def _ratio(row: Row, one: str, other: str) -> Text:
    ratio = row.ratio(one, other)
    return Text("-", style="dim") if ratio is None else Text(digits(ratio))


def _aims(row: Row) -> Text:
    """How many of its targets the row meets."""
    all_of = verdicts(row)
    met = sum(verdict.met for verdict in all_of)
    if not all_of:
        return Text("-", style="dim")
    said = "met" if met == len(all_of) else "not met"
    of = f" ({met} of {len(all_of)})" if 0 < met < len(all_of) else ""
    return Text(f"{said}{of}", style="green" if said == "met" else "bold red")


def targets(rows: Iterable[Row], rounds: int) -> Table | None:
    """Every judged target, and whether it is met; None if there is none.

    A row with fewer than `FEW` of *rounds* says so.
    """
    found = [verdict for row in rows for verdict in verdicts(row)]
    if not found:
        return None
    made = _empty("targets", "", markdown=False)
    made.add_column("figure or ratio of")
    for head in ("aimed at", "measured", ""):
        made.add_column(head, justify="right")
    for verdict in found:
        said = Text(verdict.said, style="green" if verdict.met else "bold red")
        title = _named(verdict.row, rounds, min(FEW, rounds))
        made.add_row(title, verdict.compared, verdict.aim, verdict.measured, said)
    return made


def missed(runs: Mapping[str, Iterable[Row]]) -> Table:
    """The targets of farref as it is installed that one of *runs* misses, with all figures.

    A figure that misses is bold. One of fewer than `FEW` rounds has a `?`.
    """
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    misses = set()
    for name, rows in runs.items():
        for verdict in (each for row in rows for each in verdicts(row)):
            key = (verdict.row.title, verdict.compared, verdict.aim)
            if verdict.target.ours != OURS:
                continue
            said = f"{verdict.measured}{'?' if verdict.row.rounds < FEW else ''}"
            found.setdefault(key, {})[name] = said if verdict.met else f"**{said}**"
            if not verdict.met:
                misses.add(key)
    made = _empty("", "", markdown=True)
    made.add_column("figure or ratio of")
    for head in ("aimed at", *runs):
        made.add_column(head, justify="right")
    for key, figures in found.items():
        if key in misses:
            made.add_row(*key, *(figures.get(name, "-") for name in runs))
    return made


def grown(part: Growth, *, markdown: bool = False) -> Table:
    """The figures of one growing thing, a row for each step."""
    made = _empty(part.title, part.title if markdown else part.what, markdown=markdown)
    columns: list[tuple[str, list[float], Unit]] = [
        *((name, values, "seconds") for name, values in part.seconds.items()),
        *((f"bytes: {name}", values, "bytes") for name, values in part.bytes.items()),
    ]
    for head, _, _ in columns:
        made.add_column(head, justify="right")
    for at, number in enumerate(part.steps):
        made.add_row(f"{number:,}", *(shown(values[at], unit) for _, values, unit in columns))
    return made


def dropped(part: Growth) -> str | None:
    """The cost of letting go in *part*, in a sentence; None if it was not measured."""
    if part.dropping is None:
        return None
    each = shown(part.dropping, "seconds")
    return f"Dropping, for each of the last step, until all is freed: {each}."


def reasons(rows: Sequence[Row]) -> list[str]:
    """A line for each peer and reason why it has no figure, with the benchmarks it lacks."""
    lacking: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for name, why in row.without.items():
            lacking.setdefault((name, why), {})[_lacked(row, name, rows)] = None
    return [
        f"{PEERS[name].title}: no {', '.join(benchmarks)} ({why})"
        for (name, why), benchmarks in lacking.items()
    ]


def _lacked(row: Row, name: str, rows: Sequence[Row]) -> str:
    """The benchmark, or the row if the peer has figures at other points."""
    has = any(other.benchmark is row.benchmark and name in other.figures for other in rows)
    return row.title if has else row.benchmark.name


def heading(run: dict[str, Any]) -> str:
    """How *run* (by `as_json`) was measured, in two lines."""
    said = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    quick = "a quick look, no figures to quote: " if run["quick"] else ""
    how = f"median of up to {run['rounds']} interleaved rounds, ± half the interquartile range"
    return f"{quick}{how}; {said}\n{about(run['machine'])}"


def as_json(
    rows: Iterable[Row], plan: Plan, where: dict[str, object], specs: Sequence[Spec]
) -> dict[str, Any]:
    return {
        "machine": where,
        "versions": versions(specs),
        "peers": [spec.name for spec in specs],
        "rounds": plan.rounds,
        "quick": plan.quick,
        "results": [
            {**row.said(), "targets": [verdict.as_json() for verdict in verdicts(row)]}
            for row in rows
        ],
    }


def save(said: dict[str, Any], path: Path) -> None:
    """Write *said* to *path*: a line for each result, five digits for each figure."""

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {key: short(each) for key, each in value.items()}
        return [short(each) for each in value] if isinstance(value, list | tuple) else value

    results = [json.dumps(short(each)) for each in said["results"]]
    rest = json.dumps({key: value for key, value in said.items() if key != "results"}, indent=1)
    listed = ",\n  ".join(results)
    path.write_text(f'{rest[:-2]},\n "results": [\n  {listed}\n ]\n}}\n', encoding="utf-8")

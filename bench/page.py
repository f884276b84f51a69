"""Write the tables of docs/benchmarks.md from the measurements; people write the text around.

``python -m bench.page`` reads the files docs/bench*.json, which `make bench-plots` measures. The
page has the main figures, and the files have all of them. Each written part stands between two
comments of the page; a test compares it.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from . import report
from .growth import Growth
from .machine import about
from .rounds import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
RUNS = {
    "idle": "bench.json",
    "one core busy": "bench-busy.json",
    "slow host": "bench-slow.json",
}
"""The runs that judge the targets, and the measurements of each."""
SHOWN = (
    *("call", "method", "method-lent", "in-flight", "methods-in-flight", "one-way"),
    *("values", "frozen"),
    *("remote-fetch", "share", "share-fetch", "references", "create-drop"),
)
"""The benchmarks that the page shows."""
UNSHOWN = ("main", "traced", "least", "thespian", "workers, in one process")
"""Peers and growing things that the page leaves out: they answer questions of developers."""
BEGIN, END = "<!-- {}: written by bench/page.py -->", "<!-- end of {} -->"


def as_markdown(table: Table) -> str:
    """*table* in the form of a page."""
    out = io.StringIO()
    Console(file=out, width=500).print(table)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def benchmarks(run: dict[str, Any]) -> str:
    """The main tables of ``python -m bench``: `SHOWN`, without the peers in `UNSHOWN`."""
    rows = [Row.from_json(said) for said in run["results"]]
    rows = [row for row in rows if row.benchmark.name in SHOWN]
    peers = [name for name in run["peers"] if name not in UNSHOWN]
    tables = report.tables(rows, peers, run["rounds"], markdown=True)
    pieces = [f"{report.heading(run)}.\n", *map(as_markdown, tables)]
    pieces.append("![the benchmarks](bench.png)\n\n![what grows](bench-scaling.png)\n")
    return "\n".join(pieces)


def missed(*runs: dict[str, Any]) -> str:
    """The targets that one of `RUNS` misses."""
    results = [[Row.from_json(said) for said in run["results"]] for run in runs]
    return as_markdown(report.missed(dict(zip(RUNS, results, strict=True))))


def scale(run: dict[str, Any]) -> str:
    pieces = [f"{about(run['machine'])}.\n"]
    for part in (Growth(**said) for said in run["parts"] if said["title"] not in UNSHOWN):
        pieces.append(as_markdown(report.grown(part, markdown=True)))
        if (said := report.dropped(part)) is not None:
            pieces.append(f"{said}\n")
    return "\n".join([*pieces, "![scale](bench-scale.png)\n"])


BLOCKS: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "benchmarks": (("bench.json",), benchmarks),
    "missed": (tuple(RUNS.values()), missed),
    "scale": (("bench-scale.json",), scale),
}
"""Each block of the page: its measurements, and the function that tells them."""


def written(page: str) -> str:
    """*page* with every block written anew from the figures."""
    for block, (names, write) in BLOCKS.items():
        begin, end = BEGIN.format(block), END.format(block)
        before, there, rest = page.partition(f"{begin}\n")
        _, closed, after = rest.partition(end)
        if not (there and closed):
            raise SystemExit(f"{PAGE.name} has no block of {begin!r} up to {end!r}")
        runs = [json.loads((DOCS / name).read_text(encoding="utf-8")) for name in names]
        page = f"{before}{begin}\n\n{write(*runs)}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

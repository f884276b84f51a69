"""Write the tables of figures of two pages from the measurements; people write the text around.

    python -m bench.page                # from the files docs/bench*.json
    python -m bench.page --check        # exit code 1 if a page says something else

docs/aims.md has the targets, docs/benchmarks.md has everything. `make bench-plots` measures.
Each written part stands between two comments of its page.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from . import report
from .growth import Growth
from .machine import about
from .rounds import Row

if TYPE_CHECKING:
    from rich.table import Table

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- {}: written by bench/page.py -->", "<!-- end of {} -->"
UNMEASURED = "*Not measured yet: `make bench-plots` writes the figures here.*\n"


def as_markdown(table: Table) -> str:
    """*table* in the form of a page."""
    out = io.StringIO()
    Console(file=out, width=500).print(table)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def benchmarks(run: dict[str, Any]) -> str:
    """The tables of ``python -m bench``."""
    rows = [Row.from_json(said) for said in run["results"]]
    tables = report.tables(rows, run["peers"], run["rounds"], markdown=True)
    pieces = [f"{report.heading(run)}.\n", *map(as_markdown, tables)]
    pieces.append("".join(f"- {line}\n" for line in report.reasons(rows)))
    pieces.append("![the benchmarks](bench.png)\n\n![what grows](bench-scaling.png)\n")
    return "\n".join(piece for piece in pieces if piece)


def targets(run: dict[str, Any]) -> str:
    """The judged targets of ``python -m bench``."""
    aims = report.targets(map(Row.from_json, run["results"]), run["rounds"], markdown=True)
    return f"{report.heading(run)}.\n\n{'' if aims is None else as_markdown(aims)}"


def scale(run: dict[str, Any]) -> str:
    """The tables of bench/scale.py."""
    pieces = [f"{about(run['machine'])}.\n"]
    for part in (Growth(**said) for said in run["parts"]):
        pieces.append(as_markdown(report.grown(part, markdown=True)))
        if (said := report.dropped(part)) is not None:
            pieces.append(f"{said}\n")
    return "\n".join([*pieces, "![scale](bench-scale.png)\n"])


PAGES = {
    "aims.md": {
        "targets": ("bench.json", targets),
        "busy": ("bench-busy.json", targets),
        "slow": ("bench-slow.json", targets),
    },
    "benchmarks.md": {
        "benchmarks": ("bench.json", benchmarks),
        "scale": ("bench-scale.json", scale),
    },
}
"""Each page, and its blocks: the measurements, and the function that tells them."""


def written(name: str, page: str) -> str:
    """*page*, which has this *name*, with every block written anew from the figures."""
    for block, (kept, write) in PAGES[name].items():
        begin, end = BEGIN.format(block), END.format(block)
        before, there, rest = page.partition(f"{begin}\n")
        _, closed, after = rest.partition(end)
        if not (there and closed):
            raise SystemExit(f"{name} has no block of {begin!r} up to {end!r}")
        path = DOCS / kept
        known = path.exists()
        told = write(json.loads(path.read_text(encoding="utf-8"))) if known else UNMEASURED
        page = f"{before}{begin}\n\n{told}\n{end}{after}"
    return page


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare; write nothing")
    options = parser.parse_args()
    for name in PAGES:
        path = DOCS / name
        page = path.read_text(encoding="utf-8")
        wanted = written(name, page)
        if not options.check:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != page:
            sys.exit(f"{name} differs from the measured figures: run `python -m bench.page`")


if __name__ == "__main__":
    main()

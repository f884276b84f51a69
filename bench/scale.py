"""Whether time and memory stay flat: 1,000,000 references, 200 workers, 32 hosts.

    python -m bench.scale                       # everything: about seven minutes, 4 GB of memory
    python -m bench.scale references --most 100000
    python -m bench.scale elected               # needs an etcd
    python -m bench.scale --json figures.json --plot docs/bench-scale.png

`bench.growth` describes the measurements; times are processor time.
"""

from __future__ import annotations

import argparse
import functools
import json
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from rich.console import Console

from .figures import shown
from .growth import Growth, references, workers
from .hosts import hosts
from .machine import about, machine
from .plots import pyplot
from .report import dropped, grown

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS: dict[str, tuple[Callable[[int], Growth], int]] = {
    "workers": (workers, 200),
    "references": (references, 1_000_000),
    "hosts": (hosts, 32),
    "elected": (functools.partial(hosts, elected=True), 32),
    "endpoints": (functools.partial(workers, base="simpleSystemBase"), 200),
}
"""In this order: a system's processes inherit the memory that this process held before."""


def plot(parts: list[Growth], path: Path) -> None:
    plt = pyplot()
    figure, rows = plt.subplots(
        len(parts), 2, figsize=(10, 2.6 * len(parts)), layout="constrained", squeeze=False
    )
    for (left, right), part in zip(rows, parts, strict=True):
        for axes, lines, unit in ((left, part.seconds, "seconds"), (right, part.bytes, "bytes")):
            for name, values in lines.items():
                axes.plot(part.steps, values, "o-", label=name, markersize=4)
            axes.set(xscale="log", title=f"{part.title}: {unit}", ylim=(0, None))
            axes.yaxis.set_major_formatter(lambda value, _, unit=unit: shown(value, unit))
            axes.grid(visible=True, alpha=0.3)
            axes.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="|".join(PARTS))
    parser.add_argument("--most", type=int, help="largest number, not the one of the part")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="draw a PNG (needs matplotlib)")
    options = parser.parse_args()
    if options.most is not None and options.most < 1:
        parser.error("--most must be 1 or more")
    for path in (options.json, options.plot):  # now, not in seven minutes
        if path is not None and not path.parent.is_dir():
            parser.error(f"there is no folder {path.parent}")
    if options.plot is not None:
        pyplot()
    console, where, parts = Console(width=130), machine(), []
    console.print(about(where))
    for name in options.parts or [name for name in PARTS if name != "elected" or which("etcd")]:
        work, most = PARTS[name]
        parts.append(work(options.most or most))
        console.print(grown(parts[-1]))
        console.print(f"{dropped(parts[-1]) or ''}\n")
    if options.json:
        said = {"machine": where, "parts": [asdict(part) for part in parts]}
        options.json.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(parts, options.plot)


if __name__ == "__main__":
    main()

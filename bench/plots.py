"""Rows as pictures: a bar for each peer, and lines where a benchmark has several points."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .figures import shown
from .peers import OURS, PEERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .rounds import Row

STORY = {
    "call": "a call, and its result",
    "remote-fetch": "an object made elsewhere, and fetched",
    "share": "a reference passed on to a third process",
}
"""The benchmarks of the picture of docs/performance.md, in words for everybody."""


def pyplot() -> Any:
    """Matplotlib, drawing into files."""
    importlib.import_module("matplotlib").use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def _colour(plt: Any, name: str) -> Any:
    """The colour of a peer, the same in every picture."""
    return plt.get_cmap("tab20")(list(PEERS).index(name))


def draw(rows: Iterable[Row], folder: Path) -> list[Path]:
    """Write the pictures of *rows* into the existing *folder*; returns their paths."""
    plt = pyplot()
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        if row.figures:
            by_name.setdefault(row.benchmark.name, []).append(row)
    single = [found[0] for found in by_name.values() if len(found) == 1]
    lines = [found for found in by_name.values() if len(found) > 1]
    written = []
    if single:
        written.append(_bars(plt, single, folder / "bench.png"))
    story = [_beside_peers(row) for row in single if row.benchmark.name in STORY]
    if story:
        written.append(_bars(plt, story, folder / "bench-story.png", STORY))
    if lines:
        written.append(_lines(plt, lines, folder / "bench-scaling.png"))
    return written


def _beside_peers(row: Row) -> Row:
    """farref and the peers alone, the fastest first: neither its variants nor raw messages."""
    names = [name for name in row.figures if name == OURS or not PEERS[name].ours]
    names = [name for name in names if name != "thespian"]
    return replace(row, figures={name: row.figures[name] for name in sorted(names, key=row.median)})


def _grid(plt: Any, number: int, columns: int, height: float) -> tuple[Any, list[Any]]:
    rows = -(-number // columns)
    figure, all_axes = plt.subplots(
        rows, columns, figsize=(11, height * rows), layout="constrained", squeeze=False
    )
    for axes in all_axes.flat[number:]:
        axes.set_axis_off()
    return figure, list(all_axes.flat[:number])


def _bars(
    plt: Any, rows: Sequence[Row], path: Path, titles: Mapping[str, str] | None = None
) -> Path:
    figure, all_axes = _grid(plt, len(rows), columns=3, height=1.9)
    figure.suptitle(
        "a shorter bar is better; the line at its end shows how rounds differ", fontsize=8
    )
    for axes, row in zip(all_axes, rows, strict=True):
        names = list(row.figures)
        medians = [row.median(name) for name in names]
        errors = list(zip(*(row.quartiles(name) for name in names), strict=True))
        low = [max(0.0, m - q) for m, q in zip(medians, errors[0], strict=True)]
        high = [max(0.0, q - m) for m, q in zip(medians, errors[1], strict=True)]
        colours = [_colour(plt, name) for name in names]
        axes.barh(range(len(names)), medians, xerr=(low, high), color=colours, ecolor="#444")
        for at, (median, above) in enumerate(zip(medians, high, strict=True)):
            said = shown(median, row.benchmark.unit)
            axes.text(median + above, at, f"  {said}", va="center", fontsize=7)
        axes.set_xlim(right=1.25 * max(map(sum, zip(medians, high, strict=True))))
        axes.set_yticks(range(len(names)), [PEERS[name].title for name in names], fontsize=7)
        axes.invert_yaxis()
        axes.set_xticks([])
        title = titles[row.benchmark.name] if titles else row.title
        axes.set_title(f"{title}, longer is better" if row.more_is_better else title, fontsize=9)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _lines(plt: Any, groups: Sequence[Sequence[Row]], path: Path) -> Path:
    figure, all_axes = _grid(plt, len(groups), columns=2, height=3)
    for axes, rows in zip(all_axes, groups, strict=True):
        names = dict.fromkeys(name for row in rows for name in row.figures)
        for name in names:
            points = [
                (max(row.point, 0.5), row.median(name), *row.quartiles(name))
                for row in rows
                if name in row.figures
            ]
            at, median, low, high = zip(*points, strict=True)
            style, colour = "o-" if name == OURS else ".-", _colour(plt, name)
            axes.plot(at, median, style, color=colour, label=PEERS[name].title)
            axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        label_axes(axes, rows)
    handles: dict[str, Any] = {}
    for axes in all_axes:
        handles |= {
            label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=8, frameon=False
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def label_axes(axes: Any, rows: Sequence[Row]) -> None:
    """Logarithmic axes with the measured points and the figure's unit."""
    benchmark = rows[0].benchmark
    axes.set(xscale="log", yscale="log")
    points = [row.point for row in rows]
    names = [benchmark.point_name(point) for point in points]
    axes.set_xticks([max(p, 0.5) for p in points], names, fontsize=7)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: shown(value, benchmark.unit))
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel(benchmark.point, fontsize=8)
    axes.set_title(benchmark.title.format("n"), fontsize=9)
    axes.grid(visible=True, alpha=0.25)

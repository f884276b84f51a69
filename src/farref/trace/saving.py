"""Saving a story: as lines that can be shown again, as a picture, or as an interactive page.

The suffix decides: ``.jsonl`` keeps the steps themselves, in causal order, in one file; ``.svg``
keeps the picture; ``.html`` is the page, with a filter and the tables at each step. Each file is
complete in itself and loads nothing from elsewhere.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

from rich.terminal_theme import TerminalTheme

from ..actors.recording.tracing import FORMAT
from ..console import Console
from ..printable import json_text
from .export.page import page
from .progress import Progress, silent
from .show import show
from .story import Story

WIDTH = 110
"""The width of a saved picture, in cells."""

_THEME = TerminalTheme(
    (252, 252, 250),
    (38, 42, 48),
    [
        (38, 42, 48), (192, 57, 43), (46, 125, 50), (176, 120, 0),
        (31, 97, 174), (130, 60, 150), (0, 120, 130), (120, 124, 130),
    ],
)  # fmt: skip
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono",
  Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px;
  font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect fill="#fcfcfa" stroke="#d0d4da" x="1" y="1" width="100%" height="100%" rx="6"/>
<g transform="translate(12, 12)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class SuffixError(ValueError):
    """A file name's suffix names no form to save in."""


def saver(path: Path) -> Callable[[Story, Progress], str]:
    """The function that makes the text of a file of *path*'s suffix. Raises `SuffixError`."""
    made = _SAVERS.get(path.suffix.lower())
    if made is None:
        raise SuffixError(
            f"{path.name}: a trace is saved as one of {', '.join(_SAVERS)}; give a name with one "
            "of these endings"
        )
    return made


def save(story: Story, path: Path, progress: Progress = silent) -> None:
    """Save *story* to *path*. Raises `SuffixError`, `OSError`."""
    path.write_text(saver(path)(story, progress), encoding="utf-8")


def _lines(story: Story, _: Progress) -> str:
    head = ["trace", FORMAT, story.title, story.notes]
    rows = (head, *(json.loads(each.line) for each in story.records if each.line))
    return "".join(json_text(row, separators=(",", ":")) + "\n" for row in rows)


def svg(console: Console) -> str:
    """What was drawn on *console*, one of `canvas`, as a picture."""
    return console.export_svg(theme=_THEME, code_format=_SVG, unique_id="farref")


def drawn(story: Story, width: int) -> Console:
    """A recording console on which the picture was drawn, *width* cells wide."""
    console = canvas(width)
    show(story, console)
    return console


def canvas(width: int) -> Console:
    # Its own encoding: the saved text does not depend on the terminal.
    page = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    return Console(
        file=page, width=width, record=True, force_terminal=True, color_system="truecolor",
        no_color=False, legacy_windows=False,
    )  # fmt: skip


_SAVERS: dict[str, Callable[[Story, Progress], str]] = {
    ".jsonl": _lines,
    ".svg": lambda story, _: svg(drawn(story, WIDTH)),
    ".html": page,
}

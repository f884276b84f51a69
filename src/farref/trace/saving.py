"""Saving a story: as lines that can be shown again, as a picture, or as an interactive page.

The suffix decides: ``.jsonl`` keeps the steps themselves, in causal order, in one file; ``.svg``
keeps the picture; ``.html`` is the page of ``farref trace --export html``, with a filter and the
tables at each step. Each file is complete in itself and loads nothing from elsewhere.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.terminal_theme import TerminalTheme

from ..actors.recording.encoding import FORMAT
from ..console import Console
from ..printable import json_text
from .export.page import page
from .show import show

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .story import Story

WIDTH = 110
"""The default width of a saved picture, in cells."""

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


def saver(path: Path) -> Callable[[Story, Path, int], None]:
    """The function that saves to a file of *path*'s suffix. Raises `SuffixError`."""
    save = _SAVERS.get(path.suffix.lower())
    if save is None:
        raise SuffixError(
            f"{path.name}: a trace is saved as one of {', '.join(_SAVERS)}; give a name with one "
            "of these endings"
        )
    return save


def save(story: Story, path: Path, width: int = WIDTH) -> None:
    """Save *story* to *path*, *width* cells wide. Raises `SuffixError`, `OSError`."""
    saver(path)(story, path, width)


def _save_lines(story: Story, path: Path, _width: int) -> None:
    head = {"kind": "trace", "format": FORMAT, "title": story.title, "notes": story.notes}
    lines = [head, *(record.fields for record in story.records)]
    text = "".join(json_text(line) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def _save_svg(story: Story, path: Path, width: int) -> None:
    svg = _drawn(story, width).export_svg(theme=_THEME, code_format=_SVG, unique_id="farref")
    path.write_text(svg, encoding="utf-8")


def _save_html(story: Story, path: Path, _width: int) -> None:
    path.write_text(page(story), encoding="utf-8")


def _drawn(story: Story, width: int) -> Console:
    # Its own encoding: the saved text does not depend on the terminal.
    page = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    console = Console(
        file=page, width=width, record=True, force_terminal=True, color_system="truecolor",
        no_color=False, legacy_windows=False,
    )  # fmt: skip
    show(story, console)
    return console


_SAVERS: dict[str, Callable[[Story, Path, int], None]] = {
    ".jsonl": _save_lines,
    ".svg": _save_svg,
    ".html": _save_html,
}

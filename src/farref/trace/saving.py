"""Saving a story: as lines that can be shown again, or as an interactive page.

The suffix decides: ``.jsonl`` keeps the steps themselves, in causal order, in one file; ``.html``
is the page, with a filter and the tables at each step. Each file is complete in itself and loads
nothing from elsewhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..actors.recording.encoding import FORMAT
from ..printable import json_text
from .export.page import page
from .progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .story import Story


class SuffixError(ValueError):
    """A file name's suffix names no form to save in."""


def saver(path: Path) -> Callable[[Story, Path, Progress], None]:
    """The function that saves to a file of *path*'s suffix. Raises `SuffixError`."""
    save = _SAVERS.get(path.suffix.lower())
    if save is None:
        raise SuffixError(
            f"{path.name}: a trace is saved as one of {', '.join(_SAVERS)}; give a name with one "
            "of these endings"
        )
    return save


def save(story: Story, path: Path, progress: Progress = silent) -> None:
    """Save *story* to *path*. Raises `SuffixError`, `OSError`."""
    saver(path)(story, path, progress)


def _save_lines(story: Story, path: Path, _progress: Progress) -> None:
    head = ["trace", FORMAT, story.title, story.notes]
    rows = (head, *(json.loads(each.line) for each in story.records if each.line))
    text = "".join(json_text(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def _save_html(story: Story, path: Path, progress: Progress) -> None:
    path.write_text(page(story, progress), encoding="utf-8")


_SAVERS: dict[str, Callable[[Story, Path, Progress], None]] = {
    ".jsonl": _save_lines,
    ".html": _save_html,
}

"""A trace test as a picture: the lanes that `farref trace` draws, of a story in ``tests/traces``.

The pages of docs/ show such pictures: below a line ``<!-- trace: FOLDER/NAME -->`` stands a block
that is made from that story. They come out the same every time, so a test compares them
(``tests/docs/test_pictures.py``), and the site gives them their colours (``tools/site/hooks.py``).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from farref.trace import Recording, load, tell
from farref.trace.saving import _drawn
from farref.tracetest.files import play

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.trace import Story

TRACES = Path(__file__).parents[1] / "traces"
WIDTH = 84
"""Cells: what the site's column has room for."""

SHOWN = re.compile(r"(<!-- trace: (\S+) -->\n)```text\n(.*?)```\n", re.DOTALL)


def story_of(name: str) -> Story:
    """The story in the file *name*, as it happens.

    A trace test has no functions and no values; where a picture names a function it says ``f``.
    """
    with tempfile.TemporaryDirectory(prefix="farref-draw-") as folder:
        play(TRACES / name, Path(folder))
        recording: Recording = load(Path(folder))
    for steps in recording.steps.values():
        for record in steps:
            if record.kind == "run" or record.message in ("Call", "Create", "Invoke"):
                record.fields["label"] = "f"
    return tell(recording)


def picture(name: str) -> str:
    """The picture of the story *name*, as text."""
    return _drawn(story_of(name), WIDTH).export_text(styles=False)


def colours(name: str) -> str:
    """The same in HTML, for the inside of a ``<pre>``."""
    return _drawn(story_of(name), WIDTH).export_html(code_format="{code}", inline_styles=True)


def with_pictures(text: str, made: Callable[[str], str]) -> str:
    """*text*, a page, with what *made* makes of each name for its picture's whole block."""
    return SHOWN.sub(lambda match: match[1] + made(match[2]), text)

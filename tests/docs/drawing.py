"""A trace test as a picture: the lanes that `farref trace` draws, of a story in ``tests/traces``.

The pages of docs/ show such pictures: the block below a line ``<!-- trace: FOLDER/NAME -->`` is
made from that story. The pictures are the same every time. A test compares them
(``tests/docs/test_pictures.py``), and the site gives them their colours (``tools/site/hooks.py``).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from farref.trace import Recording, load, tell
from farref.trace.saving import drawn
from farref.tracetest.files import play

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.trace import Story

TRACES = Path(__file__).parents[1] / "traces"
WIDTH = 84
"""The width of the site's column, in cells."""

SHOWN = re.compile(r"(<!-- trace: (\S+) -->\n)```text\n(.*?)```\n", re.DOTALL)


def story_of(name: str) -> Story:
    """The story in the file *name*, played now.

    A trace test has no functions and no values; a picture names every function ``f``.
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
    return drawn(story_of(name), WIDTH).export_text(styles=False)


def colours(name: str) -> str:
    """The same in HTML, for the inside of a ``<pre>``."""
    return drawn(story_of(name), WIDTH).export_html(code_format="{code}", inline_styles=True)


def with_pictures(text: str, made: Callable[[str], str]) -> str:
    """*text*, a page, in which *made* of each name replaces that picture's whole block."""
    return SHOWN.sub(lambda match: match[1] + made(match[2]), text)

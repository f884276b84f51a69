"""A trace as a Mermaid sequence diagram, which code hosts draw in a document.

Solid arrows are messages with user content, dotted ones are protocol messages. An overtaken message
is a note at its sending and an arrow at its arrival; the same letter marks both. A message that
never arrived ends in a cross.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...printable import printable
from ..progress import Progress, silent
from ..story import Arrow, ArrowPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..story import Row, Story


def mermaid(story: Story, progress: Progress = silent) -> str:
    """The text of the diagram."""
    return "\n".join(_lines(story, progress)) + "\n"


def _lines(story: Story, progress: Progress) -> Iterator[str]:
    if story.title:
        yield from ("---", f'title: "{_escaped(story.title)}"', "---")
    yield "sequenceDiagram"
    lanes = {lane: f"p{place}" for place, lane in enumerate(story.lanes)}
    for lane, short in lanes.items():
        yield f"    participant {short} as {_escaped(story.names.of(lane))}"
    arrived = {
        (row.sender, row.receiver, row.number)
        for row in story.rows
        if isinstance(row, Arrow) and row.part is not ArrowPart.LEAVES
    }
    for number, row in enumerate(story.rows):
        progress(number, len(story.rows))
        yield f"    {_row(row, lanes, arrived)}"
        for fork, stage in ((change.fork, change.stage) for change in row.changes):
            owner = (
                lanes.get(story.objects[fork.rref].owner) if fork.rref in story.objects else None
            )
            if owner is not None:
                yield f"    Note over {owner}: {_escaped(story.names.id(fork.id))} {stage.value}"


def _row(row: Row, lanes: dict[str, str], arrived: set[tuple[str, str, int]]) -> str:
    if not isinstance(row, Arrow):
        return f"Note over {lanes[row.at]}: {_escaped(row.text)}"
    sender, receiver, label = lanes[row.sender], lanes[row.receiver], _escaped(row.full[0])
    tag = f" ({row.tag})" if row.part is not ArrowPart.WHOLE else ""
    if row.part is not ArrowPart.LEAVES:
        return f"{sender}{'->>' if row.user else '-->>'}{receiver}: {label}{tag}"
    if (row.sender, row.receiver, row.number) in arrived:
        return f"Note over {sender}: sends {label}{tag}"
    return f"{sender}{'-x' if row.user else '--x'}{receiver}: {label} (did not arrive)"


def _escaped(text: str) -> str:
    """*text*, with Mermaid's special characters written as character codes."""
    own = {"#": "#35;", ";": "#59;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "%": "#37;"}
    return "".join(own.get(each, each) for each in printable(text))

"""The same story as a list, a line or two for each row: for terminals too narrow for lanes."""

from __future__ import annotations

from collections.abc import Iterator

from ..console import Text
from .look import KIND, MARK, NOTE, QUIET, STAGE, Glyphs
from .story import Arrow, ArrowPart, Row, Story
from .view import Change, Stage


def item(story: Story, row: Row, look: Glyphs) -> Iterator[Text]:
    """The lines of one row."""
    yield _line(story, row, look)
    for change in row.changes:
        fork = story.names.id(change.fork.id)
        yield Text(
            f"    {fork} {change.stage.value} {_whom(story, change)}", style=STAGE[change.stage]
        )
    for note in row.notes:
        yield Text(f"    {note.text}", style=NOTE)


def _whom(story: Story, change: Change) -> str:
    holder = story.names.of(change.fork.holder)
    match change.stage:
        case Stage.LENT:
            return f"to {holder}"
        case Stage.HELD | Stage.RETURNED:
            return f"by {holder}"
        case _:
            return f"to {story.names.of(story.objects[change.fork.rref].owner)}"


def _line(story: Story, row: Row, look: Glyphs) -> Text:
    if not isinstance(row, Arrow):
        mark = look.marks.get(row.kind, "*")
        text = f"{story.names.of(row.at)} {mark} {row.text}"
        return Text(text, style=MARK.get(row.kind, QUIET))
    shaft = look.shaft(user=row.user) + look.right
    how = {
        ArrowPart.WHOLE: "",
        ArrowPart.LEAVES: f" ({row.tag} leaves)",
        ArrowPart.ARRIVES: f" ({row.tag})",
    }
    ends = f"{story.names.of(row.sender)} {shaft} {story.names.of(row.receiver)}"
    style = KIND.get(row.kind, "")
    return Text(
        f"{ends}  {row.full[0]}{how[row.part]}", style=f"bold {style}" if row.user else style
    )

"""Showing a story on a console: its title, the picture or the list, the legend, the summary."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..console import Console, Text
from ..plurals import counted, plural
from .kinds import LOOKS
from .lanes import layout, part
from .look import KIND, MARK, NOTE, QUIET, STAGE, Glyphs, glyphs
from .story import Arrow, ArrowPart, Row, Story
from .view import Change, Stage

NAMED = 20
"""If the rows are limited, at most this many left or lost things are named."""
NARROW = 60
"""Below this many cells, a trace is shown as a list."""
ALIASES = "h aliases g, h->g: h stands for g   g is f: f has the value   canonical: its own"


def show(
    story: Story,
    console: Console,
    *,
    rows: int | None = None,
    pause: float = 0.0,
) -> None:
    """Print *story*, or its last *rows*, its lines *pause* seconds apart.

    The picture fits the console's width.
    """
    look = glyphs(console)
    if story.title:
        _print(console, Text(story.title, style="bold"))
        console.print()
    first = max(0, len(story.rows) - rows) if rows is not None else 0
    if first:
        _print(console, Text(f"({counted(first, 'step')} before these: --all shows them)"))
        console.print()
    heads, lines = window(story, console.width, look, first, len(story.rows))
    for line in (*heads, *(line for row in lines for line in row)):
        _print(console, line)
        time.sleep(pause)
    console.print()
    arrows, stages = _legend(story, look)
    if stages and arrows.cell_len + stages.cell_len + 3 <= console.width:
        arrows, stages = Text.assemble(arrows, "   ", stages), Text()
    _print(console, arrows)
    if stages:
        _print(console, stages)
    if story.summary.control["AliasRef"]:
        _print(console, Text(ALIASES, style=QUIET))
    for line in summary(story, look, None if rows is None else NAMED):
        _print(console, line, hanging=5)


def window(
    story: Story, width: int, look: Glyphs, first: int, last: int
) -> tuple[list[Text], list[list[Text]]]:
    """The head, and the lines of each row from *first* to before *last*; a picture or a list."""
    chosen = layout(story, width) if width >= NARROW else None
    if chosen is None:
        return [], [list(_item(story, row, look)) for row in story.rows[first:last]]
    return part(story, chosen, look, first, last)


def _print(console: Console, text: Text, hanging: int = 0) -> None:
    """Print *text*. Wrap it if it is too long; leave no blanks at the ends of lines.

    All lines but the first are indented by *hanging* cells.
    """
    fits = text.cell_len <= console.width
    lines = text.wrap(console, console.width - (0 if fits else hanging))
    for number, line in enumerate(lines):
        line.rstrip()
        console.print(Text(" " * hanging * (number > 0)) + line, no_wrap=True, crop=False)


def _legend(story: Story, look: Glyphs) -> tuple[Text, Text]:
    arrows = Text(
        f"{look.shaft[True] * 2}{look.head[1]} user functions and values   "
        f"{look.shaft[False] * 2}{look.head[1]} protocol",
        style=QUIET,
    )
    shown = {change.stage for row in story.rows for change in row.changes}
    stages = [
        Text(f"{look.stages[stage]} {stage.value}", style=STAGE[stage])
        for stage in Stage
        if stage in shown
    ]
    return arrows, Text("   ").join(stages)


def summary(story: Story, look: Glyphs, named: int | None = None) -> Iterator[Text]:
    """The trace's summary, in a few lines; it names at most *named* left things of each kind."""
    said = story.summary
    yield from (Text(problem, style="color(166)") for problem in story.problems)
    dot = " · " if look.more == "…" else ", "
    for name, counts in (("user", said.user), ("control", said.control)):
        total = sum(counts.values())
        text = Text(f"{total:4} {plural(f'{name} message', total)}", style="bold")
        if counts:
            kinds = (f"{n} {LOOKS[kind].word}" for kind, n in sorted(counts.items()))
            text.append(f"  {dot.join(kinds)}", style="not bold")
        yield text
    text = Text(f"{said.freed:4} of {counted(said.objects, 'object')} freed", style="bold")
    if not said.left and not said.went_on:
        text.append("  nothing left", style="color(71)")
    yield text
    if said.going_on:
        there = ", ".join(said.going_on)
        yield Text(f"     still there when the recording ended: {there}", style=QUIET)
    for what, things, style in (
        ("lost with the dead", said.lost, QUIET),
        ("left", said.left, "color(167)"),
    ):
        for line in things[:named]:
            yield Text(f"     {what}: {line}", style=style)
        if named is not None and len(things) > named:
            yield Text(f"     {what}: {len(things) - named:,} more, which --all shows", style=style)
    if said.noted or said.missing:
        steps = said.noted + len(said.missing) + len(said.left_out)
        yield Text(f"{said.noted:4} of {counted(steps, 'step')} of the note found", style="bold")
    for line in said.left_out:
        yield Text(f"     left out: {line}", style=QUIET)
    for line in said.missing:
        yield Text(f"     missing: {line}", style="color(167)")


def _item(story: Story, row: Row, look: Glyphs) -> Iterator[Text]:
    """The lines of one row, for terminals too narrow for lanes."""
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
    shaft = look.shaft[row.user] + look.head[1]
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

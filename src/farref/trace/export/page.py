"""A trace as one HTML file: the lanes, a filter, and the tables at each step.

The file needs no network and no server. It contains the trace as JSON, and a script (``page.html``,
beside this module) draws it. The script draws only the visible rows, so a long trace is no slower
than a short one. For each row the file lists the table lines that went and came; the script adds
them up, forwards or backwards.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rich.color import Color

from ...printable import json_text
from ..look import KIND, MARK, QUIET, STAGE, UNICODE
from ..progress import silent
from ..replay import Player
from ..show import summary
from ..story import Arrow, ArrowPart

if TYPE_CHECKING:
    from ..progress import Progress
    from ..story import Row, Story

MOST = 1_000_000
"""At most so many lines of one endpoint's tables are written over all rows of a page. More would
take minutes."""
SHORT = 300
"""Tables of at most so many lines are complete on every page, however many rows it has."""


def page(story: Story, progress: Progress = silent) -> str:
    """The text of the HTML file."""
    frame = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    data = json_text(_data(story, progress), separators=(",", ":"))
    # Escaped, so that nothing in the data ends the script around it.
    return frame.replace("/*DATA*/null", data.replace("<", "\\u003c"))


def _data(story: Story, progress: Progress) -> dict[str, Any]:
    lanes = {lane: place for place, lane in enumerate(story.lanes)}
    return {
        "title": story.title or "farref trace",
        "lanes": [story.names.of(lane) for lane in story.lanes],
        "rows": [_row(story, row, lanes) for row in story.rows],
        "tables": _tables(story, progress),
        "summary": [line.plain for line in summary(story, UNICODE)],
    }


def _row(story: Story, row: Row, lanes: dict[str, int]) -> dict[str, Any]:
    drawn: dict[str, Any]
    if isinstance(row, Arrow):
        drawn = {
            "from": lanes[row.sender],
            "to": lanes[row.receiver],
            "says": row.full[0],
            "kind": row.kind,
            "user": row.user,
            "color": _hue(KIND.get(row.kind, "")),
        }
        if row.part is not ArrowPart.WHOLE:
            drawn |= {"part": row.part.value, "tag": row.tag}
    else:
        sign = UNICODE.marks.get(row.kind, "•")
        color = _hue(MARK.get(row.kind, ""))
        drawn = {"from": lanes[row.at], "says": f"{sign} {row.text}", "kind": row.kind}
        drawn["color"] = color
    drawn["refs"] = sorted(map(story.names.id, row.about))
    if row.changes:
        drawn["view"] = [
            [f"{story.names.id(c.fork.id)} {c.stage.value}", _hue(STAGE[c.stage])]
            for c in row.changes
        ]
    if row.notes:
        drawn["notes"] = [note.text for note in row.notes]
    return drawn


def _tables(story: Story, progress: Progress) -> list[list[list[Any]]]:
    """For each row, ``[lane, lines that went, lines that came]`` of each lane with a change."""
    player, whole, played = Player(), len(story.rows), 0
    most = max(SHORT, MOST // max(1, whole))
    known: dict[str, list[str]] = {lane: [] for lane in story.lanes}
    tables = []
    for place, (_, last) in enumerate(story.spans):
        progress(place, whole)
        acted = set()
        for record in story.records[played:last]:
            player.take(record)
            acted.add(record.at)
        played = last
        changed = []
        for number, lane in enumerate(story.lanes):
            if lane not in acted and place:
                continue
            length = player.length(lane)
            if length > most:
                now = [f"({length:,} lines; a page of fewer steps shows them: --ref, --worker)"]
            else:
                now = player.tables(lane)
            before, known[lane] = known[lane], now
            if now != before:
                gone, new = set(before) - set(now), set(now) - set(before)
                went = [line for line in before if line in gone]
                came = [line for line in now if line in new]
                changed.append([number, went, came])
        tables.append(changed)
    return tables


def _hue(style: str) -> str:
    """The colour of a terminal style, which ends with it, as ``#rrggbb``."""
    return Color.parse(style.rpartition(" ")[2] or QUIET).get_truecolor().hex

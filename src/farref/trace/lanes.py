"""The picture: a lane per endpoint, arrows between them, the owners' view beside them.

The picture never wraps: the available width decides its contents. There are two kinds of lanes:

* **wide**: the arrows carry their labels;
* **narrow**: the arrows are bare, and the label stands right of the lanes (many endpoints).

and three kinds of view:

* **words**: a column per fork, ``unknown``, ``known``, ``deleted`` where it changes;
* **signs**: the same with one character a stage;
* **changes**: one column that names the changes in this row (many forks).

`layout` chooses. If not even narrow lanes fit, it returns None, and a list is shown instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter

from ..console import Text
from .look import KIND, MARK, NOTE, QUIET, STAGE, Glyphs, clip
from .notes import Note
from .story import Arrow, ArrowPart, Mark, Row, Story
from .view import Change, Fork, Stage

LEFT = 1
"""Cells before the first lane."""


class Side(Enum):
    WORDS = "words"
    SIGNS = "signs"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class Layout:
    space: int
    """Cells from lane to lane."""
    last: int
    """Cells of the last lane, which has no arrows to its right."""
    labelled: bool
    """Whether arrows carry their labels."""
    side: Side
    cell: int
    """The width of one column of the view."""
    text: int
    """The width of the labels beside narrow lanes."""
    width: int
    """The width of everything."""


def layout(story: Story, width: int) -> Layout | None:
    """The layout for *width* cells; None if no picture fits."""
    lanes, forks = max(1, len(story.lanes)), len(story.forks)
    stages = {change.stage for row in story.rows for change in row.changes}
    word = max((len(stage.value) for stage in stages), default=7)
    longest = max((len(_fork_head(story, fork)) for fork in story.forks.values()), default=3)
    last = _last(story)
    widest = max((len(story.names.of(lane)) for lane in story.lanes), default=1)
    labels = (row.labels[0] for row in story.rows if isinstance(row, Arrow))
    longest_label = max(map(len, labels), default=1)
    # The sign of a stage, and the id of the fork.
    named = min(2 + max((len(story.names.id(fork)) for fork in story.forks), default=0), 28)
    sides = (
        (Side.WORDS, max(longest, word) + 1, 19),
        (Side.SIGNS, max(longest - 2, 3) + 1, 15),
        (Side.CHANGES, max(16, named), 15),
        (Side.SIGNS, max(longest - 2, 3) + 1, 13),
        (Side.CHANGES, max(14, named), 12),
    )
    for side, cell, least in sides:
        columns = cell * (1 if side is Side.CHANGES else forks)
        room = width - LEFT - columns - 2
        space = max(room // lanes, (room - last) // max(1, lanes - 1))
        if space >= least and (side is Side.CHANGES or forks <= 8):
            space = min(space, max(30, widest + 2, min(longest_label + 5, 40)))
            return Layout(space, min(space, last), True, side, cell, 0, width)
    for space in (8, 6, 5, 4, 3):
        cell = max(14, named)
        text = width - LEFT - lanes * space - cell - 2
        if text >= 20:
            return Layout(space, space, False, Side.CHANGES, cell, text, width)
    return None


def _last(story: Story) -> int:
    """Cells that the text right of the last lane needs."""
    if not story.lanes:
        return 6
    lane = story.lanes[-1]
    room = max(6, len(story.names.of(lane)) + 1)
    for row in story.rows:
        if isinstance(row, Mark):
            if row.at == lane:
                room = max(room, len(row.text) + 4)
        elif row.sender == row.receiver == lane:
            room = max(room, len(row.labels[0]) + 4)
        elif row.part is not ArrowPart.WHOLE and lane in (row.sender, row.receiver):
            room = max(room, 6)
    return room


def part(
    story: Story, chosen: Layout, look: Glyphs, first: int, last: int
) -> tuple[list[Text], list[list[Text]]]:
    """The head of the picture, and the lines of each row from *first* to before *last*."""
    drawn = _Picture(story, chosen, look)
    heads = list(drawn._heads())
    drawn.pass_over(first)
    return heads, [list(drawn.row(row)) for row in story.rows[first:last]]


class _Line:
    """One line of lanes: a character and its style for each cell."""

    def __init__(self, width: int, lanes: Iterable[int], look: Glyphs) -> None:
        self._cells = [(" ", "")] * width
        self._look = look
        for at in lanes:
            self._cells[at] = (look.lane, QUIET)

    def write(self, at: int, text: str, style: str) -> None:
        """Write *text* from *at* on; text outside the line is cut off."""
        for offset, character in enumerate(text, at):
            if 0 <= offset < len(self._cells):
                self._cells[offset] = character, style

    def shaft(self, start: int, end: int, shaft: str, style: str) -> None:
        """Draw *shaft* from *start* to before *end*, with crosses at the lanes in between."""
        for at in range(start, end, 1 if end > start else -1):
            if 0 <= at < len(self._cells):
                crossed = self._cells[at][0] == self._look.lane
                self._cells[at] = (self._look.cross if crossed else shaft), style

    def text(self) -> Text:
        text = Text()
        for style, cells in itertools.groupby(self._cells, key=itemgetter(1)):
            text.append("".join(character for character, _ in cells), style=style or None)
        return text


class _Picture:
    def __init__(self, story: Story, layout: Layout, look: Glyphs) -> None:
        self._story = story
        self._layout = layout
        self._look = look
        self._at = {lane: LEFT + i * layout.space for i, lane in enumerate(story.lanes)}
        self._width = LEFT + (len(story.lanes) - 1) * layout.space + layout.last
        self._forks = list(story.forks.values())
        self._objects: list[str] = []
        """The objects that the head of the view names; there it has few forks."""
        if layout.side is not Side.CHANGES:
            places = {rref: place for place, rref in enumerate(story.objects)}
            self._forks.sort(key=lambda fork: places[fork.rref])
            self._objects = list(dict.fromkeys(fork.rref for fork in self._forks))
        self._stages: dict[str, Stage] = {}
        self._owners = not all(map(self._head_says_owner, self._objects or story.objects))
        """Whether the arrows name owners: the head of the view has no room for them."""

    def row(self, row: Row) -> Iterator[Text]:
        line = self._empty()
        said = self._arrow(line, row) if isinstance(row, Arrow) else self._mark(line, row)
        yield self._join(line, said, row)
        for note in row.notes:
            yield self._note(note)

    def pass_over(self, rows: int) -> None:
        for row in self._story.rows[:rows]:
            for change in row.changes:
                self._stages[change.fork.id] = change.stage

    # ---- the head

    def _heads(self) -> Iterator[Text]:
        names = {at: self._story.names.of(lane) for lane, at in self._at.items()}
        if not self._layout.labelled and max(map(len, names.values())) >= self._layout.space:
            yield from self._staircase(names)
            return
        head = _Line(self._width, (), self._look)
        for at, name in names.items():
            head.write(at, clip(name, self._layout.space - 1, self._look.more), "bold")
        if self._forks and self._layout.side is not Side.CHANGES:
            yield from self._fork_heads(head.text())
        else:
            yield self._headline(head, 1 if self._layout.labelled else self._layout.text + 2)
        yield self._join(self._empty(), Text(), None)

    def _staircase(self, names: dict[int, str]) -> Iterator[Text]:
        """The head if long names stand over narrow lanes: each name has a line of its own."""
        width = self._width + self._layout.text + 2
        for step, (at, name) in enumerate(names.items()):
            line = _Line(width, list(names)[:step], self._look)
            line.write(at, name, "bold")
            last = step == len(names) - 1
            yield self._headline(line, 0) if last else _trim(line.text())

    def _headline(self, line: _Line, gap: int) -> Text:
        text = line.text()
        if self._forks:
            text.append(" " * gap).append("owner's view", style=QUIET)
        return _trim(text)

    def _fork_heads(self, names: Text) -> Iterator[Text]:
        """The head of the view: each object above its forks, one column per fork."""
        objects, forks = Text(" "), Text(" ")
        cell = self._layout.cell
        for rref in self._objects:
            mine = [fork for fork in self._forks if fork.rref == rref]
            said, room = self._object_head(rref)
            objects.append(clip(said, room, self._look.more).ljust(cell * len(mine)), style="bold")
            for fork in mine:
                said = _fork_head(self._story, fork)
                if self._layout.side is Side.SIGNS:
                    said = self._story.names.id(fork.id)
                forks.append(clip(said, cell - 1, self._look.more).ljust(cell), style=QUIET)
        yield _trim(Text(" " * self._width) + objects)
        yield _trim(names + forks)

    def _object_head(self, rref: str) -> tuple[str, int]:
        """The words above the forks of *rref*, with its owner if there is room; and the room."""
        mine = sum(fork.rref == rref for fork in self._forks)
        owner = self._story.names.of(self._story.objects[rref].owner)
        short = self._story.names.id(rref)
        room = self._layout.cell * mine - 1
        if rref == self._objects[-1]:  # nothing stands to its right
            before = 1 + self._layout.cell * (len(self._forks) - mine)
            room = max(room, self._layout.width - self._width - before)
        ways = f"{owner}'s view of {short}", f"{short} at {owner}"
        return next((each for each in ways if len(each) <= room), short), room

    def _head_says_owner(self, rref: str) -> bool:
        """Whether the head tells who owns *rref*: by the id, or by words beside it."""
        if self._story.objects[rref].owner == rref.rpartition("/")[0]:
            return True
        return bool(self._objects) and self._object_head(rref)[0] != self._story.names.id(rref)

    # ---- the lanes

    def _empty(self) -> _Line:
        return _Line(self._width, self._at.values(), self._look)

    def _arrow(self, line: _Line, row: Arrow) -> Text:
        style = KIND.get(row.kind, "")
        style = f"bold {style}" if row.user else style
        labels = row.full if self._owners else row.labels
        start, end = self._at[row.sender], self._at[row.receiver]
        if start == end:
            line.write(start, self._look.loop, style)
            self._beside(line, row.sender, labels, style)
        else:
            step = 1 if end > start else -1
            if row.part is ArrowPart.LEAVES:
                end = start + step * self._layout.space
            elif row.part is ArrowPart.ARRIVES:
                start = end - step * self._layout.space
            line.shaft(start + step, end, self._look.shaft[row.user], style)
            if row.part is not ArrowPart.ARRIVES:
                line.write(start, self._look.begin[step], style)
            if row.part is not ArrowPart.LEAVES:
                line.write(end - step, self._look.head[step], style)
            low, high = self._tag(line, row, style, (min(start, end) + 1, max(start, end)))
            if self._layout.labelled:
                said = _fitting(labels, high - low - 4, self._look.more)
                # Beside the sender, so that the sender is clear.
                at = low + 1 if step > 0 else high - len(said) - 3
                line.write(at, f" {said} " if said else "", style)
        if self._layout.labelled:
            return Text()
        return Text(_fitting(labels, self._layout.text, self._look.more), style=style)

    def _tag(self, line: _Line, row: Arrow, style: str, within: tuple[int, int]) -> tuple[int, int]:
        """Write the letter of half an arrow at the missing half; returns the cells that remain."""
        low, high = within
        if row.part is ArrowPart.WHOLE:
            return within
        tag = f"({row.tag})" if self._layout.labelled else row.tag
        tag = tag[: max(1, high - low - 1)]
        rightwards = self._at[row.receiver] > self._at[row.sender]
        if rightwards is (row.part is ArrowPart.LEAVES):
            line.write(high - len(tag), tag, style)
            return low, high - len(tag)
        line.write(low, tag, style)
        return low + len(tag), high

    def _mark(self, line: _Line, row: Mark) -> Text:
        style = MARK.get(row.kind, QUIET)
        line.write(self._at[row.at], self._look.marks.get(row.kind, "*"), style)
        if self._layout.labelled:
            self._beside(line, row.at, (row.text, _short(row)), style)
            return Text()
        says = f"{self._story.names.of(row.at)}: {row.text}", row.text, _short(row)
        return Text(_fitting(says, self._layout.text, self._look.more), style=style)

    def _beside(self, line: _Line, lane: str, says: tuple[str, ...], style: str) -> None:
        """Write right of a lane, up to the next one."""
        if self._layout.labelled:
            last = lane == self._story.lanes[-1]
            room = (self._layout.last if last else self._layout.space) - 3
            line.write(self._at[lane] + 2, _fitting(says, room, self._look.more), style)

    def _note(self, note: Note) -> Text:
        line = self._empty()
        if not self._layout.labelled:
            said = clip(note.text, self._layout.width - self._width - 1, self._look.more)
            return line.text().append(said, style=NOTE)
        at = min(self._at[note.at] + 1, self._width - len(note.text) - 1)
        line.write(max(LEFT + 1, at), f" {note.text} ", NOTE)
        return self._join(line, Text(), None)

    # ---- the view

    def _join(self, line: _Line, beside: Text, row: Row | None) -> Text:
        text = line.text()
        if not self._layout.labelled:
            said = clip(beside.plain, self._layout.text, self._look.more)
            text.append(said.ljust(self._layout.text + 1), style=beside.style)
        text.append(" ")
        changes = row.changes if row else ()
        if self._layout.side is Side.CHANGES:
            self._changes(text, changes)
        else:
            self._columns(text, changes)
        return _trim(text)

    def _columns(self, text: Text, changes: tuple[Change, ...]) -> None:
        changed = {change.fork.id: change.stage for change in changes}
        self._stages |= changed
        cell = self._layout.cell
        for fork in self._forks:
            stage = self._stages.get(fork.id)
            if stage is None:
                said = ""
            elif fork.id not in changed:
                said = self._look.lives[stage]
            elif self._layout.side is Side.WORDS:
                said = stage.value
            else:
                said = self._look.stages[stage]
            text.append(said.ljust(cell), style=STAGE[stage] if stage else None)

    def _changes(self, text: Text, changes: tuple[Change, ...]) -> None:
        forks: dict[Stage, list[str]] = {}
        for change in changes:
            forks.setdefault(change.stage, []).append(self._story.names.id(change.fork.id))
        which = {
            stage: ids[0] if len(ids) == 1 else f"{len(ids)} forks" for stage, ids in forks.items()
        }
        signs = self._look.stages
        ways = [
            [(f"{said} {stage.value}", stage) for stage, said in which.items()],
            [(f"{signs[stage]} {said}", stage) for stage, said in which.items()],
        ]
        if len(forks) > 1:
            ways.append([(f"{signs[stage]} {len(ids)}", stage) for stage, ids in forks.items()])
        room = self._layout.width - text.cell_len
        fits = (way for way in ways if sum(len(said) + 1 for said, _ in way) - 1 <= room)
        for said, stage in next(fits, ways[-1]):
            text.append(clip(said, room, self._look.more), style=STAGE[stage]).append(" ")
            room -= len(said) + 1


def _fork_head(story: Story, fork: Fork) -> str:
    return f"{story.names.id(fork.id)} {story.names.of(fork.holder)}"


def _short(row: Mark) -> str:
    """The text of *row*, without the words that its sign shows already or that matter less."""
    said = row.text.partition(":")[0]
    return said.removesuffix(" starts").removeprefix("frees ").removeprefix("call ")


def _trim(text: Text) -> Text:
    text.rstrip()
    return text


def _fitting(says: tuple[str, ...], room: int, more: str) -> str:
    """The first and longest of *says* that fits; the last, clipped, if none fits."""
    return clip(next((each for each in says if len(each) <= room), says[-1]), room, more)

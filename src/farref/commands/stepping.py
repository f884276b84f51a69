"""`farref trace --step` shows one step of a trace at a time, with all tables.

Above are the lanes around the step. Below are the tables after it, first those of the endpoints
that took it, with their changes marked. They come from the shipped machines, which run again on the
recording (see `farref.trace.replay`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live

from ..console import Console, Text
from ..trace.look import QUIET, glyphs
from ..trace.replay import Steps
from ..trace.show import window
from .keys import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..trace import Only, Story
    from .keys import Keys

HELP = "n p step  PgDn PgUp page  g go to  / filter  q leave"
"""Fits into 80 cells, beside the number of the step."""
MOVES = {
    **dict.fromkeys(("n", "down", "right", "j", " "), 1),
    **dict.fromkeys(("p", "up", "left", "k"), -1),
    "home": -(1 << 40),
    "end": 1 << 40,
}
LONG = 5_000
"""The machines run so many steps again within about two seconds; more steps show a progress."""
SELDOM = 512
NEW = "bold color(71)"
GONE = "color(167)"


def step_through(story: Story, retell: Callable[[Only], Story], only: Only) -> None:
    """Let the user step through *story*; *retell* makes the story of another part of the trace.

    Raises `NoTerminalError`.
    """
    with keys() as pressed, Live(console=Console(), screen=True, auto_refresh=False) as live:
        _Stepper(story, retell, only, live=live, pressed=pressed).run()


class _Stepper:
    def __init__(
        self,
        story: Story,
        retell: Callable[[Only], Story],
        only: Only,
        *,
        live: Live,
        pressed: Keys,
    ) -> None:
        self._story = story
        self._retell = retell
        self._only = only
        self._console = live.console
        self._live = live
        self._keys = pressed
        self._steps = Steps(story, self._runs)
        self._row = 0
        self._said = ""

    def run(self) -> None:
        while True:
            self._draw()
            key = self._keys.next(timeout=1.0)  # and look at the size again
            if key is None:
                continue
            self._said = ""
            match key:
                case "q":
                    return
                case "page down" | "page up":
                    self._go(self._row + self._room() * (1 if key == "page down" else -1))
                case "g":
                    self._jump()
                case "/":
                    self._filter()
                case _ if key in MOVES:
                    self._go(self._row + MOVES[key])
                case _:
                    self._said = HELP

    def _go(self, row: int) -> None:
        self._row = max(0, min(len(self._story.rows) - 1, row))

    def _runs(self, done: int, whole: int) -> None:
        """Show the progress of the machines on a long way to a step."""
        if whole > LONG and done % SELDOM == 0:
            said = f"the machines are run again: {done:,} of {whole:,} steps"
            self._live.update(Text(said), refresh=True)

    def _jump(self) -> None:
        asked = self._ask("go to step: ")
        if asked and asked.isdecimal():
            self._go(int(asked) - 1)
        elif asked:
            self._said = f"{asked!r} is not the number of a step"

    def _filter(self) -> None:
        """Ask for references and endpoints, in any order; an empty answer shows all steps."""
        asked = self._ask("only (A/1, B; nothing: all): ")
        if asked is None:
            return
        words = asked.replace(",", " ").split()
        refs = tuple(word for word in words if "/" in word and word.rpartition("/")[2].isdecimal())
        workers = tuple(word for word in words if word not in refs)
        try:
            story = self._retell(type(self._only)(refs, workers))
        except Exception as error:
            self._said = str(error)
            return
        if not story.rows:
            self._said = "no step matches"
            return
        record = self._story.spans[self._row][0] if self._story.rows else 0
        self._story, self._steps = story, Steps(story, self._runs)
        self._go(next((i for i, (_, last) in enumerate(story.spans) if last > record), 1 << 40))

    def _ask(self, what: str) -> str | None:
        """Ask for a line of text; None if the user gave up."""
        text = ""
        while True:
            self._said = f"{what}{text}_"
            self._draw()
            key = self._keys.next()
            match key:
                case "enter" | "escape":
                    self._said = ""
                    return text if key == "enter" else None
                case "back":
                    text = text[:-1]
                case str() if len(key) == 1 and key.isprintable():
                    text += key
                case _:
                    pass

    # ---- the screen

    def _room(self) -> int:
        """Lines for the lanes."""
        return max(4, self._console.height // 2)

    def _draw(self) -> None:
        console, look = self._console, glyphs(self._console)
        width, height = console.size
        room = self._room()
        first = max(0, min(self._row - room // 2, len(self._story.rows) - room))
        heads, rows = window(self._story, width - 2, look, first, first + room)
        lines = [Text("  ").append_text(line) for line in heads]
        mark = f"{look.right} "
        for number, row in enumerate(rows, first):
            for line in row[:1]:
                here = number == self._row
                lines.append(Text(mark if here else "  ", style="bold").append_text(line))
        # Notes make rows take several lines: scroll so that the current row is visible.
        below = self._row - first + 1
        shown = max(1, room - len(heads))
        start = max(0, below - shown)
        lines = [*lines[: len(heads)], *lines[len(heads) :][start : start + shown]]
        place = f"step {self._row + 1} of {len(self._story.rows):,}"
        bar = Text(f" {place}   {self._said or HELP}"[:width].ljust(width), style="reverse")
        lines.append(bar)
        lines += self._tables(width, height - len(lines))
        for line in lines:
            line.truncate(width)
        self._live.update(Group(*lines[:height]), refresh=True)

    def _tables(self, width: int, room: int) -> list[Text]:
        if not self._story.rows:
            return [Text("no step matches")]
        row, more = self._story.rows[self._row], glyphs(self._console).more
        player = self._steps.at(self._row - 1) if self._row else None
        before = {lane: player.tables(lane) if player else [] for lane in self._story.lanes}
        player = self._steps.at(self._row)
        lanes = sorted(self._story.lanes, key=lambda lane: lane not in row.ends)
        lines: list[Text] = []
        for lane in lanes:
            now = player.tables(lane)
            lines.append(Text(self._story.names.of(lane), style="bold"))
            lines += [Text(f"- {line}", style=GONE) for line in before[lane] if line not in now]
            lines += [
                Text(f"+ {line}", style=NEW) if line not in before[lane] else Text(f"  {line}")
                for line in now
            ]
        wrapped = [part for line in lines for part in line.wrap(self._console, width)]
        if len(wrapped) > room:
            left = len(wrapped) - room + 1
            wrapped = [*wrapped[: room - 1], Text(f"{more} {left} more lines", style=QUIET)]
        return wrapped

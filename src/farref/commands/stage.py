"""The stage for a demo: a system, its trace, and the wait until nothing is left.

A demo is a module in ``farref.examples``. It has a docstring (its first line tells the story in one
sentence, the rest says where to look), a function ``play(system)``, and the discipline that it is
about, ``SHARING``. A demo of a published example lists its ``STEPS`` (see `farref.trace.notes`);
the stage looks for them in the recording. A demo with a death sets ``GRACE``, the seconds of its
system's grace for orphans.

A demo runs on real actors, and every endpoint records its steps. When the function returns, the
stage waits, for a bounded time, until nothing is left: every object freed, every fork and loan
ended, every message received. Then it shuts the system down and shows the trace.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..actors.api.system import System
from ..actors.hosting.bases import BASES
from ..console import Console, Text, echo
from ..protocol.sharing import Sharing
from ..trace import Story, TraceError, read, save, saver, show
from ..trace.notes import of_discipline
from .bar import bar, waiting
from .failing import checked_base

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PATIENCE = 10.0
"""Seconds for everything to be freed once a demo's function has returned."""
LOOK = 0.05
"""Seconds between two looks at the trace."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo's function, and the texts about it."""

    name: str
    sentence: str
    look_for: str
    play: Callable[[System], object]
    sharing: Sharing
    """The discipline that it is about."""
    steps: str = ""
    """The steps of the published example that it plays."""
    grace: float = 5.0
    """Seconds: its system's ``orphan_grace``."""


SharingOption = Annotated[
    Sharing | None,
    typer.Option(
        "--sharing",
        help="How calls share the references in their arguments; by default as the demo says.",
        show_default=False,
    ),
]


BaseOption = Annotated[
    str | None,
    typer.Option(
        callback=checked_base, help=f"The system base: {', '.join(BASES)}.", show_default=False
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save the trace: as .jsonl (the steps), .svg or .html.",
    ),
]
PaceOption = Annotated[
    bool | None,
    typer.Option(
        "--slow/--fast",
        help="Show a trace slowly, line by line, or all at once; in a terminal the default is in "
        "between.",
        show_default=False,
    ),
]
PAUSES: dict[bool | None, float] = {True: 0.5, False: 0.0}
"""Seconds between two lines of a trace, with ``--slow`` and ``--fast``."""
PAUSE = 0.04
"""The same, in a terminal, by default."""


def pause_of(slow: bool | None) -> float:
    """Seconds between two lines of a trace; 0 into a pipe, by default."""
    return PAUSES.get(slow, PAUSE if Console().is_terminal else 0.0)


def demo_of(name: str, doc: str | None, play: Callable[[System], object]) -> Demo:
    """The demo in the module of *play*, which has the docstring *doc*."""
    sentence, _, rest = inspect.cleandoc(doc or "").partition("\n")
    module = sys.modules[play.__module__]
    steps: str = getattr(module, "STEPS", "")
    sharing: Sharing = module.SHARING
    grace: float = getattr(module, "GRACE", 5.0)
    return Demo(name, sentence.strip(), rest.strip(), play, sharing, steps, grace)


def perform(demo: Demo, base: str | None = None, sharing: Sharing | None = None) -> Story:
    """Play *demo* on the system base *base*. Return its story, complete or not.

    Raises the demo's exceptions.
    """
    sharing = sharing or demo.sharing
    with waiting("recording"), tempfile.TemporaryDirectory(prefix="farref-trace-") as folder:
        trace = Path(folder)
        with System(base, sharing=sharing, trace=trace, orphan_grace=demo.grace) as system:
            demo.play(system)
            _settle(system, trace)
        return read(
            trace, f"{demo.sentence} [sharing: {sharing}]", of_discipline(demo.steps, sharing)
        )


def present(demo: Demo, story: Story, sharing: Sharing | None, pause: float = 0.0) -> None:
    """Show *story* on the terminal, and the text about where to look.

    If the story is shown slowly, *pause* seconds a line, the text comes first.
    """
    console = Console()
    slow = pause > PAUSE
    if slow:
        say(demo.look_for, console)
    show(story, console, pause=pause)
    console.print()
    if sharing not in (None, demo.sharing):
        warning = f'Played with sharing="{sharing}"; the demo is written for "{demo.sharing}".'
        console.print(Text(f"  {warning}", style="bold"), end="\n\n")
    if not slow:
        say(demo.look_for, console)


def say(text: str, console: Console) -> None:
    """Print prose, filled for the width of *console*, and an empty line."""
    for line in prose(text, console.width):
        console.print(Text(line), no_wrap=True)
    console.print()


def well(story: Story) -> bool:
    """Whether nothing was left, and every step of the published example was found."""
    return not story.summary.left and not story.summary.missing


def _settle(system: System, trace: Path) -> None:
    """Wait until nothing is left, or for `PATIENCE`."""
    end = time.monotonic() + PATIENCE
    before = -1  # steps at the last look: the same twice means the end, not a pause
    while time.monotonic() < end:
        system.workers()  # simpleSystemBase runs actors only during such calls
        # A line may be half written at the moment of a look.
        with contextlib.suppress(TraceError):
            story = read(trace)
            if not story.summary.left and len(story.records) == before:
                return
            before = len(story.records)
        time.sleep(LOOK)


def prose(text: str, width: int) -> Iterator[str]:
    """*text*, its paragraphs and `-` items filled anew for *width*, at most 88, cells."""
    for block in re.split(r"\n\s*\n|\n(?=\s*- )", text):
        flat = " ".join(block.split())
        item = flat.startswith("- ")
        yield from textwrap.wrap(
            flat,
            min(width, 88),
            initial_indent="    " if item else "  ",
            subsequent_indent="      " if item else "  ",
        )


def run_alone(doc: str | None, play: Callable[[System], object]) -> None:
    """Run as the ``__main__`` of a demo's file: its options, the trace, the exit code."""
    demo = demo_of("", doc, play)

    def main(
        save_to: SaveOption = None,
        base: BaseOption = None,
        sharing: SharingOption = None,
        pace: PaceOption = None,
    ) -> None:
        if save_to is not None:
            check_suffix(save_to)
        story = perform(demo, base, sharing)
        if save_to is not None:
            save_story(story, save_to)
        present(demo, story, sharing, pause_of(pace))
        raise typer.Exit(0 if well(story) else 1)

    main.__doc__ = f"{demo.sentence}\n\n{demo.look_for}"
    typer.run(main)


def check_suffix(path: Path) -> None:
    """Refuse a file name without a known suffix, as a mistake on the command line."""
    try:
        saver(path)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--save") from error


def save_story(story: Story, path: Path) -> None:
    """Save *story*; a file that cannot be written ends the program, without a traceback."""
    try:
        with bar("saving") as progress:
            save(story, path, progress)
    except OSError as error:
        echo(f"{path} cannot be written: {error.strerror or error}", err=True)
        raise typer.Exit(1) from error
    echo(f"saved {path}", err=True)

"""The harness of the examples: it plays a demo and shows its trace, or checks a program.

A **demo** shows the protocol. Its module has a docstring (the first line tells the story in one
sentence, the rest says where to look), a function ``play(system)``, and ``SHARING``, the discipline
that it is about. If it plays a published example, ``STEPS`` lists the example's steps (see
`farref.trace.notes`), and the harness looks for them in the recording. If an endpoint dies in it,
``GRACE`` is the ``orphan_grace`` of its system in seconds. If ``multiprocessing`` gets this wrong,
``fault()`` does the same there, and returns what happened, or None if it went well. A demo runs on
real actors, and every endpoint records its steps. When ``play`` returns, the harness waits, for a
bounded time, until nothing is left: every object is freed, every fork and loan has ended, every
message has arrived. Then it shuts the system down and shows the trace.

A **program** does a job. It does the job twice: with several processes that pass references to each
other, and in this process without farref. The results must agree. Both times are printed; the first
includes starting and ending the processes. Its module has a docstring (the first line describes the
job in one sentence), a subclass of `Program`, and ``PROGRAM``, a function that makes one with its
default options.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import os
import platform
import re
import sys
import tempfile
import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Generic, NoReturn, TypeVar

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from farref import FarrefError, System
from farref.commands.bar import bar
from farref.commands.options import (
    PAUSE,
    BaseOption,
    PaceOption,
    SaveOption,
    SharingOption,
    check_suffix,
    pause_of,
    save_story,
)
from farref.console import Console, Text, echo, write_json
from farref.plurals import counted
from farref.protocol.sharing import Sharing
from farref.trace import Story, TraceError, read, show
from farref.trace.notes import of_discipline

T = TypeVar("T")


def module_of(name: str) -> str:
    """The module of the example that the command line calls *name*."""
    return f"{__package__}.{name.replace('-', '_')}"


# ---- demos


PATIENCE = 10.0
"""Seconds for everything to be freed once a demo's function has returned."""
LOOK = 0.05
"""Seconds between two looks at the trace."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo's function, and the texts about it."""

    sentence: str
    look_for: str
    play: Callable[[System], object]
    sharing: Sharing
    steps: str
    grace: float
    fault: Callable[[], str | None] | None

    @classmethod
    def of(cls, play: Callable[[System], object], doc: str | None) -> Demo:
        """The demo in the module of *play*, which has the docstring *doc*."""
        sentence, rest = _parts(doc)
        module = sys.modules[play.__module__]
        steps, grace = getattr(module, "STEPS", ""), getattr(module, "GRACE", 5.0)
        fault = getattr(module, "fault", None)
        return cls(sentence, rest, play, module.SHARING, steps, grace, fault)

    @classmethod
    def named(cls, name: str) -> Demo:
        """The demo that the command line calls *name*."""
        module = importlib.import_module(module_of(name))
        return cls.of(module.play, module.__doc__)


def perform(demo: Demo, base: str | None = None, sharing: Sharing | None = None) -> Story:
    """Play *demo* on the system base *base*. Return its story, complete or not.

    Raises the demo's exceptions.
    """
    sharing = sharing or demo.sharing
    with bar("recording"), tempfile.TemporaryDirectory(prefix="farref-trace-") as folder:
        trace = Path(folder)
        with System(base, sharing=sharing, trace=trace, orphan_grace=demo.grace) as system:
            demo.play(system)
            _wait_until_nothing_is_left(system, trace)
        return read(
            trace, f"{demo.sentence} [sharing: {sharing}]", of_discipline(demo.steps, sharing)
        )


def elsewhere(demo: Demo) -> str | None:
    """What happens in *demo* with ``multiprocessing``, tried now; None if it is not about that."""
    if demo.fault is None:
        return None
    with bar("with multiprocessing"):
        went_well = f"it goes well on Python {platform.python_version()}"
        return f"With multiprocessing: {demo.fault() or went_well}."


def _wait_until_nothing_is_left(system: System, trace: Path) -> None:
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


def present(
    demo: Demo, story: Story, sharing: Sharing | None, pause: float = 0.0, other: str | None = None
) -> None:
    """Show *story* on the terminal, and the text about where to look.

    *other* is what `elsewhere` said. If the story is shown slowly, *pause* seconds a line, the text
    comes first.
    """
    console = Console()
    slow = pause > PAUSE
    look_for = "\n\n".join(filter(None, (other, demo.look_for)))
    if slow:
        say(look_for, console)
    show(story, console, pause=pause)
    console.print()
    if sharing not in (None, demo.sharing):
        warning = f'Played with sharing="{sharing}"; the demo is written for "{demo.sharing}".'
        console.print(Text(f"  {warning}", style="bold"), end="\n\n")
    if not slow:
        say(look_for, console)


def well(story: Story) -> bool:
    """Whether nothing was left, and every step of the published example was found."""
    return not story.summary.left and not story.summary.missing


def run_alone(doc: str | None, play: Callable[[System], object]) -> None:
    """Run as the ``__main__`` of a demo's file: its options, the trace, the exit code."""
    demo = Demo.of(play, doc)

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
        present(demo, story, sharing, pause_of(pace), elsewhere(demo))
        raise typer.Exit(0 if well(story) else 1)

    main.__doc__ = f"{demo.sentence}\n\n{demo.look_for}"
    typer.run(main)


# ---- texts


def _parts(doc: str | None) -> tuple[str, str]:
    """The first sentence of a docstring, and the rest."""
    sentence, _, rest = inspect.cleandoc(doc or "").partition("\n")
    return sentence, rest.strip()


def say(text: str, console: Console) -> None:
    """Print prose, filled for the width of *console*, and an empty line."""
    for line in prose(text, console.width):
        console.print(Text(line), no_wrap=True)
    console.print()


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


# ---- programs


INSTALL = "pip install 'farref[examples]'"
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=64, help="Worker processes of a program.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The result as JSON.")]


class InputError(Exception):
    """The input of a program cannot be used."""


class MissingPackageError(ImportError):
    """A package that only some examples use is not installed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a program, and whether it is right."""

    right: bool
    figures: dict[str, Any]
    """For ``--json``."""
    found: list[RenderableType] = field(default_factory=list)
    """The same for readers."""
    check: str = "the same result"
    """The comparison and its result, in words."""


class Program(ABC, Generic[T]):
    """A job that is done in parallel, and again alone."""

    @abstractmethod
    def together(self, system: System, workers: int, progress: Progress) -> T:
        """Do it with *workers* processes of *system*; raises their errors."""

    @abstractmethod
    def alone(self, progress: Progress) -> T:
        """Do it in this process, without references."""

    @abstractmethod
    def judge(self, found: T, expected: T) -> Verdict:
        """Compare the results of `together` and `alone`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A job that was done both ways: the seconds of each, and the verdict."""

    workers: int
    together: float
    alone: float
    verdict: Verdict

    @property
    def figures(self) -> dict[str, Any]:
        """All of it, for ``--json``."""
        times = {"seconds": round(self.together, 3), "seconds_one_process": round(self.alone, 3)}
        same = {"same": self.verdict.right}
        return {"workers": self.workers, **self.verdict.figures, **times, **same}

    def show(self, console: Console) -> None:
        """All of it, for readers."""
        for each in self.verdict.found:
            console.print(each)
        workers = counted(self.workers, "worker")
        console.print(
            f"{workers} {self.together:.2f} s, with their start and end; "
            f"one process alone {self.alone:.2f} s"
        )
        bug = "" if self.verdict.right else ": this is a bug"
        console.print(f"checked against one process: {self.verdict.check}{bug}", style="bold")


def do(
    program: Program[Any],
    workers: int | None = None,
    *,
    base: str | None = None,
    sharing: Sharing | None = None,
) -> Comparison:
    """Do the job twice, with a bar on stderr, and compare. Raises the errors of the job."""
    workers = workers or min(4, os.cpu_count() or 2)
    columns = (TextColumn("{task.description:7}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        begin = time.perf_counter()
        with System(base, sharing=sharing or "lend") as system:
            found = program.together(system, workers, progress)
        middle = time.perf_counter()
        expected = program.alone(progress)
        end = time.perf_counter()
    return Comparison(workers, middle - begin, end - middle, program.judge(found, expected))


@contextlib.contextmanager
def needed(module: str) -> Iterator[None]:
    """Wrap the imports of packages that farref itself does not need, in *module* (``__name__``).

    Raises `MissingPackageError` for a missing package, with the command that installs it. If
    *module* is the program itself, the program ends with that message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = f"this program needs {error.name}, which is not installed: {INSTALL}"
        if module == "__main__":
            raise SystemExit(missing) from None
        raise MissingPackageError(missing, name=error.name) from error


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """Let an error in *name* end the program with one line: exit code 2 for bad input, else 1."""
    try:
        yield
    except (InputError, FarrefError, MissingPackageError, OSError) as error:
        kind = f"{type(error).__name__}: " if isinstance(error, FarrefError | OSError) else ""
        echo(f"{name}: {kind}{error}", err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


def run(
    name: str,
    make: Callable[[], Program[Any]],
    workers: int | None,
    *,
    as_json: bool,
    base: str | None,
    sharing: Sharing | None,
) -> NoReturn:
    """Make the program *name*, `do` its job, and print the result. Exit with 0 if it is right."""
    with told(name):
        done = do(make(), workers, base=base, sharing=sharing)
        if as_json:
            write_json(done.figures, indent=2)
        else:
            done.show(Console())
    raise typer.Exit(0 if done.verdict.right else 1)


def run_program(doc: str | None, make: Callable[[], Program[Any]]) -> None:
    """Run as the ``__main__`` of a program's file: its options, the exit code."""

    def main(
        *,
        workers: WorkersOption = None,
        as_json: JsonOption = False,
        base: BaseOption = None,
        sharing: SharingOption = None,
    ) -> None:
        name = Path(inspect.getfile(make)).stem
        run(name, make, workers, as_json=as_json, base=base, sharing=sharing)

    main.__doc__ = doc
    typer.run(main)


def about(name: str) -> tuple[str, str]:
    """The first sentence, and the rest, of the docstring of the program *name*."""
    doc = ast.get_docstring(_source(name))
    return _parts((doc or "").translate({ord(mark): None for mark in "`*"}))


def missing(name: str) -> list[str]:
    """The packages that the program *name* needs (see `needed`), and that are not installed."""
    found = [
        each.names[0].name if isinstance(each, ast.Import) else each.module or ""
        for block in ast.walk(_source(name))
        if isinstance(block, ast.With) and "needed(" in ast.unparse(block.items[0])
        for each in block.body
        if isinstance(each, ast.Import | ast.ImportFrom)
    ]
    packages = {each.partition(".")[0] for each in found}
    return sorted(each for each in packages if find_spec(each) is None)


def _source(name: str) -> ast.Module:
    """The program *name*, not imported: its packages may be missing, or slow to import."""
    spec = find_spec(module_of(name))
    if spec is None or spec.origin is None:
        raise AssertionError(f"there is no example {name!r}, though it is listed")
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def make(name: str) -> Program[Any]:
    """The program *name*, with its default options. Raises `MissingPackageError`."""
    program: Program[Any] = importlib.import_module(module_of(name)).PROGRAM()
    return program

"""The frame of the programs in `farref.examples`.

A demo shows the protocol; a program does a job. It does the job twice: with several processes that
pass references to each other, and in this process without farref. The results must agree. Both
times are printed; the first includes starting and ending the processes.

The module of a program has a docstring (the first line describes the job in one sentence), a
subclass of `Program`, and ``PROGRAM``, a function that makes one with its default options.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..actors.api.system import System
from ..console import Console, echo, write_json
from ..plurals import counted
from ..protocol.errors import FarrefError
from .stage import BaseOption, SharingOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from rich.console import RenderableType

    from ..protocol.sharing import Sharing

T = TypeVar("T")
INSTALL = "pip install 'farref[examples]'"


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


WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=64, help="Worker processes of a program.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The result as JSON.")]


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
    sharing: Sharing = "lend",
) -> Comparison:
    """Do the job twice, with a bar on stderr, and compare. Raises the errors of the job."""
    workers = workers or min(4, os.cpu_count() or 2)
    columns = (TextColumn("{task.description:7}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        begin = time.perf_counter()
        with System(base, sharing=sharing) as system:
            found = program.together(system, workers, progress)
        middle = time.perf_counter()
        expected = program.alone(progress)
        end = time.perf_counter()
    return Comparison(workers, middle - begin, end - middle, program.judge(found, expected))


def run(
    program: Program[Any],
    workers: int | None = None,
    *,
    as_json: bool = False,
    base: str | None = None,
    sharing: Sharing = "lend",
) -> bool:
    """`do` the job and print the result. Return whether both ways agree."""
    done = do(program, workers, base=base, sharing=sharing)
    if as_json:
        write_json(done.figures, indent=2)
    else:
        done.show(Console())
    return done.verdict.right


# ---- errors


@contextmanager
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


@contextmanager
def told(name: str) -> Iterator[None]:
    """Let an error in *name* end the program with one line: exit code 2 for bad input, else 1."""
    try:
        yield
    except (InputError, FarrefError, MissingPackageError, OSError) as error:
        kind = f"{type(error).__name__}: " if isinstance(error, FarrefError | OSError) else ""
        echo(f"{name}: {kind}{error}", err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


# ---- a program's own command line


def run_alone(doc: str | None, make: Callable[[], Program[Any]]) -> None:
    """Run as the ``__main__`` of a program's file: its options, the exit code."""

    def main(
        *,
        workers: WorkersOption = None,
        as_json: JsonOption = False,
        base: BaseOption = None,
        sharing: SharingOption = None,
    ) -> None:
        with told(Path(inspect.getfile(make)).stem):
            right = run(make(), workers, as_json=as_json, base=base, sharing=sharing or "lend")
        raise typer.Exit(0 if right else 1)

    main.__doc__ = doc
    typer.run(main)


def module_of(name: str) -> str:
    """The module of the example that the command line calls *name*."""
    return f"{__package__.rpartition('.')[0]}.examples.{name.replace('-', '_')}"


def about(name: str) -> tuple[str, str]:
    """The first sentence, and the rest, of the docstring of the program *name*.

    Does not import the program: its packages may be missing, or slow to import.
    """
    spec = find_spec(module_of(name))
    if spec is None or spec.origin is None:
        raise AssertionError(f"there is no example {name!r}, though it is listed")
    doc = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    plain = (doc or "").translate({ord(mark): None for mark in "`*"})
    sentence, _, rest = plain.partition("\n")
    return sentence, rest.strip()


def make(name: str) -> Program[Any]:
    """The program *name*, with its default options. Raises `MissingPackageError`."""
    module: ModuleType = importlib.import_module(module_of(name))
    program: Program[Any] = module.PROGRAM()
    return program

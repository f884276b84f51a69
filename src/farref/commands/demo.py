"""`farref demo` lists demos and programs, plays one, or plays all of them as a tour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.rule import Rule
from rich.table import Table

from ..console import Console, Text, echo, write_json
from ..examples import harness
from ..examples.harness import Demo, MissingPackageError, WorkersOption
from ..protocol.errors import FarrefError
from ..protocol.sharing import Sharing
from .options import (
    BaseOption,
    PaceOption,
    SaveOption,
    SharingOption,
    check_suffix,
    pause_of,
    save_story,
)

NAMES = (
    "return-value",
    "user-to-owner",
    "owner-to-user",
    "user-to-user",
    "tell-return-value",
    "tell-user-to-owner",
    "tell-owner-to-user",
    "tell-user-to-user",
    "lend-kept",
    "nested",
    "forward-owned",
    "return-owned",
    "alias-chain",
    "alias-tree",
    "early-calls",
    "pipeline",
    "ring",
    "middle-dies",
    "owner-dies",
    "elastic",
    "late-arrival",
    "uncounted-holder",
    "kept-by-init",
    "reader-ends",
)
"""The traced demos, in the order of the tour. Each is a module of `farref.examples`."""
PROGRAMS = ("parameter-server", "pagerank", "mapreduce", "photographs", "wordcount")
"""The programs; the tour ends with them. Run alone, each has options of its own."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class How:
    """How to play, from the command line. None means: as each demo says itself."""

    base: str | None
    sharing: Sharing | None
    workers: int | None
    pause: float


def complete(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names that begin with *incomplete*, with a sentence each, for the shell's tab key."""
    for name, sentence, _ in _listed():
        if name.startswith(incomplete):
            yield name, sentence
    if ALL.startswith(incomplete):
        yield ALL, "All of them, as a tour."


def demo(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The demo, or `all`; without a name the demos are listed.",
            autocompletion=complete,
            show_default=False,
        ),
    ] = None,
    *,
    save: SaveOption = None,
    base: BaseOption = None,
    sharing: SharingOption = None,
    pace: PaceOption = None,
    workers: WorkersOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the list, or the summary of a demo, as JSON.")
    ] = False,
) -> None:
    """List the demos, or play one on real actors and show its trace.

    The exit code is 0 only if no object, fork or loan was left, and every step
    of a published example was found. A program exits with 0 if its result was
    right.
    """  # fmt: skip
    if name not in (None, *NAMES, *PROGRAMS, ALL):
        known = ", ".join((*NAMES, *PROGRAMS, ALL))
        raise typer.BadParameter(
            f"there is no demo {name!r}; the demos are: {known}", param_hint="NAME"
        )
    if save is not None:
        if name in (None, ALL, *PROGRAMS):
            raise typer.BadParameter("give the name of one traced demo", param_hint="--save")
        check_suffix(save)
    if workers is not None and name not in (ALL, *PROGRAMS):
        raise typer.BadParameter(
            f"only programs take it: {', '.join(PROGRAMS)}", param_hint="--workers"
        )
    how = How(base, sharing, workers, pause_of(pace))
    if name is None:
        _list(as_json=as_json)
    elif name == ALL:
        raise typer.Exit(0 if _tour(how, as_json=as_json) else 1)
    else:
        with harness.told(name):
            figures, right = _play(name, how, save, silent=as_json)
        if as_json:
            write_json(figures, indent=2)
        raise typer.Exit(0 if right else 1)


def _listed() -> Iterator[tuple[str, str, str]]:
    for name in NAMES:
        found = Demo.named(name)
        yield name, found.sentence, found.sharing
    for name in PROGRAMS:
        lacks = ", ".join(harness.missing(name))
        needs = f" Needs {lacks} ({harness.INSTALL})." if lacks else ""
        yield name, harness.about(name)[0] + needs, "any"


def _list(*, as_json: bool) -> None:
    if as_json:
        rows = [{"name": n, "sentence": s, "sharing": how} for n, s, how in _listed()]
        write_json(rows, indent=2)
        return
    console = Console()
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, sentence, sharing in _listed():
        if name == PROGRAMS[0]:
            table.add_section()
            table.add_row()
        table.add_row(name, sharing, sentence)
    console.print(table)
    console.print()
    console.print(Text("In the middle: how calls share the references in arguments (--sharing)."))
    console.print(Text("Play one: farref demo NAME   All of them: farref demo all"))


def _play(name: str, how: How, save: Path | None, *, silent: bool) -> tuple[dict[str, Any], bool]:
    """Play a demo or a program, and show it unless *silent*. Return its figures, and success."""
    if name in PROGRAMS:
        made, console = harness.make(name), Console()
        sentence, rest = harness.about(name)
        if not silent:
            console.print(Text(sentence, style="bold"), end="\n\n")
        done = harness.do(made, how.workers, base=how.base, sharing=how.sharing)
        if not silent:
            done.show(console)
            console.print()
            harness.say(rest, console)
        return {"name": name, "sentence": sentence} | done.figures, done.verdict.right
    played = Demo.named(name)
    story, other = harness.perform(played, how.base, how.sharing), harness.elsewhere(played)
    if save is not None:  # first: a pipe that closes early ends what is shown
        save_story(story, save)
    if not silent:
        harness.present(played, story, how.sharing, how.pause, other)
    said = story.summary
    figures = {
        "name": name,
        "sentence": played.sentence,
        "sharing": how.sharing or played.sharing,
        "elsewhere": other,
        "user": dict(said.user),
        "control": dict(said.control),
        "objects": said.objects,
        "freed": said.freed,
        "lost": list(said.lost),
        "left": list(said.left),
        "missing": list(said.missing),
        "left_out": list(said.left_out),
    }
    return figures, harness.well(story)


def _tour(how: How, *, as_json: bool) -> bool:
    """Play all, even if one fails. Return whether all that could be played succeeded."""
    console = Console()
    tour = (*NAMES, *PROGRAMS)
    figures, wrong, skipped = [], [], []
    for number, name in enumerate(tour, 1):
        if not as_json:
            console.print(Rule(f"{number}/{len(tour)}  {name}", align="left", style="dim"))
        try:
            found, right = _play(name, how, None, silent=as_json)
        except MissingPackageError as error:
            skipped.append(name)
            echo(f"{name} was left out: {error}", err=True)
        except FarrefError as error:
            wrong.append(name)
            echo(f"{name}: {type(error).__name__}: {error}", err=True)
        else:
            figures.append(found)
            wrong += [] if right else [name]
        if not as_json:
            console.print()
    if as_json:
        write_json(figures, indent=2)
    else:
        console.print(Rule(align="left", style="dim"))
        well_ended = len(tour) - len(wrong) - len(skipped)
        console.print(Text(f"{well_ended} of {len(tour)} succeeded", style="bold"))
        for what, names in (("left out", skipped), ("failed", wrong)):
            if names:
                console.print(Text(f"{what}: {', '.join(names)}"))
    return not wrong

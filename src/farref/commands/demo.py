"""`farref demo`: the demos listed, one played, or all of them as a tour."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..protocol.errors import FarrefError
from ..protocol.sharing import Sharing
from ..simulation.plan import Weather
from . import chaos
from .stage import (
    Demo,
    SharingOption,
    check_suffix,
    chosen,
    demo_of,
    perform,
    present,
    save_story,
    well,
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
    "forward-owned",
    "return-owned",
    "alias-chain",
    "alias-tree",
    "pipeline",
    "elastic",
)
"""The traced demos, in the order of the tour. Each is a module of `farref.examples`."""
PROGRAM = "wordcount"
"""A real program, which ends the tour. It has options of its own when it runs alone."""
CHAOS = "chaos"
"""A simulation, drawn from a seed: no part of the tour, as it is another one each time."""
ALL = "all"


class Sky(StrEnum):
    """A weather of `chaos`, as a choice on the command line."""

    CALM = "calm"
    CRASHES = "crashes"
    CUTS = "cuts"
    STORM = "storm"


def find(name: str) -> Demo:
    """The demo *name*, from its module."""
    module = importlib.import_module(f"...examples.{name.replace('-', '_')}", __name__)
    return demo_of(name, module.__doc__, module.play)


def complete(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names that begin so, with a sentence each: for the shell's tab key."""
    for name, sentence, _ in _listed():
        if name.startswith(incomplete):
            yield name, sentence
    if ALL.startswith(incomplete):
        yield ALL, "All of them, as a tour."


def demo(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Which one, or `all`; without it they are listed.",
            autocompletion=complete,
            show_default=False,
        ),
    ] = None,
    *,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Save the trace: .jsonl, .svg or .html."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="The Thespian system base, e.g. simpleSystemBase.", show_default=False),
    ] = None,
    sharing: SharingOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of `chaos`: what happens in it.")] = 1,
    acts: Annotated[int, typer.Option(min=0, max=500, help="Of `chaos`: how much happens.")] = 30,
    weather: Annotated[
        Sky | None, typer.Option(help="Of `chaos`: what befalls them.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="List the demos, or the summary of one, as JSON.")
    ] = False,
) -> None:
    """List the demos, or play one on real actors and show its trace.

    The exit code is 0 only if nothing was left, neither objects nor forks nor
    loans, and every step of a published example was found.
    """  # fmt: skip
    if save is not None:
        if name in (None, ALL, PROGRAM):
            raise typer.BadParameter("it needs the name of one traced demo", param_hint="--save")
        check_suffix(save)
    if name is None:
        _list(as_json=as_json)
        return
    if name not in (*NAMES, CHAOS, PROGRAM, ALL):
        known = ", ".join((*NAMES, CHAOS, PROGRAM, ALL))
        raise typer.BadParameter(
            f"there is no demo {name!r}; there are: {known}", param_hint="NAME"
        )
    try:
        how = chosen(sharing)
        if name == CHAOS:
            sky: Weather | None = None if weather is None else weather.value
            right = chaos.run(seed, acts, how, sky, save, as_json=as_json)
            raise typer.Exit(0 if right else 1)
        right = _tour(base, how) if name == ALL else _one(name, base, how, save, as_json=as_json)
    except FarrefError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from error
    raise typer.Exit(0 if right else 1)


def _listed() -> Iterator[tuple[str, str, str]]:
    """Each demo's name, sentence, and the discipline that it is about."""
    for name in NAMES:
        found = find(name)
        yield name, found.sentence, found.sharing
    yield CHAOS, chaos.SENTENCE, "any"
    yield PROGRAM, _wordcount().SENTENCE, "lend"


def _list(*, as_json: bool) -> None:
    if as_json:
        rows = [{"name": n, "sentence": s, "sharing": how} for n, s, how in _listed()]
        typer.echo(json.dumps(rows, indent=2))
        return
    console = Console()
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, sentence, sharing in _listed():
        table.add_row(name, sharing, sentence)
    console.print(table)
    console.print(Text("\nPlay one: farref demo NAME   All of them: farref demo all"))


def _one(
    name: str, base: str | None, sharing: Sharing | None, save: Path | None, *, as_json: bool
) -> bool:
    if name == PROGRAM:
        how = sharing or "lend"
        return bool(_wordcount().run(as_json=as_json, base=base, sharing=how) == 0)
    played = find(name)
    story = perform(played, base, sharing)
    if save is not None:  # first: a pipe that closes early ends what is shown
        save_story(story, save)
    if as_json:
        said = story.summary
        typer.echo(
            json.dumps(
                {
                    "name": name,
                    "sentence": played.sentence,
                    "sharing": sharing or played.sharing,
                    "user": dict(said.user),
                    "control": dict(said.control),
                    "objects": said.objects,
                    "freed": said.freed,
                    "left": list(said.left),
                    "missing": list(said.missing),
                },
                indent=2,
            )
        )
    else:
        present(played, story, sharing)
    return well(story)


def _tour(base: str | None, sharing: Sharing | None) -> bool:
    console = Console()
    right = True
    for number, name in enumerate(NAMES, 1):
        console.print(Rule(f"{number}/{len(NAMES) + 1}  {name}", align="left", style="dim"))
        right &= _one(name, base, sharing, None, as_json=False)
        console.print()
    console.print(Rule(f"{len(NAMES) + 1}/{len(NAMES) + 1}  {PROGRAM}", align="left", style="dim"))
    return _one(PROGRAM, base, sharing, None, as_json=False) and right


def _wordcount() -> ModuleType:
    return importlib.import_module("...examples.wordcount", __name__)

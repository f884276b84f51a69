"""`farref trace` shows the messages between the endpoints of a system, live or recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..actors.hosting import directory
from ..console import Console, write, write_json
from ..trace import EVERYTHING, Only, Progress, Story, TraceError, load, show, tell
from ..trace.export.perfetto import perfetto
from ..trace.export.tracetest import trace_test
from ..trace.records import Record, Recording
from .bar import bar
from .failing import failing
from .live import watch
from .options import SaveOption, check_suffix, save_story, writing
from .refs import complete_name

ROWS = 1_000
"""Rows that are printed without `--all`."""

Form = Literal["perfetto", "test"]
"""The forms in which a trace can be exported."""


def trace(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SYSTEM|FILE|FOLDER]",
            help="A running system by its name (default: the only one that runs), a saved .jsonl, "
            "or the folder given as System(trace=...).",
            autocompletion=complete_name,
            show_default=False,
        ),
    ] = None,
    *,
    ref: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only steps about this reference, such as A/1."),
    ] = None,
    worker: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only steps and messages of this endpoint."),
    ] = None,
    export: Annotated[
        Form | None,
        typer.Option(help="Export Chrome trace events or a trace test."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", "-o", metavar="FILE", help="The file for the export, if not stdout."),
    ] = None,
    save: SaveOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Watch a running system for this long, instead of until Ctrl-C.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the steps as lines of JSON objects."),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All rows: of a long trace, and of searches for rings.")
    ] = False,
) -> None:
    """Show the messages about references: a lane for each endpoint, and the owners' view.

    A running system need not have been started with tracing. It records only while this watches.
    """
    if to is not None and export is None:
        raise typer.BadParameter("it is for an --export", param_hint="--to")
    if export is not None and as_json:
        raise typer.BadParameter("choose one of --export and --json")
    if save is not None:
        check_suffix(save)
    only = Only(tuple(ref or ()), tuple(worker or ()))
    if export == "test" and only != EVERYTHING:
        raise typer.BadParameter("a test needs the whole trace: leave out --ref and --worker")
    with failing("trace", TraceError):
        recording = _recording(source, only, seconds, as_json=as_json)
        if recording is None:
            return
        fold = not (every or as_json or export is not None)
        story = _told(recording, only, fold=fold)
        if save is not None:
            save_story(story, save)
        if export is not None:
            _export(story, export, to)
        elif as_json:
            spans = [(0, len(story.records))] if only == EVERYTHING else story.spans
            for first, last in spans:
                for record in story.records[first:last]:
                    _print_record(record)
        else:
            show(story, Console(), rows=None if every else ROWS)


def _recording(
    source: str | None, only: Only, seconds: float | None, *, as_json: bool
) -> Recording | None:
    """The recording to show; None if its steps have already been printed."""
    if source is not None and Path(source).exists():
        if seconds is not None:
            raise typer.BadParameter("it is for a running system", param_hint="--seconds")
        with bar("reading") as progress:
            return load(Path(source), progress)
    name = _system(source)
    if as_json and only != EVERYTHING:
        raise typer.BadParameter("--json of a running system takes neither --ref nor --worker")
    recording = watch(name, only, seconds, show=_print_record if as_json else None)
    return None if as_json else recording


def _system(source: str | None) -> str:
    running = directory.names()
    there = f"these systems run: {', '.join(running)}" if running else "no system of yours runs"
    if source is not None and source not in running:
        raise TraceError(f"there is no trace at {source}, and no system of that name: {there}")
    if source is None and len(running) != 1:
        raise TraceError(f"name a system or a saved trace: {there}")
    return source or running[0]


def _told(recording: Recording, only: Only, *, fold: bool) -> Story:
    with bar("telling") as progress:
        story = tell(recording, only=only, progress=progress, fold=fold)
    if not story.rows:
        raise TraceError(
            "no step of the trace matches"
            if only != EVERYTHING
            else "nothing happened during the recording: nothing was called, sent or freed"
        )
    return story


def _export(story: Story, form: Form, to: Path | None) -> None:
    with bar("exporting") as progress:
        makers: dict[Form, Callable[[Story, Progress], str]] = {
            "perfetto": perfetto,
            "test": trace_test,
        }
        text = makers[form](story, progress)
    if to is None:
        write(text)
        return
    with writing(to):
        to.write_text(text, encoding="utf-8")


def _print_record(record: Record) -> None:
    write_json(record.fields)

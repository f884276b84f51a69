"""`farref refs` shows the references of a running system, their holders, and the reasons."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import msgspec
import typer
from rich.tree import Tree

from ..actors.api.system import System
from ..actors.hosting import directory
from ..actors.hosting.bases import CLEAR
from ..actors.inspect.inspection import ReferenceInfo, Role
from ..actors.inspect.inspector import LEAK_AGE
from ..actors.inspect.snapshot import Snapshot
from ..actors.inspect.why import Reason
from ..console import Console, Text, echo, write_json
from ..protocol.errors import SystemDownError
from ..refs.choice import Choice, Order, State, ordered
from ..refs.table import BAD, LEGEND, QUIET, WIDEST, summary, table, totals
from ..refs.watch import watch
from .bar import bar
from .failing import failing

PATIENCE = 3.0
"""Seconds that an endpoint has to answer, by default."""


def complete_name(incomplete: str) -> Iterator[str]:
    """Names of running systems that begin with *incomplete*, for the shell's tab key."""
    with suppress(Exception):
        yield from (name for name in directory.names() if name.startswith(incomplete))


def complete_id(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Ids of references that begin with *incomplete*, each with its type and owner."""
    with suppress(Exception), attached(context.params.get("name")) as system:
        for row in system.references(timeout=1.0):
            if row.rref.startswith(incomplete) and row.role in ("owner", "alias"):
                yield row.rref, f"{row.type or row.role} at {row.worker}"


SystemName = Annotated[
    str | None,
    typer.Argument(
        help="The system's name; not needed if only one of yours runs.",
        autocompletion=complete_name,
        show_default=False,
    ),
]
"""An argument of commands that look into a running system."""
AnswerTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait for an endpoint.")
]


def refs(
    name: SystemName = None,
    *,
    why: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Explain why the object with this id, or a unique beginning of one, is alive.",
            autocompletion=complete_id,
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until q or Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two looks of --watch.")
    ] = 1.0,
    worker: Annotated[str | None, typer.Option(help="Only rows of this endpoint.")] = None,
    role: Annotated[Role | None, typer.Option(help="Only rows of this role.")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only values of this type.")
    ] = None,
    state: Annotated[
        State | None, typer.Option(help="Only rows of this state, here or at the owner.")
    ] = None,
    prefix: Annotated[
        str, typer.Option("--id", metavar="ID", help="Only ids that begin with this.")
    ] = "",
    older: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Only rows at least this old.")
    ] = 0.0,
    suspects: Annotated[
        bool, typer.Option("--suspects", help="Only suspected leaks, and cycles.")
    ] = False,
    sort: Annotated[
        Order | None,
        typer.Option(
            help="Sort the rows by this; the greatest numbers come first. By default `id`, and "
            "`new` with --watch: the newest rows come first."
        ),
    ] = None,
    leak_age: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="An object that is unreachable for so long is a suspected leak.",
        ),
    ] = LEAK_AGE,
    timeout: AnswerTimeout = PATIENCE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show every reference of a running system, or why one is alive.

    Keys of --watch: / searches, s sorts, Tab groups by owner and type, arrows
    and Page keys scroll, q ends.

    Endpoints that are busy computing answer, too. An endpoint that does not
    answer in time is named. `docs/howto/find-a-leak.md` shows how to find a leak.
    """  # fmt: skip
    if why is not None and live:
        raise typer.BadParameter("--why looks only once", param_hint="--watch")
    chosen = Choice(
        worker=worker,
        role=role,
        type=kind,
        state=state,
        prefix=prefix,
        older=older,
        suspects=suspects,
    )
    try:
        with failing("refs", LookupError), attached(name) as system:
            if why is not None:
                with bar("asking"):
                    reason = system.why(why, timeout=timeout, leak_age=leak_age)
                if as_json:
                    write_json(reason.as_dict(), indent=2)
                else:
                    Console().print(_tree(reason))
                return

            def look() -> tuple[Snapshot, list[ReferenceInfo]]:
                snapshot = system.references(timeout=timeout, leak_age=leak_age)
                return snapshot, chosen.of(snapshot, "id" if live else sort or "id")

            with bar("asking"):
                seen = look()
            clear = any(host.capabilities.get(CLEAR) for host in system.hosts())
            chosen.check(seen[0])  # once: while this watches, an endpoint may end
            if live:
                _watch(look, every, sort or "new", as_json=as_json)
            elif as_json:
                write_json(_said(*seen), indent=2)
            else:
                _show(*seen, clear=clear)
    except KeyboardInterrupt:
        raise typer.Exit(0 if live else 130) from None


def only_system() -> str:
    """The name of your only system here. Raises `SystemDownError` if there is none, or several."""
    there = directory.names()
    if len(there) != 1:
        several = f"several of your systems run, name one: {', '.join(there)}"
        none = "no system of yours runs on this machine; use the first host of the system"
        raise SystemDownError(several if there else none)
    return there[0]


@contextmanager
def attached(name: str | None, command: str = "program") -> Iterator[System]:
    """The system *name*, or the only one that runs. Raises `SystemDownError`.

    Others, such as `farref top`, see this process as *command*, with its number.
    """
    try:
        found = only_system() if name is None else name
        joined = System.attach(found, program=f"{command}-{os.getpid()}")
    except ValueError as error:
        raise SystemDownError(str(error)) from error
    with joined as system:
        yield system


def _show(snapshot: Snapshot, rows: list[ReferenceInfo], *, clear: bool) -> None:
    console = Console()
    if rows:
        console.print(table(rows, console.width))
        if console.width < WIDEST:
            console.print(Text(LEGEND, style=QUIET))
    for line in summary(snapshot, rows):
        console.print(line)
    if clear:
        console.print(Text("messages between its hosts are sent in the clear", style=BAD))


def _watch(
    look: Callable[[], tuple[Snapshot, list[ReferenceInfo]]],
    every: float,
    order: Order,
    *,
    as_json: bool,
) -> None:
    """Show the table again and again, until a key ends it, or Ctrl-C, or the system."""
    try:
        if as_json:
            while True:
                snapshot, rows = look()
                write_json(_said(snapshot, ordered(rows, order)))
                time.sleep(every)
        watch(look, Console(), every, order)
    except SystemDownError as error:
        echo(f"farref refs: {error}", err=True)


def _tree(reason: Reason, into: Tree | None = None) -> Tree:
    style = {"reference": "bold", "endpoint": "color(33)", "flight": "color(166)"}
    text = Text(reason.text, style=style.get(reason.kind, ""))
    if reason.where:
        text.append(f"  {reason.where}", style=QUIET)
    branch = Tree(text, guide_style=QUIET) if into is None else into.add(text)
    for child in reason.children:
        _tree(child, branch)
    return branch


def _said(snapshot: Snapshot, rows: list[ReferenceInfo]) -> dict[str, Any]:
    return {
        "system": snapshot.system,
        "rows": [msgspec.structs.asdict(row) for row in rows],
        "silent": snapshot.silent,
        "cycles": snapshot.cycles,
        "totals": totals(snapshot, rows),
        "counters": {
            worker: msgspec.structs.asdict(each) for worker, each in snapshot.counters.items()
        },
    }

"""`farref gc`: collects objects that only hold each other, now."""

from __future__ import annotations

from typing import Annotated

import typer

from ..actors.inspect.inspector import COLLECT_PATIENCE
from ..console import echo, write_json
from ..protocol.effects import Garbage
from .failing import failing
from .refs import SystemName, attached


def gc(
    name: SystemName = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List them, free nothing.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long an endpoint may search.")
    ] = COLLECT_PATIENCE,
    as_json: Annotated[bool, typer.Option("--json", help="The objects as JSON.")] = False,
) -> None:
    """Free the objects of a running system that only hold each other.

    Such objects form rings of references, and no variable, message or call of
    any endpoint leads to them.
    """  # fmt: skip
    with failing("gc"), attached(name) as system:
        found = system.collect(dry_run=dry_run, timeout=timeout)
    if as_json:
        write_json([_as_dict(garbage) for garbage in found], indent=2)
        return
    for garbage in found:
        ring = " -> ".join(map(str, garbage.ring))
        echo(f"{'found' if dry_run else 'freed'} {len(garbage.objects)}: {ring}")
    if not found:
        echo("no objects were found that only hold each other")


def _as_dict(garbage: Garbage) -> dict[str, object]:
    return {
        "objects": [str(rref) for rref in garbage.objects],
        "ring": [str(rref) for rref in garbage.ring],
        "cut": garbage.cut,
    }

"""The table of references: a line for each row, as many columns as there is room for.

Colours are the mid-tones of the traces', readable on light and on dark; nothing is said by colour
alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ..actors.counters import Counters
from ..actors.why import seconds_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..actors.inspection import ReferenceInfo
    from ..actors.snapshot import Snapshot

QUIET = "color(244)"
BAD = "bold color(167)"
ROLES = {
    "owner": "color(33)",
    "alias": "color(134)",
    "user": "color(71)",
    "borrower": "color(136)",
}
CHANGED = "bold reverse"
WIDE = 116
"""Cells from which on holders and what is pending have columns."""
WIDER = 168
"""And where the objects were created."""
Key = tuple[str, str]
"""An endpoint and a reference."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    title: str
    right: bool = False
    ratio: int | None = None
    """It takes its part of the room that is left."""
    least: int | None = None


_ALWAYS = (
    Column("reference", least=8),
    Column("role"),
    Column("at", least=4),
    Column("value", least=6),
    Column("size", right=True),
    Column("hnd", right=True),
    Column("tsk", right=True),
    Column("in", right=True),
    Column("brw", right=True),
    Column("age", right=True),
    Column("state", least=8),
)
_MORE = (Column("held by", ratio=3), Column("not settled", ratio=3))
_MOST = (Column("created at", ratio=4),)
LEGEND = (
    "hnd: handles   tsk: calls and forks not settled   in: values that contain it   "
    "brw: loans and borrowers"
)


def columns(width: int) -> tuple[Column, ...]:
    """Those that fit."""
    shown = _ALWAYS
    if width >= WIDE:
        shown += _MORE
    if width >= WIDER:
        shown += _MOST
    return shown


def cells(row: ReferenceInfo) -> list[str]:
    """What all columns say of *row*."""
    size = "" if row.size is None else size_text(row.size)
    return [
        row.rref,
        row.role,
        row.worker,
        row.type or (f"of {row.canonical or row.target}" if row.role == "alias" else "?"),
        size if row.complete else f">{size}",
        str(row.handles or ""),
        str(row.tasks + row.messages or ""),
        str(len(row.contained_in) or ""),
        str(len(row.loans) + len(row.borrowers) or ""),
        seconds_text(row.age),
        state(row),
        holders(row),
        unsettled(row),
        row.site or "",
    ]


def state(row: ReferenceInfo) -> str:
    """The row's own state, its owner's where that says more, and its marks."""
    words = [row.state]
    if row.role in ("user", "borrower") and row.owner_state not in (None, "resolved"):
        words.append(f"({row.owner_state})")
    return " ".join(["".join(f"{mark}! " for mark in row.marks) + words[0], *words[1:]])


def holders(row: ReferenceInfo) -> str:
    """Whom the owner counts, by endpoint; who borrowed it from here; what stands for it."""
    counts = Counter([*row.forks.values(), *row.borrowers.values()])
    words = [f"{worker} x{n}" if n > 1 else worker for worker, n in sorted(counts.items())]
    words += [f"alias {rref} of {worker}" for rref, worker in sorted(row.aliases.items())]
    return ", ".join(words)


def unsettled(row: ReferenceInfo) -> str:
    """Forks and loans passed on, and the one that the owner has not confirmed."""
    words = [f"{fork} to {worker}" for fork, worker in row.pins.items()]
    if row.unsettled is not None:
        words[0] = f"{words[0]} ({seconds_text(row.unsettled)})"
    if row.requested is not None:
        words.append(f"{row.requested}: asked {row.owner}")
    return ", ".join(words)


def table(
    rows: Sequence[ReferenceInfo],
    width: int,
    before: Mapping[Key, list[str]] | None = None,
    gone: Sequence[list[str]] = (),
) -> Table:
    """*rows* for *width* cells; what has changed since *before* is highlighted, *gone* shown."""
    shown = columns(width)
    watched = before is not None
    made = Table(box=None, padding=(0, 1, 0, 0), expand=True, header_style=f"bold {QUIET}")
    if watched:
        made.add_column("", no_wrap=True, width=1)
    for column in shown:
        made.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=column.ratio,
            min_width=column.least,
        )
    for row in rows:
        told = cells(row)
        old = None if before is None else before.get((row.worker, row.rref))
        line = [_cell(n, text, row, old) for n, text in enumerate(told[: len(shown)])]
        if watched:
            differs = old is not None and _steady(old) != _steady(told)
            line.insert(0, Text("+" if old is None else "*" if differs else " ", style="bold"))
        made.add_row(*line)
    for told in gone:
        made.add_row(Text("-"), *(Text(text, style=f"strike {QUIET}") for text in told[: len(shown)]))
    return made


_AGE, _STATE, _UNSETTLED = 9, 10, 12


def _steady(told: list[str]) -> list[str]:
    """What does not change by itself."""
    return [text for n, text in enumerate(told) if n not in (_AGE, _UNSETTLED)]


def _cell(number: int, text: str, row: ReferenceInfo, old: list[str] | None) -> Text:
    style = ""
    if number == 1:
        style = ROLES[row.role]
    elif number == _STATE and (row.marks or row.state == "lost"):
        style = BAD
    elif number in (_AGE, 13):
        style = QUIET
    if old is not None and number not in (_AGE, _UNSETTLED) and old[number] != text:
        style = CHANGED
    return Text(text, style=style)


def totals(snapshot: Snapshot, rows: Sequence[ReferenceInfo]) -> dict[str, int]:
    """What *rows*, of *snapshot*, come to."""
    objects = {row.rref for row in rows if row.role == "owner"}
    every = sum(snapshot.counters.values(), start=Counters())
    return {
        "rows": len(rows),
        "objects": len(objects),
        "bytes": sum(row.size or 0 for row in rows if row.role == "owner"),
        "handles": sum(row.handles for row in rows),
        "unsettled": sum(len(row.pins) + (row.requested is not None) for row in rows),
        "leaks": len({row.rref for row in rows if "leak" in row.marks}),
        "cycles": len(snapshot.cycles),
        "endpoints": len(snapshot.counters) + len(snapshot.silent),
        "silent": len(snapshot.silent),
        "control_messages": sum(every.control.values()),
        "retransmissions": every.retransmissions,
    }


def summary(snapshot: Snapshot, rows: Sequence[ReferenceInfo]) -> Iterable[Text]:
    """The lines below the table."""
    said = totals(snapshot, rows)
    hidden = len(snapshot) - len(rows)
    text = (
        f"{_count(said['rows'], 'row')}{f' of {len(snapshot)}' if hidden else ''}: "
        f"{_count(said['objects'], 'object')} of {size_text(said['bytes'])}, "
        f"{_count(said['handles'], 'handle')}, {said['unsettled']} not settled; "
        f"{_count(said['endpoints'], 'endpoint')}; {_count(said['control_messages'], 'control message')}, "
        f"{said['retransmissions']} sent again"
    )
    yield Text(text, style="bold")
    for worker, why in snapshot.silent.items():
        yield Text(f"{worker}: {why}; its references are not shown", style=BAD)
    if said["leaks"]:
        yield Text(
            f"{_count(said['leaks'], 'suspected leak')}: no variable, message or call leads there; "
            "see farref refs --why ID",
            style=BAD,
        )
    for cycle in snapshot.cycles[:5]:
        yield Text(f"cycle of references: {' -> '.join([*cycle, cycle[0]])}", style=BAD)
    if len(snapshot.cycles) > 5:
        yield Text(f"and {len(snapshot.cycles) - 5} cycles more", style=BAD)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"

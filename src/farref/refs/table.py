"""The table of references: a line for each row, and as many columns as fit.

Colours are mid-tones like the traces', readable on light and dark backgrounds. No information is in
the colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from ..actors.core.counters import Counters
from ..actors.inspect.inspection import ReferenceInfo
from ..actors.inspect.snapshot import Snapshot
from ..actors.inspect.why import seconds_text, size_text
from ..console import Text
from ..plurals import counted

QUIET = "color(244)"
BAD = "bold color(167)"
ROLES = {"owner": "color(33)", "alias": "color(134)", "user": "color(71)", "borrower": "color(136)"}
CHANGED = "bold reverse"
WIDE = 116
"""From this width on, holders and unsettled forks have columns."""
WIDER = 168
"""From this width on, creation sites have a column."""
WIDEST = 190
"""From this width on, each count has a column."""
OPTIONAL = 9
"""The least width of columns that are left out if they are empty."""
Key = tuple[str, str]
"""An endpoint and a reference."""

LEGEND = "held by: h handles, t pending calls, forks, messages, v values with it, b loans"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    title: str
    tell: Callable[[ReferenceInfo], str]
    least: int
    """Its least width, in cells."""
    right: bool = False
    steady: bool = True
    """Its text changes only if something happens."""
    wide: int = 0
    """The least width of the whole table that has this column."""
    narrow: int = 1000
    """From this width on other columns replace it."""
    ending: bool = False
    """Of a text that is too long, show the end."""


def _value(row: ReferenceInfo) -> str:
    if row.role == "alias":
        return f"-> {row.canonical or row.target}"
    return row.type or ("(alias)" if row.owner_state == "alias" else "?")


def _size(row: ReferenceInfo) -> str:
    size = "" if row.size is None else size_text(row.size)
    return size if row.complete else f">{size}"


def _counts(row: ReferenceInfo) -> str:
    tasks, borrowed = row.tasks + row.messages, len(row.loans) + len(row.borrowers)
    counts = zip((row.handles, tasks, len(row.contained_in), borrowed), "htvb", strict=True)
    return " ".join(f"{count}{letter}" for count, letter in counts if count)


def _number(count: int) -> str:
    return str(count) if count else ""


def _state(row: ReferenceInfo) -> str:
    """The row's own state, and its owner's if that adds anything (the value shows "alias")."""
    if row.role in ("user", "borrower") and row.owner_state not in (None, "resolved", "alias"):
        return f"{row.state} ({row.owner_state})"
    return row.state


def holders(row: ReferenceInfo) -> str:
    """The endpoints that the owner counts, or that borrowed it from here, and its aliases."""
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


COLUMNS = (
    Column("reference", lambda row: row.rref, 10),
    Column("role", lambda row: row.role, 8),
    Column("at", lambda row: row.worker, 4),
    Column("value", _value, 4),
    Column("size", _size, 6, right=True),
    Column("held by", _counts, 7, narrow=WIDEST),
    Column("handles", lambda row: _number(row.handles), 7, right=True, wide=WIDEST),
    Column("tasks", lambda row: _number(row.tasks + row.messages), 5, right=True, wide=WIDEST),
    Column("values", lambda row: _number(len(row.contained_in)), 6, right=True, wide=WIDEST),
    Column(
        "loans",
        lambda row: _number(len(row.loans) + len(row.borrowers)),
        5,
        right=True,
        wide=WIDEST,
    ),
    Column("age", lambda row: seconds_text(row.age), 5, right=True, steady=False),
    Column("state", _state, 8),
    Column("suspected", lambda row: " ".join(row.marks), OPTIONAL),
    Column("known to", holders, OPTIONAL, wide=WIDE),
    Column("not settled", unsettled, OPTIONAL, wide=WIDE, steady=False),
    Column("created at", lambda row: row.site or "", OPTIONAL, wide=WIDER, ending=True),
)


def cells(row: ReferenceInfo) -> list[str]:
    """The texts of *row*, for all columns."""
    return [column.tell(row) for column in COLUMNS]


def table(
    rows: Sequence[ReferenceInfo],
    width: int,
    before: Mapping[Key, list[str]] | None = None,
    gone: Sequence[list[str]] = (),
) -> Table:
    """*rows* for *width* cells; changes since *before* are highlighted, *gone* rows shown."""
    told = [cells(row) for row in rows]
    shown = [
        number
        for number, column in enumerate(COLUMNS)
        if column.wide <= width < column.narrow
        and (column.least != OPTIONAL or any(line[number] for line in told))
    ]
    watched = before is not None
    made = Table(box=None, padding=(0, 1, 0, 0), header_style=f"bold {QUIET}")
    if watched:
        made.add_column("", no_wrap=True, width=1)
    widths = dict(zip(shown, _fitting(told, shown, width - 2 * watched), strict=True))
    for number, cut in widths.items():
        column = COLUMNS[number]
        made.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=cut,
        )
    for row, line in zip(rows, told, strict=True):
        old = None if before is None else before.get((row.worker, row.rref))
        texts = [_cell(number, line, row, old, cut) for number, cut in widths.items()]
        if watched:
            differs = old is not None and _steady(old) != _steady(line)
            texts.insert(0, Text("+" if old is None else "*" if differs else " ", style="bold"))
        made.add_row(*texts)
    for line in gone:
        texts = [Text(line[number], style=f"strike {QUIET}") for number in shown]
        made.add_row(Text("-", style="bold"), *texts)
    return made


def _fitting(told: Sequence[list[str]], shown: Sequence[int], width: int) -> list[int]:
    """The widths of the columns: as wide as their texts, unless the table would be too wide."""
    widths = [
        max([len(COLUMNS[number].title), *(len(line[number]) for line in told)]) for number in shown
    ]
    left = sum(widths) + len(widths) - width
    while left > 0:
        spare = [cut - COLUMNS[number].least for number, cut in zip(shown, widths, strict=True)]
        most = max(range(len(spare)), key=spare.__getitem__)
        if spare[most] <= 0:
            break
        widths[most] -= 1
        left -= 1
    return widths


def _steady(told: list[str]) -> list[str]:
    return [text for text, column in zip(told, COLUMNS, strict=True) if column.steady]


def _cell(
    number: int, told: list[str], row: ReferenceInfo, old: list[str] | None, cut: int
) -> Text:
    column, text = COLUMNS[number], told[number]
    style = ""
    if column.title == "role":
        style = ROLES[row.role]
    elif column.title == "suspected" or row.state == "lost":
        style = BAD
    elif column.title in ("age", "created at"):
        style = QUIET
    if old is not None and column.steady and old[number] != text:
        style = CHANGED
    if column.ending and len(text) > cut:
        text = f"\N{HORIZONTAL ELLIPSIS}{text[1 - cut :]}"
    return Text(text, style=style)


def totals(snapshot: Snapshot, rows: Sequence[ReferenceInfo]) -> dict[str, int]:
    """The sums over *rows*, of *snapshot*."""
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
        f"{counted(said['rows'], 'row')}{f' of {len(snapshot)}' if hidden else ''}: "
        f"{counted(said['objects'], 'object')} of {size_text(said['bytes'])}, "
        f"{counted(said['handles'], 'handle')}, {said['unsettled']} not settled; "
        f"{counted(said['endpoints'], 'endpoint')}; "
        f"{counted(said['control_messages'], 'control message')}, "
        f"{said['retransmissions']} sent again"
    )
    yield Text(text, style="bold")
    for worker, why in snapshot.silent.items():
        yield Text(f"{worker}: {why}; its references are not shown", style=BAD)
    if said["leaks"]:
        yield Text(
            f"{counted(said['leaks'], 'suspected leak')}: no variable, message or call leads "
            "there; see farref refs --why ID",
            style=BAD,
        )
    for cycle in snapshot.cycles[:5]:
        yield Text(f"cycle of references: {' -> '.join([*cycle, cycle[0]])}", style=BAD)
    if len(snapshot.cycles) > 5:
        yield Text(f"and {len(snapshot.cycles) - 5} cycles more", style=BAD)

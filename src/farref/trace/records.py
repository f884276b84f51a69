"""Reading recordings: files of JSON lines, each line one step of one endpoint.

`load` takes a folder of such files (one per endpoint, see `actors.recording.tracing`) or one file.
A single file may hold several endpoints, as a saved trace does. In a file, the lines of one
endpoint are in that endpoint's own order; nothing else depends on the order in the file.

A crash of the machine may cut off the last line of a file. Such a line is skipped, and a problem
says so. Any other line that is not a record is an error that names the file and the line: a picture
of half a story would be worse than none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..actors.recording.steps import Head, decode
from .fields import fields_of, implied
from .progress import Progress, silent


class TraceError(Exception):
    """A trace cannot be read, or contradicts itself. The message says where."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A reference inside a message: its object, its fork, its owner, and the way of passing."""

    rref: str
    fork: str
    owner: str
    passing: str
    """``fork``, ``loan`` (for a call) or ``back`` (a loan, in the reply to its call)."""
    name: str = ""
    """The alias in whose name the reference is passed, if any."""
    counted: str = ""
    """``counted`` for a loan whose lender is in the owner's count."""


@dataclass(frozen=True, slots=True)
class ResolvedAlias:
    """The object behind an alias: a fork of the canonical object, and the path to it."""

    fork: Carried
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reported:
    """A callee's report about one loan, when the call has run."""

    rref: str
    fork: str
    owner: str
    held: bool
    borrowers: tuple[tuple[str, str], ...]
    """The loan and the borrower, for each borrower that got the reference through this callee and
    still holds it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A user's or borrower's last message about *rref*: these forks are gone."""

    rref: str
    forks: tuple[str, ...]
    borrowers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One step of the endpoint *at*, with all its *fields*."""

    at: str
    kind: str
    fields: dict[str, Any] = field(compare=False)
    line: str = field(default="", compare=False)
    """Its row; empty if the row of the step before implies it."""

    def text(self, name: str) -> str:
        """A field that is a string; empty if there is none."""
        return str(self.fields.get(name, ""))

    @property
    def peer(self) -> str:
        return self.text("peer")

    @property
    def message(self) -> str:
        """The kind of message."""
        return self.text("message")

    @property
    def user(self) -> bool:
        return bool(self.fields.get("user"))

    @property
    def carries(self) -> tuple[Carried, ...]:
        return tuple(Carried(*each) for each in self.fields.get("carries", ()))

    @property
    def moved(self) -> ResolvedAlias | None:
        """The object behind the alias that a `Canonical` or `Reply` is about."""
        moved = self.fields.get("moved")
        if moved is None:
            return None
        return ResolvedAlias(Carried(*moved["fork"]), tuple(moved["path"]))

    @property
    def brings(self) -> tuple[Carried, ...]:
        """Every reference in the message, inside the user's content and beside it."""
        return (*self.carries, self.moved.fork) if self.moved else self.carries

    @property
    def reports(self) -> tuple[Reported, ...]:
        """The loans that a `Reply` or a `Returned` reports."""
        if self.message not in ("Reply", "Returned"):
            return ()
        return tuple(
            Reported(**{**each, "borrowers": _pairs(each["borrowers"])})
            for each in self.fields.get("loans", ())
        )

    @property
    def notices(self) -> tuple[tuple[str, str], ...]:
        """The reference and the loan of each notice in a `NotifyRefRemoved`."""
        return _pairs(self.fields.get("loans", ())) if self.message == "NotifyRefRemoved" else ()

    @property
    def removals(self) -> tuple[Removal, ...]:
        """The forks that a `Delete` or a `RefRemoved` ends."""
        match self.message:
            case "Delete":
                told = [self.fields]
            case "RefRemoved":
                told = self.fields.get("removed", [])
            case _:
                told = []
        return tuple(
            Removal(each["rref"], tuple(each["forks"]), _pairs(each.get("borrowers", ())))
            for each in told
        )

    @property
    def name(self) -> tuple[str, str, int]:
        """A message's name, the same at both ends: sender, receiver, number between them."""
        ends = (self.at, self.peer) if self.kind == "send" else (self.peer, self.at)
        return (*ends, int(self.fields["number"]))


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording: the steps of each endpoint in its own order, and the problems found."""

    steps: dict[str, list[Record]]
    problems: tuple[str, ...] = ()
    title: str = ""
    notes: str = ""
    """The steps of a published example to find in it; see `notes`."""


def load(path: Path, progress: Progress = silent) -> Recording:
    """Read the folder or file *path*.

    Raises:
        TraceError: there is nothing there, or a line (not a torn last one) is not a record.
    """
    if not path.exists():
        raise TraceError(f"there is no trace at {path}")
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise TraceError(f"there is no trace in {path}: no .jsonl file")
    contents = [(file.name, _content(file)) for file in files]
    whole = sum(content.count(b"\n") for _, content in contents)
    records: list[Record] = []
    problems: list[str] = []
    read = itertools.count(1)
    for name, content in contents:
        found, said = _lines(content, name, lambda: progress(next(read), whole))
        records += found
        problems += said
    heads = [record for record in records if record.kind == "trace"]
    head = heads[0] if heads else Record("", "trace", {})
    steps = (record for record in records if record.kind != "trace")
    recording = group(steps, problems, head.text("title"), head.text("notes"))
    if not recording.steps:
        raise TraceError(f"{path} holds no steps")
    return recording


def group(
    records: Iterable[Record], problems: Iterable[str] = (), title: str = "", notes: str = ""
) -> Recording:
    """Sort *records* by endpoint, keeping each one's own order."""
    steps: dict[str, list[Record]] = {}
    for record in records:
        steps.setdefault(record.at, []).append(record)
    return Recording(dict(sorted(steps.items())), tuple(problems), title, notes)


def parse(line: str) -> list[Record]:
    """The step in a row, and the steps that always follow it. Raises `ValueError` with the reason.

    The head of a saved trace is a record of the kind ``trace``.
    """
    step = decode(line)
    if isinstance(step, Head):
        return [Record("", "trace", {"title": step.title, "notes": step.notes})]
    fields = fields_of(step)
    more = list(implied(fields))
    first = Record(fields["at"], fields["kind"], fields, line)
    return [first, *(Record(first.at, each["kind"], each) for each in more)]


def _pairs(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((first, second) for first, second in pairs)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from error


def _lines(content: bytes, name: str, begin: Callable[[], None]) -> tuple[list[Record], list[str]]:
    lines = content.split(b"\n")
    torn = lines.pop()  # empty, if the last line is whole
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        begin()
        if not line.strip():
            continue
        try:
            records += parse(line.decode())
        except UnicodeDecodeError as error:
            raise TraceError(f"{name} is not a trace: line {number} is not text") from error
        except ValueError as error:
            raise TraceError(f"{name}, line {number}, is not a step of a trace: {error}") from error
    if not torn:
        return records, []
    try:  # whole, but for its newline: a person's editor saved it so
        return [*records, *parse(torn.decode())], []
    except ValueError:
        where = f"{name}, line {len(lines) + 1}"
        return records, [f"{where}, is cut off and was skipped (its machine may have crashed)"]

"""Reading recordings: files of JSON lines, each line one step of one endpoint.

`load` takes a folder of such files (one per endpoint, see `actors.recording.tracing`) or one file.
A single file may hold several endpoints, as a saved trace does. In a file, the lines of one
endpoint are in that endpoint's own order; nothing else depends on the order in the file. A line is
an object with the fields of a step, or a row without their names (see `rows`).

A killed process leaves zero bytes after its last line (see `tracefile`), and that line may be
incomplete. Such a line is skipped, and a problem says so. Any other line that is no record is an
error that names the file and the line: a picture of half a story would be worse than none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..actors.recording.encoding import FORMAT
from ..actors.recording.steps import INPUTS
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import BY_NAME
from .fields import fields_of, implied
from .progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LARGEST = 1 << 63
"""No number in a line is as large, nor negative."""
OLDER = (1, 2, 3, 4, 5, 6)
"""Older formats that can be read, too. A line of format 1 (without loans), 2 (without aliases), 3
(without inputs), 4 (without rows), 5 (whose tables list the dead) or 6 (without pauses) means the
same in this one."""


class TraceError(Exception):
    """A trace cannot be read, or contradicts itself. The message says where."""


def _ids(fields: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """The names of those *fields*, names and types, that are an endpoint, an id, or ids."""
    ids = (WorkerId, RRefId, ForkId, CallId, tuple[RRefId, ...])
    return tuple(name for name, type_ in fields if type_ in ids)


@dataclass(frozen=True, slots=True)
class Carried:
    """A reference inside a message: its object, its fork, its owner, and the way of passing."""

    rref: str
    fork: str
    owner: str
    passing: str = "fork"
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
    """One step of the endpoint *at*; *fields* is the whole line."""

    at: str
    kind: str
    fields: dict[str, Any] = field(compare=False)

    def text(self, name: str) -> str:
        """A field that is a string; empty if there is none."""
        return str(self.fields.get(name, ""))

    @property
    def peer(self) -> str:
        """The other endpoint of a message."""
        return self.text("peer")

    @property
    def message(self) -> str:
        """The kind of message."""
        return self.text("message")

    @property
    def user(self) -> bool:
        """Whether the message carries user content."""
        return bool(self.fields.get("user"))

    @property
    def carries(self) -> tuple[Carried, ...]:
        """The references inside the message."""
        return tuple(map(_carried, self.fields.get("carries", ())))

    @property
    def moved(self) -> ResolvedAlias | None:
        """The object behind the alias that a `Canonical` or `Reply` is about."""
        moved = self.fields.get("moved")
        if moved is None:
            return None
        path = moved["path"]
        return ResolvedAlias(_carried(moved["fork"]), tuple(_words(path, len(path))))

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
            Reported(rref, fork, owner, bool(each["held"]), _pairs(each["borrowers"]))
            for each in self.fields.get("loans", ())
            for rref, fork, owner in (_words([each["rref"], each["fork"], each["owner"]], 3),)
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
            Removal(
                _words([each["rref"]], 1)[0],
                tuple(_words(each["forks"], len(each["forks"]))),
                _pairs(each.get("borrowers", ())),
            )
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


_MESSAGE = ("peer", "number", "message", "user")
_NEEDED = {
    "send": _MESSAGE,
    "receive": _MESSAGE,
    "known": ("rref", "fork", "holder"),
    "confirmed": ("rref",),
    "free": ("rref",),
    "lose": ("rref",),
    "run": ("peer",),
    "fail": ("call",),
    "died": ("peer",),
    "buried": ("peer",),
    "do": ("do",),
    **{f"do {name}": _ids(fields.items()) for name, fields in INPUTS.items()},
    **{
        name: _ids(
            (each.name, each.type)
            for each in msgspec.structs.fields(kind)
            if each.required and each.type is not CallId  # the picture does without it
        )
        for name, kind in BY_NAME.items()
    },
}
"""The fields that a line of each kind needs, and those that each input and message needs."""
_WORDS = (
    "alias asker at by call do fork holder kind label message notes owner peer relays rref run "
    "sharing start target title to what why"
)
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_WORDS.split(), (str,)),
    **dict.fromkeys(("format", "look", "nth", "number", "settled", "stamp"), (int,)),
    **dict.fromkeys(("carries", "chain", "forks", "grips", "loans", "path", "removed"), (list,)),
    "rrefs": (list,),
    "time": (int, float),
    "user": (bool,),
}
"""The types of fields. A field that is not needed may be null, too."""


def load(path: Path, progress: Progress = silent) -> Recording:
    """Read the folder or file *path*.

    Raises:
        TraceError: there is nothing there, or a line (not a torn last one) is no record.
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
    read = 0
    for name, content in contents:
        found, said = _lines(content, name, partial(_tell, progress, read, whole))
        read += content.count(b"\n")
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


def parse_all(line: str) -> list[Record]:
    """The step in a line, and for a row also the steps that always follow it. Raises as `parse`."""
    first = parse(line)
    if not line.startswith("["):
        return [first]
    return [first, *(Record(first.at, each["kind"], each) for each in implied(first.fields))]


def parse(line: str) -> Record:
    """The step in one line. Raises `ValueError` with the reason for a wrong line."""
    fields = _fields(line)
    kind = fields.get("kind")
    _check(fields, ["kind", "at"][: 1 if kind == "trace" else 2])
    _check(fields, _NEEDED.get(str(kind), ()))
    if fields.get("format", FORMAT) not in (FORMAT, *OLDER):
        raise ValueError(
            f"it has format {fields['format']}, but this farref reads formats up to {FORMAT}: "
            "a newer farref wrote it, and can show it"
        )
    record = Record(fields.get("at", ""), str(kind), fields)
    for what, (form, where) in _FORMS.items():
        if where.isdisjoint(fields):
            continue
        try:
            getattr(record, what)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise ValueError(f"its {form}") from None
    _check(fields, _NEEDED.get(f"do {record.text('do')}" if kind == "do" else record.message, ()))
    empty = (name for name, value in fields.items() if value is None and _TYPES.get(name) == (str,))
    _check(fields, (_TYPES.keys() & fields.keys()).difference(empty))
    return record


def _check(fields: dict[str, Any], names: Iterable[str]) -> None:
    """Raise `ValueError` unless *fields* has all *names*, each with its type."""
    for name in names:
        value = fields.get(name)
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "user"):
            raise ValueError(f"it has no valid {name!r}")
        if isinstance(value, int | float) and not 0 <= value < LARGEST:
            raise ValueError(f"its {name!r} is out of range")


def _fields(line: str) -> dict[str, Any]:
    try:
        if line.startswith("["):
            return fields_of(line)
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("it is neither a JSON object nor a row")  # noqa: TRY004 - of a line, not of a type
    return fields


_FORMS = {
    "carries": ("'carries' is no list of [rref, fork, owner, passing]", {"carries"}),
    "moved": ("'moved' does not say what an alias is", {"moved"}),
    "reports": ("'loans' is no list of reports", {"loans"}),
    "notices": ("'loans' is no list of [rref, fork]", {"loans"}),
    "removals": ("'forks' or 'removed' does not say what was removed", {"message"}),
}
"""The forms of fields, and the fields that have each form."""


def _carried(value: object) -> Carried:
    carried = Carried(*_words(value, 3, 4, 5, 6))
    if carried.passing not in ("fork", "loan", "back"):
        raise ValueError("passing must be fork, loan or back")
    return carried


def _words(value: object, *sizes: int) -> list[str]:
    """*value*, checked to be a list of strings with one of *sizes* as its length."""
    if not isinstance(value, list) or len(value) not in sizes:
        raise ValueError(f"{value!r} is no such list")
    if not all(isinstance(each, str) for each in value):
        raise ValueError(f"{value!r} is no list of strings")
    return value


def _pairs(pairs: Iterable[object]) -> tuple[tuple[str, str], ...]:
    return tuple((first, second) for first, second in (_words(pair, 2) for pair in pairs))


def _tell(progress: Progress, before: int, whole: int, done: int) -> None:
    progress(before + done, whole)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from error


def _lines(
    content: bytes, name: str, read: Callable[[int], None]
) -> tuple[list[Record], list[str]]:
    lines = content.rstrip(b"\0").split(b"\n")
    torn = lines.pop()  # empty, if the last line is whole
    if not torn and lines and b"\0" in lines[-1]:
        torn = lines.pop()  # its end was stored before the rest
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        read(number)
        if not line.strip():
            continue
        try:
            records += parse_all(line.decode())
        except UnicodeDecodeError as error:
            raise TraceError(f"{name} is no trace: line {number} is no text") from error
        except ValueError as error:
            raise TraceError(f"{name}, line {number}, is no step of a trace: {error}") from error
    if not torn:
        return records, []
    try:  # whole, but for its newline: a person's editor saved it so
        return [*records, *parse_all(torn.decode())], []
    except ValueError:
        where = f"{name}, line {len(lines) + 1}"
        return records, [f"{where}, is cut off and was skipped (its process was killed meanwhile)"]

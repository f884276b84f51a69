"""From merged records to a story: the rows to draw, and a summary.

A message that is received right after it was sent is one row, an `Arrow` from lane to lane. An
overtaken message is two rows: it *leaves* here and *arrives* below. The same letter marks both, and
the rows between them happened while it was on its way. A message that was never received, or whose
sending was not recorded, is one half with a letter of its own.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from string import ascii_lowercase

from ..plurals import counted, one
from ..printable import printable
from .choosing import EVERYTHING, Chosen, Only, about
from .facts import facts
from .kinds import LOOKS
from .labels import Labels
from .merge import merge
from .names import TraceNames, base
from .notes import Fact, Note, found, left_out
from .progress import Progress, silent
from .records import Record, Recording, TraceError
from .view import Change, Fork, Object, Stage, View

LOSSES = {
    "creator": ": nobody will make it",
    "owner": ": so is what it stands for",
    "cycle": ": it leads back to itself",
}
"""Why a value will never arrive."""


class ArrowPart(Enum):
    WHOLE = "whole"
    LEAVES = "leaves"
    ARRIVES = "arrives"


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message between two lanes, or one half of it."""

    sender: str
    receiver: str
    kind: str
    user: bool
    labels: tuple[str, ...]
    """Its texts, the longest first."""
    full: tuple[str, ...]
    """The same, and texts that name the owners of objects, too; the preferred ones first."""
    part: ArrowPart = ArrowPart.WHOLE
    tag: str = ""
    number: int = 0
    """The message's number, from its sender to its receiver."""
    search: tuple[str, int] | None = None
    """If it belongs to a search for rings: who searches, and which of its searches."""
    about: frozenset[str] = frozenset()
    """The references that it is about or carries."""
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        return self.sender, self.receiver


@dataclass(frozen=True, slots=True)
class Mark:
    at: str
    kind: str
    text: str
    about: frozenset[str] = frozenset()
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        return (self.at,)


Row = Arrow | Mark
Span = tuple[int, int]
"""The records of a row: from the first position, up to before the second."""


@dataclass(frozen=True, slots=True)
class Summary:
    user: Counter[str]
    control: Counter[str]
    objects: int
    freed: int
    left: tuple[str, ...]
    """Unfinished things, one line each; empty after a clean run."""
    noted: int = 0
    """How many steps of a published example were found."""
    missing: tuple[str, ...] = ()
    """The published steps that were not found."""
    left_out: tuple[str, ...] = ()
    """The published steps that farref does not take, and the reasons."""
    lost: tuple[str, ...] = ()
    """Things that ended with a dead endpoint: its objects, and messages to and from it."""
    went_on: bool = False
    """Whether the system went on after the recording. Then its steps do not tell what is left."""
    going_on: tuple[str, ...] = ()
    """In place of `left`, if it `went_on`: how much of what the steps are about was there."""


@dataclass(frozen=True, slots=True)
class Story:
    """A trace, ready to be drawn."""

    records: list[Record]
    lanes: tuple[str, ...]
    names: TraceNames
    rows: tuple[Row, ...]
    spans: tuple[Span, ...]
    objects: dict[str, Object]
    forks: dict[str, Fork]
    summary: Summary
    problems: tuple[str, ...] = ()
    title: str = ""
    notes: str = ""
    """The steps of a published example to look for; see `notes`."""


def tell(
    recording: Recording,
    title: str = "",
    notes: str = "",
    only: Only = EVERYTHING,
    progress: Progress = silent,
    *,
    fold: bool = False,
) -> Story:
    """Merge *recording*, tell the part of its story that *only* chooses, and find *notes* in it.

    With *fold*, all messages of one search for rings have one row, where the first of them is.

    Raises `TraceError` as `merge` does, and if *only* names something that is not in the trace.
    """
    records = merge(recording, progress)
    title, notes = title or recording.title, notes or recording.notes
    return _Teller(records, recording, title, notes, only, progress, fold).story()


@dataclass(slots=True)
class _Teller:
    records: list[Record]
    recording: Recording
    title: str
    notes: str
    only: Only
    progress: Progress
    fold: bool
    view: View = field(default_factory=View)
    names: TraceNames = field(init=False)
    labels: Labels = field(init=False)
    full: Labels = field(init=False)
    rows: list[Row] = field(default_factory=list)
    facts: list[list[Fact]] = field(default_factory=list)
    """The facts of each row."""
    starts: list[int] = field(default_factory=list)
    """The number of records before each row."""
    number: int = 0
    """The number of the record that is told now."""
    tags: dict[tuple[str, str, int], str] = field(
        default_factory=lambda: defaultdict(_letters().__next__)
    )
    left: set[str] = field(default_factory=set)
    said: dict[tuple[str, str, int], tuple[tuple[str, ...], tuple[str, ...]]] = field(
        default_factory=dict
    )
    """The labels of each message, and the full ones."""
    searches: Counter[str] = field(default_factory=Counter)
    """How many searches for rings each endpoint has begun."""

    def story(self) -> Story:
        ends = {r.at for r in self.records}
        ends |= {r.peer for r in self.records if r.kind in ("send", "receive")}
        self.names = TraceNames(ends)
        self.labels = Labels(self.names, self.view)
        self.full = Labels(self.names, self.view, owners=True)
        self.left = {r.at for r in self.records if r.kind == "leave"}
        skip = False
        for number, (record, after) in enumerate(
            itertools.zip_longest(self.records, self.records[1:])
        ):
            self.progress(number, len(self.records))
            self.number = number
            said = facts(record, self.names, self.view) if self.notes else ()
            says = [Fact(record.at, each) for each in said]
            changes = tuple(self.view.take(record))
            if "suspect_cycle" in (record.text("do"), record.text("by")):
                self.searches[record.at] += 1
            if skip:  # the second half of a message that has its row already
                skip = False
                self._add(changes, says)
                continue
            if record.kind not in ("send", "receive"):
                self._mark(record, changes, says)
                continue
            whole = (
                record.kind == "send"
                and after is not None
                and after.kind == "receive"
                and after.name == record.name
            )
            part = ArrowPart.WHOLE
            if not whole:
                part = ArrowPart.LEAVES if record.kind == "send" else ArrowPart.ARRIVES
            self._append(self._arrow(record, part, changes), says)
            skip = whole
        try:
            notes, missing = found(self.notes, self.facts)
            absent = left_out(self.notes)
        except ValueError as error:
            raise TraceError(f"its notes cannot be read: {error}") from None
        rows = (
            replace(row, notes=tuple(mine)) if mine else row
            for row, mine in zip(self.rows, notes, strict=True)
        )
        ends_at = [*self.starts, len(self.records)][1:]
        told = list(zip(rows, zip(self.starts, ends_at, strict=True), strict=True))
        chosen = Chosen(self.only, self.names, ends, self.view)
        told = [(row, span) for row, span in told if chosen.shows(row.about, row.ends)]
        lanes = {end for row, _ in told for end in row.ends} if chosen.some else ends
        summary = self._summary([row for row, _ in told], chosen)
        if self.fold:
            told = list(_folded(told))
        return Story(
            self.records,
            tuple(sorted(lanes, key=_lane_order)),
            self.names,
            tuple(row for row, _ in told),
            tuple(span for _, span in told),
            chosen.objects(),
            chosen.forks(),
            replace(summary, noted=sum(map(len, notes)), missing=missing, left_out=absent),
            self.recording.problems,
            printable(" ".join(filter(None, (self.title, str(chosen))))),
            self.notes,
        )

    def _append(self, row: Row, says: list[Fact]) -> None:
        self.rows.append(row)
        self.starts.append(self.number)
        self.facts.append(says)

    def _add(self, changes: tuple[Change, ...], says: list[Fact]) -> None:
        if not self.rows:
            return
        self.facts[-1] += says
        if changes:
            row = self.rows[-1]
            said = {change.fork.id: change for change in (*row.changes, *changes)}
            self.rows[-1] = replace(row, changes=tuple(said.values()))

    def _arrow(self, record: Record, part: ArrowPart, changes: tuple[Change, ...]) -> Arrow:
        sender, receiver, _ = record.name
        labels = self.said.get(record.name)
        if labels is None:  # the sender knows more about it than the receiver
            short, full = _shown(self.labels.of(record)), _shown(self.full.of(record))
            labels = self.said[record.name] = short, _preferred(full, short)
        return Arrow(
            sender,
            receiver,
            record.message,
            record.user,
            *labels,
            part,
            "" if part is ArrowPart.WHOLE else self.tags[record.name],
            record.name[2],
            self._search(record),
            about(record, self.view),
            changes,
        )

    def _search(self, record: Record) -> tuple[str, int] | None:
        sender, receiver, _ = record.name
        match record.message:
            case "WhoHolds" | "Cut":
                return sender, self.searches[sender]
            case "Holders":
                return receiver, self.searches[receiver]
            case _:
                return None

    def _mark(self, record: Record, changes: tuple[Change, ...], says: list[Fact]) -> None:
        rref = self.names.id(record.text("rref"))
        peer = self.names.of(record.peer)
        match record.kind:
            case "free":
                text = f"frees {rref}"
            case "run":
                text = f"{record.text('label') or 'user code'}() starts"
            case "lose":
                text = f"{rref} is lost{LOSSES.get(record.text('why'), '')}"
            case "fail":
                text = f"call {self.names.id(record.text('call'))} fails"
            case "died" if record.peer not in self.left:
                text = f"{peer} is dead"
            case "buried" if record.peer not in self.left:
                text = f"buries {peer}"
            case _:  # an endpoint ended in order, or the row above tells it
                self._add(changes, says)
                return
        mark = Mark(record.at, record.kind, printable(text), about(record, self.view), changes)
        self._append(mark, says)

    def _summary(self, rows: list[Row], chosen: Chosen) -> Summary:
        sent = [row for row in rows if isinstance(row, Arrow) and row.part is not ArrowPart.ARRIVES]
        received = {record.name for record in self.records if record.kind == "receive"}
        objects = list(chosen.objects().values())
        dead = {record.peer for record in self.records if record.kind == "died"}

        def owned(each: Object) -> str:
            return f"{self.names.id(each.id)}, owned by {self.names.of(each.owner)}"

        lost = [owned(each) for each in objects if each.lost]
        alive = [
            f"{owned(each)}, is not freed" for each in objects if not (each.freed or each.lost)
        ]
        held = [
            self._unended(fork)
            for fork in chosen.forks().values()
            if not fork.stage.over and not self.view.objects[fork.rref].lost
        ]
        under_way = [
            f"{self.names.of(asker)} has not been told what {self.names.id(about)} stands for"
            for asker, about in self.view.asking.values()
            if about in chosen.objects()
        ]
        for row in sent:
            if (row.sender, row.receiver, row.number) not in received:
                at, peer = self.names.of(row.sender), self.names.of(row.receiver)
                ended = lost if {row.sender, row.receiver} & dead else under_way
                ended.append(f"{one(LOOKS[row.kind].word)} from {at} to {peer} did not arrive")
        left = (*alive, *held, *under_way)
        there = tuple(
            counted(len(each), what)
            for each, what in ((alive, "object"), (held, "reference"), (under_way, "message"))
            if each
        )
        watched = {
            each.at for each in self.records if each.kind == "join" and "tables" in each.fields
        }
        went_on = bool(watched - self.left - dead)
        return Summary(
            Counter(row.kind for row in sent if row.user),
            Counter(row.kind for row in sent if not row.user),
            len(objects),
            sum(each.freed for each in objects),
            () if went_on else left,
            lost=tuple(lost),
            went_on=went_on,
            going_on=there if went_on else (),
        )

    def _unended(self, fork: Fork) -> str:
        rref, holder = self.names.id(fork.rref), self.names.of(fork.holder)
        match fork.stage:
            case Stage.LENT:
                parent = self.names.of(fork.parent)
                how = f"lent by {parent} to {holder}, is not returned"
            case Stage.HELD:
                how = f"held by {holder}, has not been told to the owner"
            case stage:
                how = f"held by {holder}, is {stage.value} to the owner still"
        return f"{'loan' if fork.loan else 'fork'} {self.names.id(fork.id)} of {rref}, {how}"


def _folded(told: list[tuple[Row, Span]]) -> Iterator[tuple[Row, Span]]:
    """*told*, with one row in place of the messages of each search for rings."""
    searches: dict[tuple[str, int], list[Arrow]] = {}
    for row, _ in told:
        if isinstance(row, Arrow) and row.search:
            searches.setdefault(row.search, []).append(row)
    for row, span in told:
        if not isinstance(row, Arrow) or not row.search:
            yield row, span
            continue
        mine = searches[row.search]
        if row is mine[0]:
            messages = {(*each.ends, each.number) for each in mine}
            refs = frozenset().union(*(each.about for each in mine))
            text = f"ring search: {counted(len(messages), 'message')}"
            yield Mark(row.search[0], "search", text, refs), span


def _preferred(full: tuple[str, ...], short: tuple[str, ...]) -> tuple[str, ...]:
    """The texts of both: each of *short* after those of *full* that have as many ids."""
    if full == short:
        return short
    texts: list[str] = []
    for each in short:
        texts += (other for other in full if other.count("/") >= each.count("/"))
        texts.append(each)
    return tuple(dict.fromkeys(texts))


def _shown(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(printable, labels))


def _lane_order(endpoint: str) -> tuple[bool, str]:
    """Sort the program first: most stories begin with it."""
    return not base(endpoint).startswith("program"), endpoint


def _letters() -> Iterator[str]:
    for size in itertools.count(1):
        for letters in itertools.product(ascii_lowercase, repeat=size):
            yield "".join(letters)

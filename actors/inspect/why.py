"""Why an object is alive: the paths from its owner, by the endpoints it counts, to the holders.

Every endpoint is asked for its row and its `Holding`s of this one object, then of each object in
whose value it is, and so on: not for all references. The answers are joined along
the protocol's tables. The owner counts forks. An endpoint that has a fork holds it by variables or
by values of objects (which are explained in turn), or has passed it on. If an endpoint lacks a
reference that its parent has sent it, a message is on its way, or stuck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ...plurals import counted, one
from ...printable import printable
from ...protocol.ids import RRefId, WorkerId
from ..handles.rref import RRef
from ..recording.tracing import spell, worker_of
from ..wire.messages import Inspected
from .holdings import Holding
from .inspection import ReferenceInfo
from .inspector import Inspector
from .snapshot import OWNER_FIRST, ShortNames, check_leak_age, matching, wrong

MOST = 40
"""The most objects explained in one answer: objects may contain each other."""
_ROOTS = {
    "global": "global",
    "attribute": "attribute",
    "local": "variable",
    "task": "variable",
    "internal": "in a library:",
}
_OWNERS = ("owner", "alias")
_REACH = {*_ROOTS, "garbage", "unfound", "message", "serving", "pending", "request"}
"""The holdings that show, or may hide, that a program reaches the object; see `snapshot`."""


class Reason(msgspec.Struct, frozen=True):
    """One step of the explanation, and the steps behind it."""

    kind: str
    """``reference``, ``endpoint``, ``note``, ``cycle``, or a `Holding.kind`."""
    text: str
    where: str = ""
    """``file:line in function``, for variables."""
    worker: str = ""
    """The endpoint that this is about."""
    rref: str = ""
    """The reference that this explains."""
    children: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        yield printable(f"{indent}{self.text}{f'  ({self.where})' if self.where else ''}")
        for child in self.children:
            yield from child._lines(indent + "  ")

    def walk(self) -> Iterator[Reason]:
        """This step, and all steps behind it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def as_dict(self) -> dict[str, Any]:
        """The same as a dictionary, for JSON."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def why(inspector: Inspector, rref: RRef[Any] | str, seconds: float, leak_age: float) -> Reason:
    """The tree of reasons why the object of *rref* is still there."""
    check_leak_age(leak_age)
    return _Explanation(inspector, seconds, leak_age).whole(rref)


def seconds_text(seconds: float) -> str:
    """A length of time as a short text."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def size_text(size: int) -> str:
    """A number of bytes as a short text."""
    amount, units = float(size), ["TB", "GB", "MB", "kB", "B"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop()
    unit = units[-1]
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


class _Object(msgspec.Struct):
    rref: str
    rows: dict[str, ReferenceInfo]
    held: dict[str, list[Holding]]
    """By endpoint, for those that answered."""
    shown: set[str] = msgspec.field(default_factory=set)
    """Endpoints that the explanation contains already."""

    def age_of(self, fork: str) -> float | None:
        """The age of a fork, from the endpoint that made it."""
        ages = (h.age for each in self.held.values() for h in each if h.fork == fork)
        return next((age for age in ages if age is not None), None)


class _Explanation:
    def __init__(self, inspector: Inspector, seconds: float, leak_age: float) -> None:
        self._inspector = inspector
        self._seconds = seconds
        self._leak_age = leak_age
        self._names = ShortNames()
        self._mute: dict[WorkerId, str] = {}
        """Endpoints that gave no answer, each with the reason."""
        self._found: dict[str, _Object] = {}
        """The objects that the endpoints have been asked about."""
        self._leaks: set[str] = set()
        self._explained: set[str] = set()
        self._path: list[str] = []

    def whole(self, asked: RRef[Any] | str) -> Reason:
        """The explanation of *asked*, a reference or the beginning of an id."""
        full = None if isinstance(asked, str) else spell(asked.canonical() or asked.id)
        matches = [each.matches for _, each in self._answers(full or str(asked))]
        for worker in {life for each in matches for life in each.lives}:
            self._names.meet(worker)
        ids = {self._names.short(rref) for each in matches for rref in each.ids}
        prefix = self._names.short(full) if full is not None else str(asked)
        rref = matching(self._inspector.core.settings.system, prefix, ids)
        reason = self._of(rref)
        self._leaks = self._suspected()
        if self._leaks:  # they are known by all answers only
            self._explained.clear()
            reason = self._of(rref)
        return reason

    def _suspected(self) -> set[str]:
        """The objects that are old, and that no program reaches, as far as the answers tell."""
        silent = set(self._silent)
        holders: dict[str, set[str]] = {}
        reached: set[str] = set()
        for rref, found in self._found.items():
            held = [each for at in found.held.values() for each in at]
            holders[rref] = {each.rref for each in held if each.kind in ("object", "alias")}
            if (
                any(each.kind in _REACH for each in held)
                or not holders[rref] <= self._found.keys()
                or any(not silent.isdisjoint(row.forks.values()) for row in found.rows.values())
                or not all(row.complete for row in found.rows.values())
            ):
                reached.add(rref)
        while more := {rref for rref, by in holders.items() if by & reached} - reached:
            reached |= more
        return {
            rref
            for rref, found in self._found.items()
            if rref not in reached
            and any(row.age >= self._leak_age for row in found.rows.values() if row.role in _OWNERS)
        }

    def _of(self, rref: str) -> Reason:
        if rref not in self._found and len(self._found) >= MOST:
            return Reason("note", f"{rref}: not explained, as {MOST} objects are", rref=rref)
        if rref not in self._found:
            self._found[rref] = self._ask(rref)
        found = self._found[rref]
        rows, title = found.rows, self._title(rref, found.rows)
        if rref in self._path:
            way = self._path[self._path.index(rref) :]
            ring = " -> ".join((rref, *way[:0:-1], rref))  # each object holds the next one
            text = f"{title}: the cycle {ring}, explained above at {rref}"
            return Reason("cycle", text, rref=rref)
        if rref in self._explained:
            return Reason("note", f"{title}: explained above", rref=rref)
        self._explained.add(rref)
        self._path.append(rref)
        found.shown.clear()
        reasons: list[Reason] = []
        owner = _owner_of(rows.values())
        if owner is not None:
            found.shown.add(owner.worker)
            reasons += self._at(owner.worker, found)
            if owner.worker in self._silent:
                told = f"its owner {owner.worker} cannot tell: {self._silent[owner.worker]}"
                reasons.append(Reason("note", told))
        else:
            reasons.append(self._no_owner(rows))
        for worker, row in rows.items():  # endpoints unknown to the owner and to all parents
            if worker not in found.shown:
                how = "has it, unknown to its owner"
                if owner is None and row.owner in self._silent:
                    how = f"has it, {'not ' * (row.state != 'confirmed')}confirmed by its owner"
                reasons.append(self._endpoint(worker, found, how))
        if not reasons:
            reasons.append(Reason("note", "nothing: it is about to be freed"))
        self._path.pop()
        reason = Reason("reference", title, rref=rref, children=tuple(reasons))
        ends = [each for each in reason.walk() if not each.children]
        if self._path or any(each.kind != "cycle" for each in ends):
            return reason
        only = "only the cycle keeps it: `farref gc` frees it"
        return msgspec.structs.replace(reason, children=(Reason("note", only), *reasons))

    def _title(self, rref: str, rows: dict[str, ReferenceInfo]) -> str:
        row = _owner_of(rows.values())
        if row is None:
            any_row = next(iter(rows.values()), None)
            return f"{rref}, owned by {any_row.owner}" if any_row else f"{rref} (gone)"
        parts = [rref]
        if row.role == "alias":
            parts.append(f"alias of {row.canonical or row.target}")
        elif row.type is not None:
            size = f" of {size_text(row.size)}" if row.size is not None else ""
            parts.append(f"{row.type}{size}")
        else:
            parts.append(row.state)
        parts.append(f"owned by {row.owner}")
        parts.append(seconds_text(row.age))
        if row.site:
            parts.append(f"created at {row.site}")
        if rref in self._leaks:
            parts.append("suspected leak: no variable, message or call leads to it")
        return ", ".join(parts)

    def _no_owner(self, rows: dict[str, ReferenceInfo]) -> Reason:
        row = next(iter(rows.values()), None)
        if row is None:
            return Reason("note", "no endpoint has it any more")
        why = self._silent.get(row.owner)
        if row.state == "lost":
            return Reason("note", f"its owner {row.owner} died, and the value with it")
        if why:
            return Reason("note", f"its owner {row.owner} cannot tell: {why}")
        return Reason("note", f"its owner {row.owner} has not heard of it (any more)")

    # ---- asking

    def _answers(
        self, about: RRefId | str, *, rows: bool = True
    ) -> Iterator[tuple[str, Inspected]]:
        """The answers of all endpoints: messages on their way may be anywhere.

        Those that have been silent are not asked again: each question would be another wait.
        """
        inspector = self._inspector
        infos = [i for i in inspector.registrar_client.workers() if i.id not in self._mute]
        answers = inspector.inspect(infos, self._seconds, about=about, rows=rows)
        for worker, answer in answers.items():
            self._names.meet(spell(worker))
            why = wrong(answer, self._seconds, about=True)
            if not why and answer is not None:
                yield spell(worker), answer
            elif worker not in inspector.core.context.dead:
                self._mute[worker] = why

    @property
    def _silent(self) -> dict[str, str]:
        return {self._names.short(spell(worker)): why for worker, why in self._mute.items()}

    def _ask(self, rref: str) -> _Object:
        full = _parsed(self._names.in_full[rref])
        rows = [row for _, answer in self._answers(full) for row in answer.rows]
        # These take longer, as a heap is searched: who is too slow has at least told its row.
        answers = dict(self._answers(full, rows=False))
        for row in rows:
            self._names.meet_row(row)
        home = _owner_of(rows)
        site = next((row.site for row in rows if row.site is not None), None)
        rows.sort(key=lambda row: (OWNER_FIRST[row.role], row.worker))
        shown = (self._names.short_row(row, home, site=site) for row in rows)
        return _Object(
            rref,
            {row.worker: row for row in shown},
            {
                self._names.short(worker): [self._shortened(each) for each in answer.holdings]
                for worker, answer in answers.items()
            },
        )

    def _shortened(self, holding: Holding) -> Holding:
        short = self._names.short
        text = short(holding.text) if holding.kind == "serving" else holding.text
        named = {name: short(getattr(holding, name)) for name in ("worker", "rref", "fork")}
        return msgspec.structs.replace(holding, text=text, **named)

    # ---- explaining

    def _endpoint(self, worker: str, found: _Object, how: str) -> Reason:
        if worker in found.shown:
            return Reason("endpoint", f"{worker} {how}: explained above", worker=worker)
        found.shown.add(worker)
        row = found.rows.get(worker)
        children = list(self._at(worker, found))
        if worker in self._silent:
            children.append(Reason("note", f"cannot tell: {self._silent[worker]}"))
        elif row is None:  # messages to or from it are on their way
            flights = [*self._flights(found, to=worker), *self._flights(found, by=worker)]
            missing = "it does not have it yet, or not any more; look again"
            children += flights or [Reason("note", missing)]
        return Reason("endpoint", f"{worker} {how}", worker=worker, children=tuple(children))

    def _at(self, worker: str, found: _Object) -> Iterator[Reason]:
        for holding in found.held.get(worker, ()):
            if holding.kind != "flight":
                yield self._reason(worker, holding, found)

    def _flights(self, found: _Object, to: str = "", by: str = "") -> Iterator[Reason]:
        for sender, held in found.held.items():
            for each in held:
                if each.kind == "flight" and (each.worker == to or sender == by):
                    age = found.age_of(each.fork) if each.fork else None
                    since = f" for {seconds_text(age)}" if age is not None else ""
                    fork = f" with fork {each.fork}" if each.fork else ""
                    message = f"{one(each.text)}{fork}"
                    text = f"{sender} sent {each.worker} {message}, not acknowledged{since}"
                    yield Reason("flight", text, worker=sender)

    def _reason(self, worker: str, holding: Holding, found: _Object) -> Reason:
        kind, other = holding.kind, holding.worker
        age = holding.age if holding.age is not None else found.age_of(holding.fork)
        since = f" {seconds_text(age)} ago" if age is not None else ""
        children: tuple[Reason, ...] = ()
        match kind:
            case "global" | "attribute" | "local" | "task" | "internal":
                text = f"{_ROOTS[kind]} {holding.text}"
            case "object":
                at = f", at {holding.text}" if holding.text else ""
                text = f"in the value of {holding.rref}{at}"
                children = (self._of(holding.rref),)
            case "alias":
                text = f"{holding.rref} is an alias of it"
                children = (self._of(holding.rref),)
            case "garbage":
                what = holding.text or "in an unknown place"
                text = (
                    f"a handle {what} to which no variable leads: garbage that the collector has "
                    "not taken yet (gc.collect() does), or held by C code"
                )
            case "unfound":
                more = f": {holding.text}" if holding.text else ""
                text = f"{counted(holding.count, 'handle')} in places that were not found{more}"
            case "message":
                text = f"{counted(holding.count, 'message')} that {worker} has not handled"
            case "serving":
                text = f"call {holding.text} of {other}, which waits or runs at {worker}"
            case "pending":
                requests = counted(holding.count, "request")
                text = f"{requests} of {worker} that {other} has not answered"
                text += f", the oldest from{since}" if since else ""
            case "request":
                text = f"a request of {other}: {holding.text}" if other else "a request runs on it"
            case "stream":
                text = f"an iterator: {counted(holding.count, 'item')} so far; it {holding.text}"
            case "placeholder":
                text = f"its creation by {other} has not arrived"
            case "fork":
                return self._endpoint(other, found, f"has fork {holding.fork}")
            case "lent" | "loan":
                return self._endpoint(other, found, f"was lent it as {holding.fork}{since}")
            case "table":
                return self._endpoint(other, found, f"borrowed it as {holding.fork}")
            case "pin":
                how = f"got it as fork {holding.fork}{since}, and {worker} waits for its ACK"
                return self._endpoint(other, found, how)
            case _:  # "asked"
                lasts = f" since {seconds_text(age)}" if age is not None else ""
                text = (
                    f"{worker} holds fork {holding.fork}, not confirmed{lasts}: waiting for the "
                    f"ACK of the owner, {other}"
                )
                children = (*self._flights(found, to=other), *self._flights(found, by=other))
        return Reason(kind, text, holding.where, worker, children=children)


def _owner_of(rows: Iterable[ReferenceInfo]) -> ReferenceInfo | None:
    return next((row for row in rows if row.role in _OWNERS), None)


def _parsed(full: str) -> RRefId:
    creator, _, number = full.rpartition("/")
    return RRefId(worker_of(creator), int(number))

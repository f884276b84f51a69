"""The references of a whole system at one time: the answers of its endpoints, put together.

Every endpoint is asked at the same moment and answers for itself. Nothing is stopped for that.
Anything in flight may appear twice or not at all; lasting state is exact. docs/inspect.md
("Suspects") explains the marks: an old object that no variable, message or call leads to is a
suspected leak, and values that lead back to themselves make a cycle.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ...protocol.errors import ProtocolError
from ...protocol.wellformed import check
from ..core.counters import Counters
from ..recording.tracing import spell
from ..wire.messages import Inspected
from .holdings import Holding
from .inspection import Matches, ReferenceInfo
from .inspector import LEAK_AGE, Inspector
from .overview import EndpointOverview, Overview

OWNER_FIRST = {"owner": 0, "alias": 0, "user": 1, "borrower": 2}
"""The order of the rows of one reference, by their roles."""
Key = tuple[str, str]
"""An endpoint and a reference: one row."""
V = TypeVar("V")


class Snapshot(msgspec.Struct, frozen=True):
    """All rows. The rows of one reference are together, its owner's first. Iterates over them.

    An endpoint is called by its name alone, unless several endpoints had that name: then by
    ``name@incarnation``, also in ids.
    """

    system: str
    rows: tuple[ReferenceInfo, ...] = ()
    silent: dict[str, str] = msgspec.field(default_factory=dict)
    """Endpoints whose rows are missing, and the reason for each."""
    counters: dict[str, Counters] = msgspec.field(default_factory=dict)
    """The counters of each endpoint that answered."""
    cycles: tuple[tuple[str, ...], ...] = ()
    """The objects of each cycle: their values lead back to themselves."""
    in_full: dict[str, str] = msgspec.field(default_factory=dict)
    """The full form of each name and id: ``name@incarnation``, ``name@incarnation/number``."""

    def __iter__(self) -> Iterator[ReferenceInfo]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        """How many of each: the rows themselves would fill screens."""
        counts = {
            "references": len({row.rref for row in self.rows}),
            "rows": len(self.rows),
            "endpoints": len(self.counters),
            "silent": len(self.silent),
            "cycles": len(self.cycles),
            "leaks": len({row.rref for row in self.rows if "leak" in row.marks}),
        }
        said = "".join(f", {name}={number}" for name, number in counts.items())
        return f"Snapshot(system={self.system!r}{said})"

    def of(self, rref: str) -> list[ReferenceInfo]:
        """The rows of the reference *rref*; its owner's row first, if there is one."""
        return [row for row in self.rows if row.rref == rref]

    def match(self, prefix: str) -> str:
        """The only id that begins with *prefix*, or *prefix* itself if it is an id.

        Raises:
            LookupError: no id begins with it, or several do; the text names them.
        """
        return matching(self.system, prefix, {row.rref for row in self.rows})


def matching(system: str, prefix: str, ids: Iterable[str]) -> str:
    """The only one of *ids* that begins with *prefix*, or *prefix* itself; see `Snapshot.match`."""
    ids = sorted(ids, key=_order)
    if prefix in ids:
        return prefix
    found = [each for each in ids if each.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")
        raise LookupError(f"several references begin with {prefix!r}: {some}")
    raise LookupError(f"system {system!r} has no reference {prefix!r}")


def check_leak_age(seconds: float) -> None:
    """Raise `ValueError` for an age below 0."""
    if not seconds >= 0:
        raise ValueError(f"leak_age must be 0 seconds or more, not {seconds}")


def take_snapshot(
    inspector: Inspector, seconds: float, leak_age: float = LEAK_AGE, *, attached: bool
) -> Snapshot:
    """Ask every endpoint of the system of *inspector*, and put their rows together.

    An *attached* program may only be there to inspect the system.
    """
    check_leak_age(leak_age)
    answers, silent = _ask(inspector, seconds, attached=attached)
    rows = [row for answer in answers.values() for row in answer.rows]
    names = ShortNames(*silent, *answers)
    for row in rows:
        names.meet_row(row)
    marks, cycles = marks_of(rows, set(silent), leak_age)
    homes = {row.rref: row for row in rows if row.role in ("owner", "alias")}
    sites = {row.rref: row.site for row in rows if row.site is not None}
    rows.sort(key=lambda row: (_order(row.rref), OWNER_FIRST[row.role], row.worker))
    return Snapshot(
        system=inspector.core.settings.system,
        rows=tuple(
            names.short_row(
                row, homes.get(row.rref), site=sites.get(row.rref), marks=marks.get(row.rref, ())
            )
            for row in rows
        ),
        silent=names.keys(silent),
        counters=names.keys({worker: each.counters for worker, each in answers.items()}),
        cycles=tuple(tuple(map(names.short, cycle)) for cycle in cycles),
        in_full=names.in_full,
    )


def count(
    inspector: Inspector, seconds: float, *, attached: bool
) -> tuple[dict[str, Counters], dict[str, str]]:
    """The counters of each endpoint, by its name, and the reasons of those without an answer."""
    answers, silent = _ask(inspector, seconds, attached=attached, rows=False)
    names = ShortNames(*silent, *answers)
    counters = {worker: each.counters for worker, each in answers.items()}
    return names.keys(counters), names.keys(silent)


def take_overview(
    inspector: Inspector, timeout: float, seconds: float, *, attached: bool
) -> Overview:
    """Ask every endpoint of the system of *inspector*; see `System.overview`.

    An *attached* program may only be there to look.
    """
    answers, silent = _ask(inspector, timeout, attached=attached, overview=seconds)
    found: dict[str, EndpointOverview] = {}
    for worker, answer in answers.items():
        try:
            check(answer.overview, (EndpointOverview,), "answer")
            found[worker] = answer.overview
        except ProtocolError as error:
            silent[worker] = str(error)
    with inspector.core.lock:
        causes = inspector.core.context.state.causes
        gone = {spell(worker): cause for worker, cause in causes.items()}
    names = ShortNames(*silent, *found, *gone)

    def short(each: EndpointOverview) -> EndpointOverview:
        newest, streams = (
            tuple(msgspec.structs.replace(row, rref=names.short(row.rref)) for row in rows)
            for rows in (each.newest, each.streams)
        )
        latencies, holds = names.keys(each.latencies), names.keys(each.holds)
        return msgspec.structs.replace(
            each, latencies=latencies, holds=holds, newest=newest, streams=streams
        )

    return Overview(
        system=inspector.core.settings.system,
        time=time.time(),
        endpoints=names.keys({worker: short(each) for worker, each in found.items()}),
        silent=names.keys(silent),
        gone=names.keys(gone),
        in_full=names.in_full,
    )


def _ask(
    inspector: Inspector, seconds: float, *, attached: bool, **what: Any
) -> tuple[dict[str, Inspected], dict[str, str]]:
    """The answer of each endpoint of the system, and the reasons of those without one.

    *what* it is to answer: see `Inspect`.
    """
    core, infos = inspector.core, inspector.registrar_client.workers()
    found = inspector.inspect(infos, seconds, **what)
    answers: dict[str, Inspected] = {}
    silent: dict[str, str] = {}
    for info in infos:
        answer, worker = found[info.id], spell(info.id)
        why = wrong(answer, seconds)
        if why or answer is None:
            if info.id not in core.context.dead:  # else it died meanwhile
                silent[worker] = why
        elif info.id != core.me or not attached or answer.counters.references:
            answers[worker] = answer  # else this program only inspects
    return answers, silent


def wrong(answer: Inspected | None, seconds: float, *, about: bool = False) -> str:
    """The reason why *answer* cannot be used; empty if it can.

    *about*: the question was about one reference, or the beginning of an id.
    """
    if answer is None:
        return f"no answer in {seconds:g} s"
    if answer.error:
        return answer.error
    try:
        if not about:
            check(answer.counters, (Counters,), "answer")
        elif answer.matches is not None:
            check(answer.matches, (Matches,), "answer")
        for row in answer.rows:
            check(row, (ReferenceInfo,), "answer")
        for holding in answer.holdings:
            check(holding, (Holding,), "answer")
    except ProtocolError as error:
        return str(error)
    return ""


def _order(rref: str) -> tuple[str, int]:
    creator, _, number = rref.rpartition("/")
    return creator, int(number)


# ---- names


class ShortNames:
    def __init__(self, *workers: str) -> None:
        self._lives: dict[str, set[str]] = defaultdict(set)
        self._short: dict[str, str] = {}
        for worker in workers:
            self.meet(worker)

    def meet(self, worker: str) -> None:
        """Add *worker* to the names that must differ."""
        self._lives[worker.rpartition("@")[0]].add(worker)

    def meet_row(self, row: ReferenceInfo) -> None:
        texts: list[object] = [getattr(row, name) for name in _IDS]
        for name in (*_SEVERAL, *_HELD):
            texts += getattr(row, name)
        for name in _HELD:
            texts += getattr(row, name).values()
        for text in texts:
            if isinstance(text, str):
                self.meet(_worker_of(text))

    @property
    def in_full(self) -> dict[str, str]:
        """The full form of each short name and id."""
        return {short: full for full, short in self._short.items()}

    def short(self, text: str) -> str:
        """The shortest unambiguous form of an endpoint's name, or of an id."""
        if text not in self._short:
            worker = _worker_of(text)
            name = worker.rpartition("@")[0]
            number = text[len(worker) :]
            alone = len(self._lives[name]) < 2
            self._short[text] = (name if alone else worker) + number
        return self._short[text]

    def keys(self, table: Mapping[str, V]) -> dict[str, V]:
        """*table* with short names for keys."""
        return {self.short(name): value for name, value in table.items()}

    def short_row(
        self, row: ReferenceInfo, home: ReferenceInfo | None, **more: Any
    ) -> ReferenceInfo:
        """*row* with short names and ids, and the fields that only the owner's row, *home*, has."""
        for name in _HELD:
            if held := getattr(row, name):
                more[name] = {
                    self.short(rref): self.short(other) if isinstance(other, str) else other
                    for rref, other in held.items()
                }
        for name in _SEVERAL:
            if ids := getattr(row, name):
                more[name] = tuple(map(self.short, ids))
        for name in _IDS:
            value = getattr(row, name)
            if value is not None:
                more[name] = self.short(value)
        if home is not None:
            more |= {"owner_state": home.state, "type": home.type, "size": home.size}
        return msgspec.structs.replace(row, **more)


_HELD = ("forks", "loans", "pins", "borrowers", "aliases", "names")
_SEVERAL = ("contains", "contained_in")
_IDS = ("worker", "rref", "owner", "target", "canonical", "requested")


def _worker_of(text: str) -> str:
    """``name@incarnation`` of an endpoint, or of an id in full."""
    head, slash, number = text.rpartition("/")
    return head if slash and number.isdigit() and "@" in head else text


# ---- conclusions from all rows


def marks_of(
    rows: list[ReferenceInfo], silent: set[str], leak_age: float
) -> tuple[dict[str, tuple[str, ...]], list[list[str]]]:
    """The marks of the references that have some, and the cycles."""
    called = {(row.worker, name): row.rref for row in rows for name in row.names}

    def object_of(row: ReferenceInfo, name: str) -> str:
        return called.get((row.worker, name), name)

    edges: dict[str, set[str]] = {row.rref: set() for row in rows}
    aliases = Counter[Key]()  # at each endpoint, those that stand for each object
    for row in rows:
        edges[row.rref].update(object_of(row, name) for name in row.contains)
        if row.target:
            target = object_of(row, row.target)
            edges[row.rref].add(target)
            aliases[row.worker, target] += 1
    ahead = [
        row.rref
        for row in rows
        if row.handles - row.in_values - aliases[row.worker, row.rref] > 0  # in variables
        or row.messages
        or row.tasks > len(row.pins)
        or not silent.isdisjoint(row.forks.values())
        or not row.complete  # what was not searched may hold any of them
    ]
    cycles = [part for part in _strong(edges) if len(part) > 1 or part[0] in edges[part[0]]]
    in_cycle = {rref for cycle in cycles for rref in cycle}
    reached = set[str]()
    while ahead:
        rref = ahead.pop()
        if rref not in reached:
            reached.add(rref)
            ahead += edges.get(rref, ())
    old = {row.rref for row in rows if row.role in ("owner", "alias") and row.age >= leak_age}
    marks: dict[str, tuple[str, ...]] = dict.fromkeys(in_cycle, ("cycle",))
    for rref in old - reached:
        marks[rref] = (*marks.get(rref, ()), "leak")
    return marks, cycles


def _strong(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components (Kosaraju's algorithm, without recursion)."""
    ended: dict[str, None] = {}
    seen: set[str] = set()
    back: dict[str, set[str]] = defaultdict(set)
    for start, after in edges.items():
        for each in after:
            back[each].add(start)
        ahead = [(start, False)]
        while ahead:
            one, done = ahead.pop()
            if done:
                ended[one] = None
            elif one not in seen:
                seen.add(one)
                ahead += [(one, True), *((each, False) for each in edges[one] if each in edges)]
    found: list[list[str]] = []
    while ended:
        part, behind = [], [ended.popitem()[0]]
        while behind:
            one = behind.pop()
            part.append(one)
            for each in back[one] & ended.keys():
                del ended[each]
                behind.append(each)
        found.append(sorted(part))
    return found[::-1]

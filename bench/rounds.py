"""Rounds: every peer does the same work in turn; medians and ratios of their figures.

Before the first round each peer does the work until its share of time is over. This warms it up and
shows how many repetitions fit into a round. Each round begins with another peer. A figure is the
median over the rounds, its spread the quartiles; a ratio is the median of the ratios within rounds.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .catalogue import BY_NAME, Benchmark, typed
from .peers import OURS, PEERS, RAW, NotOffered, PeerFailed, Spec
from .session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


LEAST, LEAST_OF_BRIEF = 0.6, 4.0
"""The least seconds that a peer gets in a row, however late the run is. Brief work gets more: a
round begins with cold caches, and a few calls would measure little else."""


SLOW = 3.0
"""A first repetition of so many seconds did not only import modules: a round has no second one."""
FEW = 3
LONG = 10.0
"""A round of this many seconds is long."""


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int = 7
    seconds: float = 0.3
    """Approximate seconds of one peer's work in a round."""
    warm: float = 1.0
    """Approximate seconds of warming up, unless one round is over before."""
    patience: float = 90.0
    """After these seconds a row has no further round, if it has `FEW`, or they are `LONG`."""
    quick: bool = False
    """Few repetitions of everything, at the points of a quick run."""
    named: tuple[str, ...] = ()
    """Names of points, as `catalogue.typed` has them. They narrow the benchmarks that have one."""

    def points(self, benchmark: Benchmark) -> tuple[int, ...]:
        all_of = self.offered(benchmark)
        return tuple(p for p, name in all_of.items() if name in self.named) or tuple(all_of)

    def offered(self, benchmark: Benchmark) -> dict[int, str]:
        """The points of *benchmark* in such a run, with their typed names; some have none."""
        points = benchmark.quick if self.quick else benchmark.points
        return {point: typed(benchmark.point_name(point)) for point in points}

    def within(self, seconds: float, peers: int, benchmark: Benchmark, point: int) -> Plan:
        """The same, but hurried: *benchmark* at *point* with *peers* peers takes some *seconds*."""
        least = LEAST_OF_BRIEF if benchmark.brief_at(point) else LEAST
        each = max(seconds / max(1, peers), least)
        return replace(
            self,
            seconds=min(self.seconds, each / 2 / self.rounds),
            warm=min(self.warm, each / 4),
            patience=min(self.patience, each * peers),
        )


@dataclass(slots=True)
class Row:
    benchmark: Benchmark
    point: int
    figures: dict[str, list[float]] = field(default_factory=dict)
    """The figures of each peer, one for each round."""
    without: dict[str, str] = field(default_factory=dict)
    """Peers without a figure, and the reasons."""

    @property
    def title(self) -> str:
        return self.benchmark.named(self.point)

    def median(self, peer: str) -> float:
        return statistics.median(self.figures[peer])

    def quartiles(self, peer: str) -> tuple[float, float]:
        """The first and third quartile; the extremes of fewer than four values."""
        values = self.figures[peer]
        if len(values) < 4:
            return min(values), max(values)
        first, _, third = statistics.quantiles(values, n=4)
        return first, third

    @property
    def rounds(self) -> int:
        return max(map(len, self.figures.values()), default=0)

    def best(self, among: Sequence[str] = ()) -> str | None:
        """The best of *among*, or of the peers that are not ours; None if none has a figure."""
        others = [name for name in self.figures if name in among or not (among or PEERS[name].ours)]
        if not others:
            return None
        return (max if self.more_is_better else min)(others, key=self.median)

    @property
    def more_is_better(self) -> bool:
        return self.benchmark.unit == "per second"

    def ratio(self, one: str, other: str | None) -> float | None:
        """The median of *one* : *other* over the rounds; None without either, or beside a zero."""
        if other is None or one not in self.figures or not all(self.figures.get(other, [0.0])):
            return None
        pairs = zip(self.figures[one], self.figures[other], strict=True)
        return statistics.median(a / b for a, b in pairs)

    @property
    def loses(self) -> bool:
        ratio = self.ratio(OURS, self.best())
        return ratio is not None and (ratio < 1 if self.more_is_better else ratio > 1)

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Row:
        figures = {name: each["rounds"] for name, each in said["peers"].items()}
        return cls(BY_NAME[said["benchmark"]], said["point"], figures, said["without"])

    def said(self) -> dict[str, object]:
        return {
            "benchmark": self.benchmark.name,
            "title": self.title,
            "point": self.point,
            "unit": self.benchmark.unit,
            "better": "more" if self.more_is_better else "less",
            "peers": {
                name: {
                    "median": self.median(name),
                    "quartiles": self.quartiles(name),
                    "rounds": figures,
                }
                for name, figures in self.figures.items()
            },
            "without": self.without,
            "best peer": self.best(),
            "ours : best peer": self.ratio(OURS, self.best()),
            "ours : raw": self.ratio(OURS, RAW),
        }


class Stage:
    """The sessions of a benchmark; they stay as long as the next benchmark needs the same."""

    def __init__(self, specs: Iterable[Spec]) -> None:
        self._specs = list(specs)
        self._sessions: dict[str, Session] = {}
        self._workers = 0

    def cast(
        self, benchmark: Benchmark, point: int, without: dict[str, str], *, fresh: bool = False
    ) -> list[Session]:
        """A session of each peer for *benchmark*.

        Adds to *without* the peers that do not start.
        """
        workers = benchmark.workers(point)
        if fresh or workers != self._workers:
            self.end()
        self._workers = workers
        wanted = [s for s in self._specs if s.does(benchmark, point) and s.name not in without]
        for spec in wanted:
            if spec.name not in self._sessions:
                try:
                    self._sessions[spec.name] = Session(spec, workers)
                except PeerFailed as error:
                    without[spec.name] = f"did not start: {error}"
        return [self._sessions[spec.name] for spec in wanted if spec.name not in without]

    def dismiss(self, session: Session) -> None:
        """End a failed session; the next benchmark gets another."""
        self._sessions.pop(session.spec.name).end()

    def end(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].end()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def measure(benchmark: Benchmark, point: int, plan: Plan, stage: Stage) -> Row:
    """Have every peer on *stage* do *benchmark* at *point*."""
    row = Row(benchmark, point)
    amounts: dict[str, int] = {}
    sessions = stage.cast(benchmark, point, row.without)
    end = time.monotonic() + plan.patience  # starting them is not this row's time
    for session in sessions:
        amount = _attempt(row, session, stage, partial(_warm_up, session, row, plan))
        if amount is not None:
            amounts[session.spec.name] = int(amount)
    took = 0.0
    for turn in range(min(plan.rounds, 2) if benchmark.fresh else plan.rounds):
        began = time.monotonic()
        if began + took > end and (turn >= FEW or took > LONG):
            break
        sessions = stage.cast(benchmark, point, row.without, fresh=benchmark.fresh)
        first = turn % len(sessions) if sessions else 0
        for session in sessions[first:] + sessions[:first]:
            name = session.spec.name
            amount = amounts[name]
            figure = _attempt(row, session, stage, partial(_work, session, row, amount))
            amount *= benchmark.times
            if figure is not None:
                each = amount / figure if row.more_is_better else figure / amount
                row.figures.setdefault(name, []).append(each)
        took = time.monotonic() - began
    for name in row.without:  # ratios need pairs: figures in all rounds, or in none
        row.figures.pop(name, None)
    return row


def _work(session: Session, row: Row, amount: int) -> float:
    do = partial(session.do, row.benchmark.work, amount, row.point)
    return sum(do() for _ in range(row.benchmark.times))


def _attempt(row: Row, session: Session, stage: Stage, work: Callable[[], float]) -> float | None:
    """The result of *work*; None, with the reason in *row*, if the peer refuses or fails."""
    try:
        return work()
    except NotOffered as why:
        row.without[session.spec.name] = str(why)
    except PeerFailed as error:
        row.without[session.spec.name] = f"failed: {error}"
        with contextlib.suppress(KeyError):
            stage.dismiss(session)
    return None


def _warm_up(session: Session, row: Row, plan: Plan) -> int:
    """Do the work for a while; returns how many repetitions fit into a round."""
    benchmark, point = row.benchmark, row.point
    fixed = benchmark.amount
    if fixed is not None and benchmark.fresh:
        session.do(benchmark.work, 1, point)  # one try; each round is another process
        return max(1, fixed // 10) if plan.quick else fixed
    if plan.quick:
        amount = min(fixed or 3, 20)
        session.do(benchmark.work, amount, point)
        return amount
    if fixed is not None and row.more_is_better:
        tenth = max(1, fixed // 10)
        if session.do(benchmark.work, tenth, point) > plan.warm:
            return tenth  # slow peers do less of it
    if benchmark.brief or fixed is None:  # imports, and ships the function: no measure
        first = session.do(benchmark.work, 1, point)
        if first >= SLOW and not benchmark.brief:
            return 1
    amount, began = fixed or 1, time.monotonic()
    while True:
        took = session.do(benchmark.work, amount, point)
        spent = time.monotonic() - began  # preparation off the clock takes time, too
        if fixed is None:
            wanted = int(amount * plan.seconds / max(took, 1e-9))
            wanted = max(wanted, benchmark.least)
            amount = max(1, min(wanted, amount * 10, benchmark.most_at(point)))
        if took >= plan.seconds / 2 or spent >= plan.warm:
            return amount

"""Breadth-first search over every state of a model, with a shortest trace to any mistake.

A model has a start and the possible next moves; `explore` visits each state once and asks the model
to `judge` it. A state from which no move has to happen must be a good end (`judge_end`). Where time
or retries make cycles, `progress` also demands that an end can be reached from every state, so that
nothing goes round for ever (G6).

Because the search is breadth-first, it reaches the first mistake by the fewest possible moves, and
its trace is as short as possible.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

StateT = TypeVar("StateT")


class Mistake(NamedTuple):
    property: str
    reason: str


class Model(ABC, Generic[StateT]):
    """The model of *program*, which has a name, for `explore`."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self._seen: set[str] = set()

    @abstractmethod
    def start(self) -> StateT:
        """The first state."""

    @abstractmethod
    def moves(self, state: StateT) -> Iterator[tuple[Any, StateT]]:
        """Every possible next move."""

    def need_not(self, move: Any) -> bool:
        """Whether *move* is optional: a state with only optional moves is an end, too."""
        return False

    @abstractmethod
    def judge(self, state: StateT) -> Mistake | None:
        """The mistake in a state, if there is one."""

    @abstractmethod
    def judge_end(self, state: StateT) -> Mistake | None:
        """The mistake in a state from which no move has to happen, if there is one."""

    @abstractmethod
    def show(self, before: StateT, move: Any, after: StateT) -> str:
        """One line of a trace."""

    def see(self, claims: Mapping[str, bool]) -> None:
        """Note the negative properties in *claims* that are violated."""
        self._seen.update(claim for claim, violated in claims.items() if violated)

    def seen(self) -> frozenset[str]:
        """The negative properties violated so far."""
        return frozenset(self._seen)


@dataclass
class Exploration:
    name: str
    states: int = 0
    moves: int = 0
    depth: int = 0
    ends: int = 0
    seen: frozenset[str] = frozenset()
    mistake: Mistake | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.states} states, {self.moves} moves, "
            f"{self.ends} ends, {self.depth} deep"
        )

    def check(self) -> None:
        """Raise an `AssertionError` with the trace of the mistake, if there is one."""
        if self.mistake is not None:
            lines = [f"{number:3}  {line}" for number, line in enumerate(self.trace, 1)]
            story = "\n".join(lines)
            raise AssertionError(
                f"{self.name}: {self.mistake.property!r} does not hold: "
                f"{self.mistake.reason}\n{story}"
            )


class Explorations:
    """The findings for *programs*; *look* explores one, up to so many states."""

    def __init__(
        self, programs: Iterable[Any], look: Callable[[Any, int], Exploration], *, most: int
    ) -> None:
        programs = tuple(programs)
        self.quick = [program for program in programs if not program.slow]
        self.slow = [program for program in programs if program.slow]
        self.of = cache(lambda program: look(program, 2_500_000 if program.slow else most))

    def check(self, program: Any) -> None:
        """Assert that *program* has no mistake, comes to an end, and violates its claims."""
        found = self.of(program)
        found.check()
        print(found)  # noqa: T201 - the figures for docs/verification.md
        assert found.ends > 0
        assert set(getattr(program, "reaches", ())) <= found.seen

    def violated(self) -> frozenset[str]:
        return frozenset[str]().union(*(self.of(program).seen for program in self.quick))

    def states(self) -> int:
        states = sum(self.of(program).states for program in self.quick)
        print(f"{len(self.quick)} programs, {states} states")  # noqa: T201 - the same
        return states


class TooManyStatesError(Exception):
    """A program is larger than its author thought; make it smaller, or mark it slow."""


def explore(model: Model[StateT], *, limit: int = 400_000, progress: bool = False) -> Exploration:
    """Visit every state of *model*, until the first mistake."""
    with _no_collections():
        return _explore(model, limit, progress=progress)


@contextmanager
def _no_collections() -> Iterator[None]:
    """There is little garbage among many states: the collector takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _explore(model: Model[StateT], limit: int, *, progress: bool) -> Exploration:
    start = model.start()
    came: dict[StateT, tuple[StateT, Any] | None] = {start: None}
    before: defaultdict[StateT, list[StateT]] = defaultdict(list)
    ends: list[StateT] = []
    report = Exploration(model.program.name)
    queue = deque([(0, start)])

    def stop(mistake: Mistake, state: StateT) -> Exploration:
        report.mistake = mistake
        report.trace = _trace(model, came, state)
        report.states = len(came)
        report.seen = model.seen()
        return report

    mistake = model.judge(start)
    if mistake is not None:
        return stop(mistake, start)
    while queue:
        depth, state = queue.popleft()
        stuck = True
        for move, after in model.moves(state):
            stuck = stuck and model.need_not(move)
            report.moves += 1
            if after not in came:
                came[after] = (state, move)
                report.depth = depth + 1
                mistake = model.judge(after)
                if mistake is not None:
                    return stop(mistake, after)
                queue.append((depth + 1, after))
            if progress:
                before[after].append(state)
        if stuck:
            mistake = model.judge_end(state)
            if mistake is not None:
                return stop(mistake, state)
            ends.append(state)
        if len(came) > limit:
            raise TooManyStatesError(f"{model.program.name} has more than {limit} states")
    report.states, report.ends, report.seen = len(came), len(ends), model.seen()
    if progress:
        lost = _cannot_end(came, before, ends)
        if lost is not None:
            return stop(Mistake("everything comes to an end", "no end can be reached"), lost)
    return report


def _cannot_end(
    came: dict[StateT, Any], before: Mapping[StateT, list[StateT]], ends: list[StateT]
) -> StateT | None:
    """The first state found from which no end can be reached."""
    good = set(ends)
    queue = deque(ends)
    while queue:
        for earlier in before[queue.popleft()]:
            if earlier not in good:
                good.add(earlier)
                queue.append(earlier)
    return next((state for state in came if state not in good), None)


def _trace(
    model: Model[StateT], came: dict[StateT, tuple[StateT, Any] | None], state: StateT
) -> list[str]:
    lines: list[str] = []
    at = came[state]
    while at is not None:
        earlier, move = at
        lines.append(model.show(earlier, move, state))
        state, at = earlier, came[earlier]
    return lines[::-1]

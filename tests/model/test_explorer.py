"""Every order of every small program, on the shipped machines.

`pytest tests/model/test_explorer.py -s` prints the number of states of each program.
docs/verification.md describes the exploration, and how to extend it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .explorer import Exploration, Mistake, TooManyStatesError, explore
from .model import ProgramModel
from .never_lent import NEVER_STATE, NEVER_STEP
from .programs import BY_FILE, PROGRAMS
from .script import Drop, Own, Remote, Say
from .world import Program

pytestmark = pytest.mark.timeout(600)  # the largest program computes for a minute on a slow machine
PAGE = Path(__file__).parents[2] / "docs" / "verification.md"
QUICK = [program for program in PROGRAMS if not program.slow]
SLOW = [program for program in PROGRAMS if program.slow]
RECORD = Path(__file__).parent / "programs" / "states.txt"
STATES = {
    name: int(states)
    for states, name in (line.split(maxsplit=1) for line in RECORD.read_text().splitlines())
}
"""The states of each quick program, when it was last explored."""
SMALL = 2_000
"""CI explores the programs of so many states or fewer, and `make deep` the others."""


def is_small(program: Program) -> bool:
    return STATES.get(program.name, 0) <= SMALL


@cache
def report(program: Program) -> Exploration:
    limit = 2_500_000 if program.slow else 150_000
    return explore(ProgramModel(program), limit=limit, progress=program.victims is not None)


def check(program: Program) -> None:
    result = report(program)
    result.check()
    print(result)  # noqa: T201 - the figures for docs/verification.md
    assert result.ends > 0
    assert set(program.reaches) <= result.seen


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            program,
            id=f"{file}: {program.name}",  # tests/conftest.py reads the file
            marks=[] if is_small(program) else pytest.mark.deep,
        )
        for file, group in BY_FILE.items()
        for program in group
        if not program.slow
    ],
)
def test_every_order_of(program: Program) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", SLOW, ids=lambda program: program.name)
def test_every_order_of_a_large_program(program: Program) -> None:
    check(program)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the exploration does not reach the states in which the properties could fail."""
    reached = {claim for program in QUICK for claim in program.reaches}  # see `check`
    assert reached == NEVER_STEP.keys() | NEVER_STATE.keys()


@pytest.mark.parametrize(
    ("file", "small"),
    [
        pytest.param(file, small, id=f"{file}: {size}", marks=marks)
        for file in BY_FILE
        for size, small, marks in (("small", True, ()), ("large", False, pytest.mark.deep))
    ],
)
def test_the_record_has_the_states(file: str, small: bool) -> None:
    """A count that falls shows that a part is no longer explored.

    The sum must be right to a tenth: any change of a machine changes it a little.
    """
    programs = [each for each in BY_FILE[file] if not each.slow and is_small(each) == small]
    found = {program.name: report(program).states for program in programs}
    recorded = sum(STATES.get(name, 0) for name in found)
    told = found.keys() <= STATES.keys() and abs(sum(found.values()) - recorded) <= recorded / 10
    lines = "\n".join(f"{states} {name}" for name, states in found.items())
    assert told, f"{RECORD.name} should say:\n{lines}"


def test_the_record_has_each_program() -> None:
    assert list(STATES) == [program.name for program in QUICK]


@pytest.mark.parametrize("file", BY_FILE)
def test_the_page_has_the_recorded_states(file: str) -> None:
    found = {each.name: STATES[each.name] for each in BY_FILE[file] if not each.slow}
    largest = max(found, key=lambda name: found[name])
    total = sum(found.values())
    row = f"| `{file}` | {len(found)} | {total:,} | {largest} | {found[largest]:,} |"
    assert row in PAGE.read_text(), f"docs/verification.md should say:\n{row}"


def test_the_page_adds_the_numbers_up() -> None:
    page = PAGE.read_text()
    small = [STATES[program.name] for program in QUICK if is_small(program)]
    for expected in (
        f"interleaving of {len(QUICK)} small programs; CI explores {len(small)} of them | "
        f"{sum(STATES.values()):,} states, {sum(small):,} in CI; ",
        f"`never_lent.py`, {len(NEVER_STEP | NEVER_STATE)} claims",
    ):
        assert expected in page, f"docs/verification.md should say: {expected}"


def test_a_program_has_one_name() -> None:
    names = [program.name for program in PROGRAMS]
    assert sorted(names) == sorted(set(names))


# ---- the explorer itself


def test_a_mistake_is_told_by_its_shortest_trace() -> None:
    """A correct program in a world that forbids every delete."""

    class NobodyDeletes(ProgramModel):
        def judge(self, state: Any) -> Any:
            if any(type(it.message).__name__ == "Delete" for it in self.world.in_flight(state)):
                return Mistake("nobody deletes", "somebody did")
            return super().judge(state)

    program = Program("a", {"A": (Remote("x", "B"), Drop("x")), "B": ()})
    with pytest.raises(AssertionError) as caught:
        explore(NobodyDeletes(program)).check()
    assert str(caught.value).splitlines() == [
        "a: 'nobody deletes' does not hold: somebody did",
        "  1  A does Remote('x', to='B')",
        "       A -> B  Create(call=A/1, rref=A/1, fork=A/1)",
        "  2  B gets Create(call=A/1, rref=A/1, fork=A/1) from A",
        "       B -> A  Ack(rref=A/1, fork=A/1)",
        "  3  A gets Ack(rref=A/1, fork=A/1) from B",
        "  4  A does Drop('x')",
        "       A -> B  Delete(rref=A/1, forks=[A/1])",
    ]


def test_a_program_that_cannot_end_is_a_mistake() -> None:
    program = Program("a", {"A": (Own("x"), Drop("y"))})
    with pytest.raises(AssertionError, match="every task ends"):
        explore(ProgramModel(program)).check()


def test_a_program_that_is_too_large_is_refused() -> None:
    program = Program("a", {"A": (Own("x"), *(Say("B", ("x",)) for _ in range(9))), "B": ()})
    with pytest.raises(TooManyStatesError):
        explore(ProgramModel(program), limit=1000)

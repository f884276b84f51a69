"""Every order of every small program, on the shipped machines.

`pytest tests/model/test_explorer.py -s` prints the number of states of each program.
docs/verification.md describes the exploration, and how to extend it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .explorer import Explorations, Mistake, TooManyStatesError, explore
from .language import parse
from .model import ProgramModel, explore_program
from .never import NEVER_STATE, NEVER_STEP
from .programs import BY_FILE, PROGRAMS
from .script import Ask, Drop, Keep, Own, Remote, Rest, Say
from .world import Program

pytestmark = pytest.mark.timeout(600)  # the largest program computes for a minute on a slow machine
PAGE = Path(__file__).parents[2] / "docs" / "verification.md"
SMALL = 2_000
"""CI explores the programs of so many states or fewer, and `make deep` the others."""
FOUND = Explorations(PROGRAMS, explore_program, most=150_000)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            program,
            id=f"{file}: {program.name}",  # tests/conftest.py reads the file
            marks=[] if program.states <= SMALL else pytest.mark.deep,
        )
        for file, group in BY_FILE.items()
        for program in group
        if not program.slow
    ],
)
def test_every_order_of(program: Program) -> None:
    FOUND.check(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", FOUND.slow, ids=lambda program: program.name)
def test_every_order_of_a_large_program(program: Program) -> None:
    FOUND.check(program)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the exploration does not reach the states in which the properties could fail."""
    reached = {claim for program in FOUND.quick for claim in program.reaches}  # see `check`
    assert reached == NEVER_STEP.keys() | NEVER_STATE.keys()


@pytest.mark.parametrize(
    ("file", "small"),
    [
        pytest.param(file, small, id=f"{file}: {size}", marks=marks)
        for file in BY_FILE
        for size, small, marks in (("small", True, ()), ("large", False, pytest.mark.deep))
    ],
)
def test_the_file_has_the_states(file: str, small: bool) -> None:
    """A count that falls shows that a part is no longer explored.

    The sum must be right to a tenth: any change of a machine changes it a little.
    """
    programs = [each for each in BY_FILE[file] if not each.slow]
    programs = [each for each in programs if (each.states <= SMALL) == small]
    found = {program.name: FOUND.of(program).states for program in programs}
    recorded = sum(program.states for program in programs)
    told = abs(sum(found.values()) - recorded) <= recorded / 10 and all(
        it.states for it in programs
    )
    lines = "\n".join(f"{states} {name}" for name, states in found.items())
    assert told, f"{file} should say:\n{lines}"


@pytest.mark.parametrize("file", BY_FILE)
def test_the_page_has_the_recorded_states(file: str) -> None:
    found = [each for each in BY_FILE[file] if not each.slow]
    largest = max(found, key=lambda program: program.states)
    total = sum(program.states for program in found)
    row = f"| `{file}` | {len(found)} | {total:,} | {largest.name} | {largest.states:,} |"
    assert row in PAGE.read_text(), f"docs/verification.md should say:\n{row}"


def test_the_page_adds_the_numbers_up() -> None:
    page = PAGE.read_text()
    states = [program.states for program in FOUND.quick]
    small = [each for each in states if each <= SMALL]
    for expected in (
        f"interleaving of {len(states)} small programs; CI explores {len(small)} of them | "
        f"{sum(states):,} states, {sum(small):,} in CI; ",
        f"`never.py`, {len(NEVER_STEP | NEVER_STATE)} claims",
    ):
        assert expected in page, f"docs/verification.md should say: {expected}"


def test_a_program_has_one_name() -> None:
    names = [program.name for program in PROGRAMS]
    assert sorted(names) == sorted(set(names))


# ---- the explorer itself


def test_a_script_is_read() -> None:
    told = "create x on B (y) {keep y as z; return [y]}; ask c at C unreadable {rest} then {drop x}"
    assert parse(told) == (
        Remote("x", "B", ("y",), (Keep("y", "z"),), ("y",)),
        Ask("c", "C", body=(Rest(),), then=(Drop("x"),), readable=False),
    )


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

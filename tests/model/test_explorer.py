"""Every order of every small program, on the shipped machines.

`pytest tests/model/test_explorer.py -s` prints the number of states of each program.
docs/verification.md describes the exploration, and how to extend it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from .explorer import Mistake, Report, TooManyStatesError, explore
from .model import ProgramModel
from .never_lent import NEVER_STATE, NEVER_STEP
from .programs import PROGRAMS
from .script import Drop, Own, Remote, Say
from .world import Program

QUICK = [program for program in PROGRAMS if not program.slow]
SLOW = [program for program in PROGRAMS if program.slow]


@cache
def report(program: Program) -> Report:
    limit = 2_500_000 if program.slow else 150_000
    return explore(ProgramModel(program), limit=limit, progress=program.victims is not None)


def check(program: Program) -> None:
    result = report(program)
    result.check()
    print(result)  # noqa: T201 - the figures for docs/verification.md
    assert result.ends > 0
    assert set(program.reaches) <= result.seen


@pytest.mark.parametrize("program", QUICK, ids=lambda program: program.name)
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


def test_the_number_of_states_is_plausible() -> None:
    """A count that falls shows that a part is no longer explored."""
    states = sum(report(program).states for program in QUICK)
    print(f"{len(QUICK)} programs, {states} states")  # noqa: T201 - the same
    assert states > 1_100_000


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

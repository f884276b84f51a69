"""Every interleaving of joining, leaving, dying, closing and time, in small groups of nodes."""

from __future__ import annotations

from functools import cache

import pytest

from .explorer import Exploration, explore
from .meeting import Meeting, MeetingModel
from .meetings import MEETINGS, NEVER_MET

QUICK = [program for program in MEETINGS if not program.slow]
SLOW = [program for program in MEETINGS if program.slow]


@cache
def report(program: Meeting) -> Exploration:
    return explore(MeetingModel(program), limit=2_000_000 if program.slow else 40_000)


def check(program: Meeting) -> None:
    result = report(program)
    result.check()
    print(result)  # noqa: T201 - the figures for docs/verification.md
    assert result.ends > 0
    assert set(program.reaches) <= result.seen


@pytest.mark.parametrize("program", QUICK, ids=lambda program: program.name)
def test_every_interleaving_of(program: Meeting) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", SLOW, ids=lambda program: program.name)
def test_every_interleaving_of_a_larger_program(program: Meeting) -> None:
    check(program)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the situations that the machine exists for do not happen."""
    seen = frozenset[str]().union(*(report(program).seen for program in QUICK))
    assert seen == NEVER_MET


def test_the_number_of_states_is_plausible() -> None:
    """A count that falls shows that a part is no longer explored."""
    states = sum(report(program).states for program in QUICK)
    print(f"{len(QUICK)} programs, {states} states")  # noqa: T201 - the same
    assert states > 40_000

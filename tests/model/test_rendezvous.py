"""Every interleaving of joining, leaving, dying, closing and time, in small groups of nodes."""

import pytest

from .explorer import Explorations
from .meeting import NEVER_MET, Meeting, explore_meeting
from .meetings import MEETINGS

FOUND = Explorations(MEETINGS, explore_meeting, most=40_000)


@pytest.mark.parametrize("program", FOUND.quick, ids=lambda program: program.name)
def test_every_interleaving_of(program: Meeting) -> None:
    FOUND.check(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", FOUND.slow, ids=lambda program: program.name)
def test_every_interleaving_of_a_larger_program(program: Meeting) -> None:
    FOUND.check(program)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the situations that the machine exists for do not happen."""
    assert FOUND.violated() == NEVER_MET


def test_the_number_of_states_is_plausible() -> None:
    """A count that falls shows that a part is no longer explored."""
    assert FOUND.states() > 40_000

"""The registrar's role passes on: every interleaving of requests, deaths and takeovers."""

import pytest

from .explorer import Explorations
from .succession import NEVER, State, Takeover, World, explore_takeover
from .successions import SUCCESSIONS

FOUND = Explorations(SUCCESSIONS, explore_takeover, most=40_000)


@pytest.mark.parametrize("program", FOUND.quick, ids=lambda program: program.name)
def test_every_interleaving_of(program: Takeover) -> None:
    FOUND.check(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", FOUND.slow, ids=lambda program: program.name)
def test_every_interleaving_of_a_larger_program(program: Takeover) -> None:
    FOUND.check(program)


def test_the_order_of_a_set_is_no_part_of_a_state() -> None:
    """Else the number of states depends on the hashes of the process."""
    one, other = World(SUCCESSIONS[0]), World(SUCCESSIONS[0])
    one.left, other.left = {0, 8}, {8, 0}
    assert [*one.left] != [*other.left]
    assert State(one) == State(other)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the situations that the machines exist for do not happen."""
    assert FOUND.violated() == NEVER

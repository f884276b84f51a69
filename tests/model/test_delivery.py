"""Every loss, repetition, order and delay of short conversations between two channels."""

import pytest

from .explorer import Explorations
from .wire import LINKS, NEVER_WIRE, Link, explore_link

FOUND = Explorations(LINKS, explore_link, most=150_000)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("link", FOUND.quick, ids=lambda link: link.name)
def test_every_fault_of(link: Link) -> None:
    FOUND.check(link)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("link", FOUND.slow, ids=lambda link: link.name)
def test_every_fault_of_a_long_conversation(link: Link) -> None:
    FOUND.check(link)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the faults that delivery exists for do not happen."""
    assert FOUND.violated() == NEVER_WIRE


def test_the_number_of_states_is_plausible() -> None:
    """A count that falls shows that a part is no longer explored."""
    assert FOUND.states() > 100_000

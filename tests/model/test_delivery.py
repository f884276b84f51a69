"""Every loss, repetition, order and delay of short conversations between two channels."""

from __future__ import annotations

from functools import cache

import pytest

from .explorer import Exploration, explore
from .wire import LINKS, NEVER_WIRE, Link, WireModel, small_numbers

QUICK = [link for link in LINKS if not link.slow]
SLOW = [link for link in LINKS if link.slow]


@cache
def report(link: Link) -> Exploration:
    with small_numbers(link):
        limit = 2_500_000 if link.slow else 150_000
        return explore(WireModel(link), limit=limit, progress=True)


def check(link: Link) -> None:
    result = report(link)
    result.check()
    print(result)  # noqa: T201 - the figures for docs/verification.md
    assert result.ends > 0
    assert set(link.reaches) <= result.seen


@pytest.mark.timeout(600)
@pytest.mark.parametrize("link", QUICK, ids=lambda link: link.name)
def test_every_fault_of(link: Link) -> None:
    check(link)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("link", SLOW, ids=lambda link: link.name)
def test_every_fault_of_a_long_conversation(link: Link) -> None:
    check(link)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the faults that delivery exists for do not happen."""
    seen = frozenset[str]().union(*(report(link).seen for link in QUICK))
    assert seen == NEVER_WIRE


def test_the_number_of_states_is_plausible() -> None:
    """A count that falls shows that a part is no longer explored."""
    states = sum(report(link).states for link in QUICK)
    print(f"{len(QUICK)} links, {states} states")  # noqa: T201 - the same
    assert states > 100_000

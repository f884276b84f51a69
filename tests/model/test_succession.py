"""The registrar's role passes on: every interleaving of requests, deaths and takeovers."""

from __future__ import annotations

from functools import cache

import pytest

from .explorer import Exploration, explore
from .succession import NEVER, PassingModel, Takeover
from .successions import SUCCESSIONS

QUICK = [program for program in SUCCESSIONS if not program.slow]
SLOW = [program for program in SUCCESSIONS if program.slow]


@cache
def report(program: Takeover) -> Exploration:
    return explore(PassingModel(program), limit=2_000_000 if program.slow else 40_000)


def check(program: Takeover) -> None:
    result = report(program)
    result.check()
    print(result)  # noqa: T201 - the figures for docs/verification.md
    assert result.ends > 0


@pytest.mark.parametrize("program", QUICK, ids=lambda program: program.name)
def test_every_interleaving_of(program: Takeover) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", SLOW, ids=lambda program: program.name)
def test_every_interleaving_of_a_larger_program(program: Takeover) -> None:
    check(program)


def test_every_negative_property_is_violated() -> None:
    """Otherwise the situations that the machines exist for do not happen."""
    seen = frozenset[str]().union(*(report(program).seen for program in QUICK))
    assert seen == NEVER

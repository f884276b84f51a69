"""Each rule of the succession removed in turn: the explorer, or a test of the rule, must notice."""

from __future__ import annotations

import pytest

from ..protocol.succession import test_machines as rules
from .explorer import explore
from .mutants import SUCCESSION, Mutant, mutated
from .succession import PassingModel
from .successions import SUCCESSIONS

PROGRAM_OF = {program.name: program for program in SUCCESSIONS}
MUTANTS = [(mutant, where) for where, mutants in SUCCESSION.items() for mutant in mutants]


def caught(where: str) -> str | None:
    """The way in which *where* notices the missing rule."""
    try:
        if where not in PROGRAM_OF:
            getattr(rules, where)()
            return None
        result = explore(PassingModel(PROGRAM_OF[where]), limit=10_000)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    mistake = result.mistake
    return mistake and f"{mistake.property!r} does not hold: {mistake.reason}"


@pytest.mark.parametrize(("mutant", "where"), MUTANTS, ids=str)
def test_a_mutant_of_the_succession_is_caught(mutant: Mutant, where: str) -> None:
    with mutated(mutant):
        how = caught(where)
    assert how is not None, f"{mutant} survives {where!r}"
    print(f"{mutant}\n    {where}: {how}")  # noqa: T201 - the list of mutants

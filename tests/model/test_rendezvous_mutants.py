"""Each rule of the rendezvous removed in turn: the explorer, or a test of the rule, must notice."""

from __future__ import annotations

import pytest

from ..protocol.rendezvous import test_state as rules
from .explorer import TooManyStatesError, explore
from .meeting import MeetingModel
from .meetings import MEETINGS
from .mutants import RENDEZVOUS, Mutant, mutated

PROGRAM_OF = {program.name: program for program in MEETINGS}
MUTANTS = [(mutant, where) for where, mutants in RENDEZVOUS.items() for mutant in mutants]


def caught(where: str) -> str | None:
    """The way in which *where* notices the missing rule."""
    program = PROGRAM_OF.get(where)
    if program is None:
        try:
            getattr(rules, where)()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None
    try:
        result = explore(MeetingModel(program), limit=10_000)
    except TooManyStatesError as error:
        return str(error)
    if result.mistake is not None:
        return f"{result.mistake.property!r} does not hold: {result.mistake.reason}"
    missing = set(program.reaches) - result.seen
    return f"never violated: {', '.join(sorted(missing))}" if missing else None


@pytest.mark.parametrize(("mutant", "where"), MUTANTS, ids=str)
def test_a_mutant_of_the_rendezvous_is_caught(mutant: Mutant, where: str) -> None:
    with mutated(mutant):
        how = caught(where)
    assert how is not None, f"{mutant} survives {where!r}"
    print(f"{mutant}\n    {where}: {how}")  # noqa: T201 - the list of mutants

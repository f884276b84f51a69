"""Each rule of the shipped machines removed in turn: the explorer must notice.

`pytest tests/model/test_mutants.py -s` lists each mutant with the property that caught it. A mutant
that survives shows a missing program, or an unnecessary rule.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from farref.tracetest.files import TraceTestError, differences

from ..protocol.test_replies import is_known_after
from .explorer import TooManyStatesError, explore
from .foreign import FOREIGN, FOREIGN_MUTANTS, Foreign
from .model import ProgramModel
from .mutants import DELIVERY, MACHINES, Mutant, mutated
from .mutants.of_exits import CAUGHT_BY, ExitMutant, applied, exit_mutants
from .programs import PROGRAMS
from .wire import LINKS, WireModel, small_numbers

TRACES = Path(__file__).parents[1] / "traces"
PROGRAM_OF = {program.name: program for program in PROGRAMS}
LINK_OF = {link.name: link for link in LINKS}


def each_of(*tables: dict[str, tuple[Mutant, ...]]) -> list[tuple[Mutant, str]]:
    """Each mutant, and the program or trace that catches it."""
    return [(each, by) for table in tables for by, mutants in table.items() for each in mutants]


def caught(mutant: Mutant, by: str) -> str | None:
    """The property that is broken in *mutant*, if the program or trace finds one."""
    program = PROGRAM_OF.get(by)
    if program is None:
        with mutated(mutant, exits=False):  # an exit may have the rule, too
            return "its trace is another" if differs(by) else None
    with mutated(mutant, exits=False):
        looks = program.victims is not None
        result = explore(ProgramModel(program), limit=300_000, progress=looks)
    if result.mistake is not None:
        return f"{result.mistake.property!r} does not hold: {result.mistake.reason}"
    missing = set(program.reaches) - result.seen
    return f"never violated: {', '.join(sorted(missing))}" if missing else None


def differs(trace: str) -> bool:
    """Whether the run of *trace* shows anything unexpected, or cannot go on."""
    try:
        return bool(differences(TRACES / f"{trace}.txt"))
    except TraceTestError:
        return True


def caught_on_the_wire(mutant: Mutant, by: str) -> str | None:
    """The same for a mutant of delivery."""
    link = LINK_OF[by]
    with mutated(mutant), small_numbers(link):
        try:
            result = explore(WireModel(link), limit=10_000, progress=True)
        except TooManyStatesError as error:
            return f"it has no end: {error}"
    if result.mistake is not None:
        return f"{result.mistake.property!r} does not hold: {result.mistake.reason}"
    missing = set(link.reaches) - result.seen
    return f"never violated: {', '.join(sorted(missing))}" if missing else None


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("mutant", "by"), each_of(*MACHINES), ids=str)
def test_a_mutant_of_the_machines_is_caught(mutant: Mutant, by: str) -> None:
    how = caught(mutant, by)
    assert how is not None, f"{mutant} survives {by!r}"
    print(f"{mutant}\n    {by}: {how}")  # noqa: T201 - the list of mutants


@pytest.mark.parametrize("mutant", exit_mutants(), ids=str)
def test_a_mutant_of_an_exit_is_caught(mutant: ExitMutant | Mutant) -> None:
    by = CAUGHT_BY[str(mutant)]
    with applied(mutant):
        try:
            if by == "tests/protocol/test_replies.py":
                caught = is_known_after("relayed")  # which that test finds wrong
            elif by in PROGRAM_OF:
                limit = 150_000
                caught = explore(ProgramModel(PROGRAM_OF[by]), limit=limit).mistake is not None
            else:
                caught = differs(by)
        except AttributeError:  # it looks for a part of None, also in a check
            caught = True
    assert caught, f"{mutant} survives {by!r}"


def test_each_line_of_the_table_is_of_a_mutant() -> None:
    assert sorted(map(str, exit_mutants())) == sorted(CAUGHT_BY)


@pytest.mark.parametrize(("mutant", "by"), each_of(DELIVERY), ids=str)
def test_a_mutant_of_delivery_is_caught(mutant: Mutant, by: str) -> None:
    how = caught_on_the_wire(mutant, by)
    assert how is not None, f"{mutant} survives {by!r}"
    print(f"{mutant}\n    {by}: {how}")  # noqa: T201 - the list of mutants


@pytest.mark.parametrize(("mutant", "foreign"), FOREIGN_MUTANTS, ids=str)
def test_a_mutant_that_believes_a_foreign_message_is_caught(
    mutant: Mutant, foreign: Foreign
) -> None:
    assert foreign.flaw() is None
    with mutated(mutant, exits=False):
        how = foreign.flaw()
    assert how is not None, f"{mutant} survives {foreign}"
    print(f"{mutant}\n    {foreign}: {how}")  # noqa: T201 - the list of mutants


def test_the_page_has_the_numbers_of_mutants() -> None:
    rules, refusals = len(each_of(*MACHINES, DELIVERY)), len(FOREIGN_MUTANTS)
    exits = len(exit_mutants())
    told = (
        f"| {rules + refusals + exits} mutants: {rules} of the rules, {refusals} of the refusals, "
        f"{exits} of the exits;"
    )
    page = Path(__file__).parents[2] / "docs" / "verification.md"
    assert told in page.read_text(), f"docs/verification.md lacks: {told}"


def test_each_refusal_has_a_mutant() -> None:
    assert {foreign for _, foreign in FOREIGN_MUTANTS} == set(FOREIGN)

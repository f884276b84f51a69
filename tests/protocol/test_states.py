"""The tables of states: as docs/protocol.md prints them, and reached row by row.

That no step makes another transition is checked in every exploration: see `tests/model/states.py`.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from farref.protocol.owner import Owner
from farref.protocol.states import GROUPS, MACHINES, TRANSITIONS, inputs

from ..model import states
from ..model.explorer import Mistake, explore
from ..model.model import ProgramModel
from ..model.mutation import edit
from ..model.programs import PROGRAMS
from ..model.world import Taken, WorldState

pytestmark = pytest.mark.timeout(600)  # some of the programs are not small
PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
PROGRAM_OF = {program.name: program for program in PROGRAMS}
REACHING = (
    "an alias that nobody uses",
    "a method that waits for what it makes [lend]",
    "an argument, kept by the object's owner [borrow]",
    "a cancelled call with references [lend]",
    "a value that refers to another object [borrow]",
    "a method that waits for what is made by a method of what it makes",
    "a created object's lender dies [lend]",
    "home and away again",
    "the owner and the lender die, and the borrower keeps [borrow]",
    "mutual lending [lend]",
    "the owner of what an alias stands for dies",
    "a method that waits for itself, behind a direct fetch [borrow]",
    "sent and lent to one endpoint [borrow]",
    "a direct fetch and more, in order",
    "two aliases of each other",
    "others run while a method awaits",
    "a creation, and a wait, in order",
    "the owner of what an alias stands for dies, with a creation on it",
    "the owner of what an alias stands for dies, and a fetch has told what that is",
    "a creation on an alias",
    "the borrower waits for another, and the lender dies [borrow]",
)
"""Small programs that reach all rows together."""
PRINTED = re.compile(r"(?<=<!-- states -->\n).*(?=<!-- end of states -->\n)", re.DOTALL)


# ---- the page


def printed() -> str:
    """The states of each machine: the meaning of each, and what becomes of it."""
    lines = [f"- *{name}*: {_listed(which)}" for name, which in GROUPS.items()] + [""]
    for name, (kind, _) in MACHINES.items():
        lines += [f"**{name.title()}.** {kind.__doc__}", ""]
        lines += ["| state | meaning | becomes |", "|---|---|---|"]
        lines += [f"| `{it.name}` | {it.value} | {_becomes(it)} |" for it in kind]
        lines += [""]
    return "\n".join(lines)


def _becomes(state: Enum) -> str:
    rows = (f"`{it.name}` by {_listed(which)}" for was, it, which in TRANSITIONS if was is state)
    return "<br>".join(rows)


def _listed(which: str) -> str:
    return ", ".join(f"*{it}*" if it in GROUPS else f"`{it}`" for it in which.split())


def test_the_page_prints_the_tables(*, rewrite: bool) -> None:
    if rewrite:
        PAGE.write_text(PRINTED.sub(lambda _: f"\n{printed()}", PAGE.read_text("utf-8")), "utf-8")
    found = PRINTED.search(PAGE.read_text("utf-8"))
    told = found is not None and found[0].strip() == printed().strip()
    assert told, "pytest tests/protocol/test_states.py --rewrite prints them anew"


# ---- the rows


class Moves(ProgramModel):
    """A program of which only the moves count: the explorer's tests check its properties."""

    def judge(self, state: WorldState) -> Mistake | None:
        broken = self.world.broken
        return next((broken[each] for each in state.endpoints if each in broken), None)

    def judge_end(self, state: WorldState) -> Mistake | None:
        return None

    def _inspect(self, taken: Taken) -> Mistake | None:
        return None


@pytest.mark.long
def test_each_row_is_reached_by_a_program() -> None:
    for name in REACHING:
        explore(Moves(PROGRAM_OF[name])).check()
    missing = [
        f"{was} becomes {becomes} by {by}"
        for was, becomes, which in TRANSITIONS
        for by in which.split()
        if not any((was, event, becomes) in states.REACHED for event in inputs(by))
    ]
    assert not missing, "remove these rows, or add programs that reach them to REACHING"


def flaw(program: str) -> str | None:
    """The transition without a row that *program* makes, if the explorer finds one."""
    mistake = explore(Moves(PROGRAM_OF[program])).mistake
    return mistake and mistake.reason


def test_a_machine_that_makes_another_transition_is_a_mistake() -> None:
    mutant = edit(
        "is resolved at once", Owner.stand_for, "self.alias = alias", "self.resolved = True"
    )
    with mutant.applied():
        found = flaw("an alias that nobody uses")
    assert flaw("an alias that nobody uses") is None
    assert found == "AssertionError: CREATED becomes RESOLVED by stand_for: no row of the table"

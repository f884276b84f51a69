"""Each rule of the borrowing machines removed in turn: the trace about that rule goes wrong.

The rules are those at the top of ``protocol/borrowing.py``. A mutant is a shipped machine with one
expression or statement replaced (`edit` of `tests.model.mutation`). Its trace then shows an object
that is freed too early, a thing that is left for ever, or a wait without end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import pytest

from farref.protocol.borrowing import BorrowingOwner, BorrowingUser
from farref.protocol.death import Death
from farref.protocol.entries import Entries
from farref.protocol.lending import LendingOwner
from farref.protocol.loans import Loans
from farref.protocol.owner import Owner
from farref.protocol.user import User
from farref.tracetest.errors import BadCommandError
from farref.tracetest.files import differences, parse
from farref.tracetest.language import run
from farref.tracetest.world import World

from ..model.mutation import Mutant, edit

if TYPE_CHECKING:
    from farref.protocol.effects import Effect
    from farref.protocol.ids import ForkId, WorkerId
    from farref.protocol.messages import Delete, Report

TRACES = Path(__file__).parents[1] / "traces"

FREED_EARLY = "still holds"
LEFT = "something is left"


class RemovedRule(NamedTuple):
    """A removed rule, and the *wrong* text in its trace."""

    number: int
    trace: str
    mutant: Mutant
    wrong: str

    def __str__(self) -> str:
        return f"rule {self.number}: {self.mutant}"


RULES = (
    RemovedRule(
        1,
        "borrowing/rule_1_one_guardian",
        edit(
            "reports by every loan, and hands its table over",
            BorrowingUser.end_loan,
            "self.guardian == fork",
            "True",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        1,
        "borrowing/rule_1_one_guardian",
        edit("reports by the last loan", BorrowingUser.borrow, "not self._covered", "True"),
        FREED_EARLY,
    ),
    RemovedRule(
        2,
        "borrowing/rule_2_epochs",
        edit(
            "removes whatever the sender holds",
            Owner.delete,
            "message.forks",
            "[fork for fork, to in self.forks.items() if to == sender]",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        3,
        "borrowing/rule_3_announcing",
        edit(
            "announces itself only when its own lender dies",
            BorrowingUser.died,
            "self._announce(allocate)",
            "[] if self.guardian or self.reported else self._announce(allocate)",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        4,
        "borrowing/rule_4_taking_back",
        edit(
            "takes no table back",
            Death._take_back,
            "message.loans if isinstance(message, Reply | Returned) else ()",
            "()",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        4,
        "borrowing/a_table_for_the_dead",
        edit("hands its table to the dead", BorrowingUser.died, "self.guardian = None"),
        FREED_EARLY,
    ),
    RemovedRule(
        5,
        "borrowing/example_1_forwarding_what_we_own",
        edit(
            "does not use what it lent on",
            User.in_use,
            "self.handles or self.messages or self.pending or self.children",
            "self.handles or self.messages or self.pending",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        5,
        "borrowing/rule_5_in_use",
        edit(
            "answers a notice while a later loan lasts",
            BorrowingUser.notified,
            "self._know(fork) + self.end_if_unused()",
            "[removal(self.rref, self.owner, fork)]",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        5,
        "borrowing/rule_5_an_announcement_covers_nothing",
        edit(
            "is covered by an announcement",
            BorrowingUser._covered,
            "bool(self.reported or self.requested) and (not self.announcing)",
            "bool(self.reported or self.requested)",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        5,
        "borrowing/an_announcement_is_waited_for",
        edit(
            "lets go with an announcement out",
            BorrowingUser._hold_on,
            "self.announcing",
            "self.announcing and self.in_use",
        ),
        "gives up B/1",
    ),
    RemovedRule(
        5,
        "borrowing/an_announced_table_stays",
        edit(
            "hands over a table that it has announced",
            BorrowingUser._hold_on,
            "(True, ())",
            "(True, self._take_table())",
        ),
        FREED_EARLY,
    ),
    RemovedRule(
        5,
        "malformed/borrowing",
        edit(
            "believes a table without a loan",
            BorrowingUser.loan_ended,
            "self.children.get(fork) == sender",
            "True",
        ),
        "borrower D/1 of D",
    ),
    RemovedRule(
        6,
        "borrowing/rule_6_an_announcement_is_a_fork_request",
        edit(
            "announces itself under the fork of its loan",
            BorrowingUser._announce,
            "allocate()",
            "self.guardian or allocate()",
        ),
        LEFT,
    ),
    RemovedRule(
        6,
        "borrowing/rule_6_an_announcement_that_comes_too_late",
        edit("waits for what was freed", Entries.own_or_await, "[Lose(rref)]", "[]"),
        LEFT,
    ),
    RemovedRule(
        6,
        "borrowing/a_notice_for_nothing",
        edit(
            "does not answer for an entry that is gone",
            Loans._notified,
            "[removal(rref, sender, fork)]",
            "[]",
        ),
        LEFT,
    ),
    RemovedRule(
        6,
        "borrowing/a_notice_for_nothing",
        edit(
            "does not count a loan that is over",
            BorrowingUser.notified,
            "self._know(fork) + self.end_if_unused()",
            "self.end_if_unused()",
        ),
        LEFT,
    ),
)


def told(trace: str) -> str:
    """The whole text of the trace, even after a command that makes no sense any more."""
    world = World()
    lines: list[str] = []
    for block in parse(TRACES / f"{trace}.txt"):
        for _, command in block.commands:
            world.lines = []
            try:
                run(world, command)
            except (BadCommandError, AssertionError) as error:
                world.say(f"({command}: {error})")
            lines += world.lines
    return "\n".join(lines)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_its_trace_goes_wrong(rule: RemovedRule) -> None:
    assert not differences(TRACES / f"{rule.trace}.txt")
    assert rule.wrong not in told(rule.trace)
    with rule.mutant.applied():
        without = told(rule.trace)
    assert rule.wrong in without, f"{rule.mutant} survives {rule.trace}:\n{without}"


def test_each_of_the_six_rules_is_removed() -> None:
    assert {rule.number for rule in RULES} == set(range(1, 7))


def test_an_owner_that_unpins_before_it_merges_a_reply_frees_too_early() -> None:
    def unpin_first(
        self: BorrowingOwner, sender: WorkerId, fork: ForkId, report: Report | None
    ) -> list[Effect]:
        effects = LendingOwner.loan_ended(self, sender, fork, report)
        return effects + (self._merge(report.borrowers) if report is not None else [])

    with patch.object(BorrowingOwner, "loan_ended", unpin_first):
        assert FREED_EARLY in told("borrowing/tables_merge_on_replies")


def test_an_owner_that_lets_go_before_it_merges_a_removal_frees_too_early() -> None:
    def let_go_first(self: BorrowingOwner, sender: WorkerId, message: Delete) -> list[Effect]:
        return LendingOwner.delete(self, sender, message) + self._merge(message.borrowers)

    with patch.object(BorrowingOwner, "delete", let_go_first):
        assert FREED_EARLY in told("borrowing/the_table_in_ref_removed")

"""Mutants of the shipped machines: a test notices each of a fixed sample.

`caught.txt` is the sample: mutants, each with a judge that notices it. `make mutants` judges all of
them, and tells those that survive.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from .judges import is_noticed, judges, notices
from .mutation import CAUGHT, SURVIVORS, edits, named
from .source import cut

pytestmark = pytest.mark.timeout(600)  # a link with a mutant computes for half a minute alone
SLOW = (
    "credit.Credit.given: without self.bytes -= size",
    "delivery.Channel.packet: without self.acknowledge_at = None",
    "delivery.Channel.tick: without self.retry_at = now + self._pause",
)
"""Each takes half a minute. CI has other mutants of what they are about."""
MUTANTS = [pytest.param(it, marks=[pytest.mark.deep] if it in SLOW else []) for it in CAUGHT]


def test_each_line_names_a_mutant() -> None:
    gone = [mutant for mutant in (*CAUGHT, *SURVIVORS) if named(mutant) is None]
    assert not gone, "the code has changed: run `python -m tests.model.mutate --record`"


def test_each_mutant_by_hand_has_a_line() -> None:
    assert not edits().keys() - CAUGHT.keys()


def test_the_page_has_the_number_of_mutants() -> None:
    page = Path(__file__).parents[2] / "docs" / "verification.md"
    assert f"| `tests/model/test_mutants.py` | {len(CAUGHT)} of some " in page.read_text()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MUTANTS, ids=str)
def test_a_mutant_is_caught(name: str) -> None:
    mutant, judge = named(name), judges()[CAUGHT[name]]
    assert mutant is not None
    assert is_noticed(mutant, judge), f"{mutant} survives {judge.name!r}"


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(set(CAUGHT.values())))
def test_a_judge_notices_nothing_wrong_in_the_shipped_machines(name: str) -> None:
    """Otherwise it would notice every mutant."""
    for exits in (nullcontext(), cut()):
        with exits:
            assert notices(judges()[name]) is None

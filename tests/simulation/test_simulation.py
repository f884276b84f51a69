"""Whole programs in virtual time go well, replay exactly, and find what is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farref.protocol.alias import Aliases
from farref.protocol.borrowing import BorrowingUser
from farref.protocol.delivery import Channel
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.lending import LendingUser
from farref.protocol.names import Names
from farref.protocol.owner import Owner
from farref.protocol.sharing import DISCIPLINES
from farref.protocol.user import User
from farref.simulation import Act, WrongError, draw, shrink, simulate
from farref.simulation.node import Turn
from farref.simulation.oracle import Oracle
from farref.simulation.plan import PROGRAM, WEATHERS
from farref.trace import read

SEEDS = 500
"""For each weather; `make simulate` takes thousands."""
LONG_SEEDS = 15
LONG = 1000
"""Acts of a long program."""


@pytest.mark.parametrize("weather", WEATHERS)
def test_programs_go_well(weather: Any) -> None:
    done: Counter[str] = Counter()
    disciplines = set()
    for seed in range(SEEDS):
        plan = draw(seed, weather=weather)
        outcome = simulate(plan)
        assert outcome.wrong is None, f"farref demo chaos --seed {seed} --weather {weather}"
        done += outcome.done
        disciplines.add(plan.sharing)
    assert disciplines == DISCIPLINES.keys()
    expected = {
        "calm": set[str](),
        "crashes": {"crash"},
        "cuts": {"cut", "partition", "nap"},
        "storm": {"crash", "cut", "partition", "nap", "freeze"},
    }[weather]
    assert done.keys() == {*PROGRAM, *expected, "packets lost", "packets repeated"}


@pytest.mark.parametrize("weather", WEATHERS)
def test_long_programs_go_well(weather: Any) -> None:
    """What has lived for long finds mistakes that short programs do not."""
    for seed in range(LONG_SEEDS):
        outcome = simulate(draw(seed, LONG, weather=weather))
        assert outcome.wrong is None, f"seed {seed} of {LONG} acts, weather {weather}"


def test_a_plan_takes_the_same_course_every_time() -> None:
    told = set()
    for hashes in ("1", "2"):
        command = [sys.executable, "-c", COURSE]
        env = {**os.environ, "PYTHONHASHSEED": hashes}
        told.add(subprocess.run(command, env=env, check=True, capture_output=True).stdout)
    assert len(told) == 1
    assert told.pop()


COURSE = """
import hashlib, tempfile, pathlib
from farref.simulation import draw, simulate
for seed in range(20):
    with tempfile.TemporaryDirectory() as folder:
        outcome = simulate(draw(seed), pathlib.Path(folder))
        steps = b"".join(each.read_bytes() for each in sorted(pathlib.Path(folder).iterdir()))
    print(outcome.seconds, sorted(outcome.done.items()), hashlib.sha256(steps).hexdigest())
"""


def test_a_course_is_recorded_as_actors_record_theirs(tmp_path: Path) -> None:
    outcome = simulate(draw(7, weather="storm"), tmp_path)
    assert outcome.wrong is None
    story = read(tmp_path)
    assert story.records
    assert story.problems == ()


# ---- machines that are not right


def _unpinned(user: User, fork: Any, to: WorkerId) -> None:
    """A parent that does not wait for its child (against G2)."""


def _deaf(owner: Owner, worker: WorkerId) -> list[Any]:
    """An owner that never releases what the dead held."""
    return owner.settle()


def _alone(user: LendingUser, worker: WorkerId, mint: Any) -> list[Any]:
    """A borrower that does not ask when its lender dies."""
    return []


def _hasty(names: Names, rref: RRefId, send: Any, *, first: bool = False) -> list[Any]:
    """A caller that does not hold what it asks after what it asked of the alias."""
    return [send]


def _forgetful(aliases: Aliases, alias: Any) -> list[Any]:
    """An alias that does not let go of its target."""
    alias.gone = True
    return []


def _twice(channel: Channel, packet: Any, now: float) -> list[Any]:
    """A receiver that hands over whatever comes."""
    return list(packet.messages)


def _blind(aliases: Aliases, owner: Owner) -> list[Any]:
    """A target that never tells what it is."""
    return []


def _mine(user: BorrowingUser) -> tuple[Any, ...]:
    """A borrower that keeps its table to itself."""
    return ()


BROKEN: list[tuple[Any, str, Callable[..., Any]]] = [
    (User, "fork", _unpinned),
    (Owner, "forget", _deaf),
    (LendingUser, "died", _alone),
    (Names, "_dispatch", _hasty),
    (Aliases, "_let_go", _forgetful),
    (Aliases, "_answer_asking", _blind),
    (Channel, "receive", _twice),
    (BorrowingUser, "_take_table", _mine),
]


@pytest.mark.parametrize(
    ("machine", "method", "wrong"),
    BROKEN,
    ids=[f"{m.__name__}.{n}" for m, n, _ in BROKEN],
)
def test_a_broken_machine_is_found_and_the_plan_shrinks(
    monkeypatch: pytest.MonkeyPatch, machine: Any, method: str, wrong: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(machine, method, wrong)
        found = next(plan for plan in map(draw, range(3000)) if simulate(plan).wrong is not None)
        least = shrink(found)
        assert len(least.acts) < len(found.acts) / 2
        assert simulate(least).wrong is not None
        assert simulate(least).kind == simulate(found).kind  # the same guarantee
    assert simulate(least).wrong is None
    assert shrink(found) == found


# ---- the oracle


A, B = WorkerId("A", 1), WorkerId("B", 1)
X, Y = RRefId(A, 1), RRefId(B, 1)


def test_the_oracle_knows_values_through_aliases() -> None:
    oracle = Oracle(strict=True)
    oracle.made(X, A)
    oracle.made(Y, B)
    oracle.aliased(X, Y)
    oracle.answered(X, Y)
    for wrong in (X, None):
        with pytest.raises(WrongError, match="value: "):
            oracle.answered(X, wrong)


def test_the_oracle_wants_a_death_for_every_failure() -> None:
    oracle = Oracle(strict=True)
    oracle.made(X, A)
    oracle.made(Y, B)
    oracle.aliased(X, Y)
    with pytest.raises(WrongError, match="nobody's death"):
        oracle.failed(X, None, "OWNER")
    oracle.dead.add(B)
    oracle.failed(X, None, "OWNER")
    with pytest.raises(WrongError, match="nobody's death"):
        oracle.failed(None, A, "Fail")


def test_the_oracle_sees_who_overtakes() -> None:
    oracle = Oracle(strict=True)
    oracle.ran(Turn(A, X, 1))
    oracle.ran(Turn(A, X, 3))  # 2 may never come: it was cancelled
    with pytest.raises(WrongError, match="G3"):
        oracle.ran(Turn(A, X, 2))


# ---- plans


def test_plans_are_drawn_from_their_seed() -> None:
    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert draw(3, 10, sharing="borrow", weather="storm").sharing == "borrow"
    assert len(draw(3, 10).acts) == 10
    assert str(Act(1.5, "lend", 0, 1, 7)) == "  1.50 s  A lend B (7)"


def test_acts_may_be_left_out_of_a_plan() -> None:
    plan = draw(11, weather="crashes")
    for size in range(0, len(plan.acts), 7):
        assert simulate(replace(plan, acts=plan.acts[size:])).wrong is None
        assert simulate(replace(plan, acts=plan.acts[: size + 1])).wrong is None

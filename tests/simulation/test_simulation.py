"""Whole programs in virtual time go well, replay exactly, and find faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.owner import Owner
from farref.protocol.references import References
from farref.protocol.sharing import DISCIPLINES
from farref.trace import read

from ..model.mutation import Mutant, edit, read_edits
from . import Act, Outcome, Plan, WrongError, draw, simulate
from .jobs import Error, PendingRequest, Turn
from .oracle import Oracle
from .plan import PROGRAM, RINGS, WEATHERS
from .shrink import shrink

ROOT = Path(__file__).parents[2]
SEEDS = 50
"""For each discipline and weather; `make simulate` takes thousands."""
LONG = ((0, 1000), (1, 1000), (2, 2000))
"""Seeds and acts of the long programs, in each weather; and then"""
LONGEST = (3, 5000)
"""one more, in which processes die."""


@pytest.mark.parametrize("sharing", DISCIPLINES)
@pytest.mark.parametrize("weather", WEATHERS)
def test_programs_go_well(weather: Any, sharing: Any) -> None:
    done: Counter[str] = Counter()
    for seed in range(SEEDS):
        plan = f"draw({seed}, weather={weather!r}, sharing={sharing!r})"
        outcome = simulate(draw(seed, weather=weather, sharing=sharing))
        assert outcome.wrong is None, f"simulate({plan}, Path('a folder')) writes a trace of it"
        done += outcome.done
    deadly = {"lost: OWNER"}
    expected = {
        "calm": set[str](),
        "crashes": {"crash", *deadly},
        "cuts": {"cut", "partition", "nap"},
        "storm": {"crash", "cut", "partition", "nap", "freeze", *deadly},
    }[weather]
    always = {"packets lost", "packets repeated"}
    always |= {"lost: CYCLE", "refused: SELF_WAIT", "refused: RING", "refused: CANCELLED"}
    always |= {*RINGS, "garbage"}
    rare = {"timeout"} | ({"lost: CREATOR", "refused: LOST"} if "crash" in expected else set())
    assert done.keys() - rare == {*PROGRAM, *expected, *always}


@pytest.mark.parametrize(
    ("weather", "seed", "acts"),
    [(weather, *long) for weather in WEATHERS for long in LONG] + [("crashes", *LONGEST)],
)
def test_long_programs_go_well(weather: Any, seed: int, acts: int) -> None:
    """Long programs find mistakes that only show after a long life."""
    assert simulate(draw(seed, acts, weather=weather)).wrong is None


FORGETS = edit("forgets the name that it knows", References.lend_on, "b.name or a.name", "b.name")

FAULTS = Path(__file__).parent
FOUND = list(read_edits(FAULTS / "found.txt"))


@pytest.mark.parametrize(
    ("mutant", "drawn"),
    [
        pytest.param(mutant, drawn, marks=pytest.mark.slow if drawn.endswith("slow") else ())
        for mutant, drawn in FOUND
    ],
    ids=str,
)
def test_a_plan_shows_the_fault_that_the_simulation_found(mutant: Mutant, drawn: str) -> None:
    seed, acts, weather, sharing, *more = drawn.split()
    kind: Any = {"weather": weather, "sharing": sharing, "rings": "rings" in more}
    plan = draw(int(seed), int(acts), **kind)
    with FORGETS.applied() if "forgetful" in more else nullcontext():
        assert simulate(plan).wrong is None
        with mutant.applied():
            assert simulate(plan).wrong is not None


def test_a_plan_takes_the_same_course_every_time() -> None:
    told = set()
    for hashes in ("1", "2"):
        command = [sys.executable, "-c", COURSE]
        env = {**os.environ, "PYTHONHASHSEED": hashes}
        told.add(subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True).stdout)
    assert len(told) == 1
    assert told.pop()


COURSE = """
import hashlib, tempfile, pathlib
from tests.simulation import draw, simulate
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

BROKEN = list(read_edits(FAULTS / "broken.txt"))


@pytest.mark.parametrize(("mutant", "first"), BROKEN, ids=str)
def test_a_broken_machine_is_found_and_the_plan_shrinks(mutant: Mutant, first: str) -> None:
    with mutant.applied():
        found = next(
            plan for plan in map(draw, range(int(first), 3000)) if simulate(plan).wrong is not None
        )
        least = shrink(found)
        assert len(least.acts) < len(found.acts) / 2
        assert simulate(least).wrong is not None
        assert simulate(least).kind == simulate(found).kind  # the same guarantee
    assert simulate(least).wrong is None
    assert shrink(found) == found


def test_a_long_plan_shrinks_in_bounded_time() -> None:
    """However much of the plan the fault needs: this one shows only at the end."""
    played = 0

    def counting(plan: Plan) -> Outcome:
        nonlocal played
        played += len(plan.acts)
        return simulate(plan)

    found = draw(1, 2000, weather="crashes")
    with next(mutant for mutant, _ in BROKEN if "Entries.let_go" in str(mutant)).applied():
        least = shrink(found, most=12_000, play=counting)
        assert len(least.acts) < len(found.acts) / 20
        assert simulate(least).kind == simulate(found).kind == "G5"
    assert played <= 12_000 + 2 * len(found.acts)  # the first try, and the one that was begun


def test_a_method_that_gets_a_value_of_its_own_object_is_found() -> None:
    """The fetch would wait for itself, and begins beside the method."""
    mutant = edit(
        "begins a fetch that would wait for itself",
        Owner.enqueue,
        "[Refuse(sender, request, Refusal.SELF_WAIT)]",
        "[Refuse(sender, request, Refusal.SELF_WAIT)]"
        " if not self.resolved or not hasattr(request, 'copy')"
        " else self._step_aside(request.call) or [Run(sender, request)]",
    )
    with mutant.applied():
        wrong = simulate(draw(38)).wrong
    assert wrong is not None
    assert "waited for itself" in wrong
    assert simulate(draw(38)).wrong is None


# ---- machines that lose more than a death takes from them: even a storm is no excuse

LOSING = [mutant for mutant, _ in read_edits(FAULTS / "losing.txt")]


@pytest.mark.parametrize("mutant", LOSING, ids=str)
def test_another_ones_death_excuses_nothing(mutant: Mutant) -> None:
    with mutant.applied():
        found = next(o for seed in range(300) if (o := simulate(draw(seed, weather="storm"))).wrong)
    assert found.kind in {"G4", "G6"}, found.wrong
    assert simulate(found.plan).wrong is None


# ---- the oracle


A, B = WorkerId("A", 1), WorkerId("B", 1)
X, Y, Z = RRefId(A, 1), RRefId(B, 1), RRefId(B, 2)


def oracle_of_aliases() -> Oracle:
    """X, owned by A, stands for Y, owned by B; Z has nothing to do with them."""
    oracle = Oracle()
    oracle.made(X, A)
    oracle.made(Y, B)
    oracle.made(Z, B)
    oracle.aliased(X, Y)
    return oracle


def test_the_oracle_knows_values_through_aliases() -> None:
    oracle = oracle_of_aliases()
    oracle.answered(PendingRequest(A, X), Y)
    for wrong in (X, None):
        with pytest.raises(WrongError, match="value: "):
            oracle.answered(PendingRequest(A, X), wrong)
    oracle.aliased(Y, X)
    with pytest.raises(WrongError, match="value: "):  # a circle has none
        oracle.answered(PendingRequest(A, X), Y)


def test_the_oracle_wants_the_death_that_explains_a_failure() -> None:
    oracle = oracle_of_aliases()
    with pytest.raises(WrongError, match="does not explain it"):
        oracle.failed(PendingRequest(A, X), B)
    oracle.dead.add(B)
    oracle.failed(PendingRequest(A, X), B)
    with pytest.raises(WrongError, match="does not explain it"):
        oracle.failed(PendingRequest(A), B)
    with pytest.raises(WrongError, match="does not explain it"):
        oracle.failed(PendingRequest(A, X), A)


def test_the_oracle_knows_where_an_error_comes_from() -> None:
    oracle = oracle_of_aliases()
    oracle.got(PendingRequest(A, X), Error("OWNER", Y))
    with pytest.raises(WrongError, match="got the error of"):
        oracle.got(PendingRequest(A, X), Error("OWNER", Z))
    with pytest.raises(WrongError, match="nobody asked for that"):
        oracle.got(PendingRequest(A, X), Error("CANCELLED"))
    oracle.accepted(Y)
    with pytest.raises(WrongError, match="came too late"):
        oracle.got(PendingRequest(A, X), Error("CREATOR", Y))


def test_the_oracle_sees_who_overtakes() -> None:
    oracle = Oracle()
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

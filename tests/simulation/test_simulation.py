"""Whole programs in virtual time go well, replay exactly, and find faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farref.actors.calls.queues import Queues
from farref.protocol.aliases import Aliases
from farref.protocol.borrowing import BorrowingUser
from farref.protocol.cycles import CycleCollector
from farref.protocol.deadlocks import DeadlockDetector
from farref.protocol.death import Death
from farref.protocol.delivery import Channel
from farref.protocol.effects import Looked, Refusal
from farref.protocol.entries import Entries
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.lending import LendingUser
from farref.protocol.messages import Probe
from farref.protocol.names import Names
from farref.protocol.owner import Owner
from farref.protocol.references import References
from farref.protocol.requests import Requests
from farref.protocol.search import Search
from farref.protocol.sharing import DISCIPLINES
from farref.protocol.user import User
from farref.trace import read

from ..model.mutation import Mutant, edit
from . import Act, Outcome, Plan, WrongError, draw, simulate
from . import shrink as shrinking
from .jobs import Error, PendingRequest, Turn
from .oracle import Oracle
from .plan import PROGRAM, RINGS, WEATHERS
from .rings import WaitGraph
from .shrink import shrink
from .world import SimulatedWorld

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

FOUND = [
    # A probe came to a request that was held back behind a fetch. The handle of both had turned out
    # to be an alias, so it had no entry of its own.
    (
        edit(
            "an alias has an entry of its own",
            DeadlockDetector._in_front,
            "entry.pending if entry is not None else ()",
            "entry.pending",
        ),
        (455, 60, "calm", "borrow", False),
    ),
    # A method waited for an object. Its creation was held back behind a fetch, and the fetch waited
    # for the method.
    (
        edit(
            "does not ask for a creation that has not come",
            DeadlockDetector._ask_creator,
            "owner.located",
            "True",
        ),
        (310, 1000, "calm", "borrow", False),
    ),
    # A request was held back behind a creation on an alias, whose owner held the creation back
    # behind a fetch of its own.
    (
        edit(
            "does not see a creation in front",
            DeadlockDetector._in_front,
            "each in state.asking",
            "each not in state.waiting",
        ),
        (300799, 4000, "storm", "borrow", True),
    ),
    # A method waited for an object that a method of an alias was to make, and the alias waited for
    # the first method: nobody suspected the queue of that object.
    (
        edit(
            "suspects the queue of an alias, and not of an object that waits for one",
            Queues._is_suspect,
            "blocker in self._context.state.asking",
            "owner.alias is not None",
        ),
        (108151, 60, "cuts", "fork", True),
    ),
    # An alias's owner had asked what the target was, and learned it by another message. Then the
    # target's owner died before it answered.
    (
        edit(
            "knows the answer of another only if an entry of the target is left",
            Aliases.died,
            "alias.canonical is None and (not alias.asked)",
            "is_lost(target)",
        ),
        (770, 1000, "crashes", "fork", True),
    ),
    # The packets with one message were lost for half a minute, so that no probe went on.
    (
        edit("does not see a late message", WaitGraph.look, "self._late()", "False"),
        (207354, 60, "calm", "borrow", True),
    ),
    # The packets with a probe were lost for 15 s. When the ring had a victim at last, the check
    # came before the refusal.
    (
        edit(
            "forgets a late message", SimulatedWorld.handed_over, "self.rings.disturbed(self.now)"
        ),
        (206849, 1000, "cuts", "lend", True),
    ),
    # An endpoint called an object under the name of an alias, and dropped the alias before the
    # answer. The alias came back from an endpoint that did not know the object, and the next call
    # went by way of the alias's owner.
    (
        edit(
            "forgets the name of a call on its way",
            Names.dispatch,
            "self._name(rref, send.message)",
        ),
        (307949, 3000, "calm", "lend", True),
    ),
    # An alias's owner had passed a method's call on, and died. So the method ended. The call ran
    # much later, with the old chain, and called the object of the method, which was free.
    (
        edit(
            "takes a chain for a wait",
            WaitGraph.answered,
            "asked.on in {target_of(task.request), getattr(task.request, 'rref', None)}",
            "True",
        ),
        (309149, 3000, "crashes", "fork", True),
    ),
]
"""Faults that the simulation has found: each as a mutant, and a plan that shows it."""


OF_OLD = {300799, 770, 307949, 309149}
"""The seeds of plans that were found while `FORGETS` was a fault, too. Without it such a plan takes
another course, on which its own fault does not show."""


SLOW = 307949
"""The seed of a plan that takes half a minute: for `make soak`."""


@pytest.mark.parametrize(
    ("mutant", "drawn"),
    [pytest.param(*each, marks=pytest.mark.slow if each[1][0] == SLOW else ()) for each in FOUND],
    ids=str,
)
def test_a_plan_shows_the_fault_that_the_simulation_found(mutant: Mutant, drawn: Any) -> None:
    seed, acts, weather, sharing, rings = drawn
    plan = draw(seed, acts, weather=weather, sharing=sharing, rings=rings)
    with FORGETS.applied() if seed in OF_OLD else nullcontext():
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


def _forgetful(entries: Entries, alias: Any) -> list[Any]:
    """An alias that does not let go of its target."""
    alias.gone = True
    return []


def _sure(search: Search) -> list[Any]:
    """A search that does not look a second time."""
    search.again = True
    return []


def _rash(
    rings: DeadlockDetector, owner: Owner, sender: WorkerId, call: CallId, probe: Probe
) -> list[Any]:
    """An owner that refuses the request in the queue that a probe reaches, ring or not."""
    return rings.entries.after(owner, owner.cancel(sender, call, Refusal.RING, probe.path))


BROKEN: list[tuple[Any, str, Callable[..., Any], int]] = [
    # A parent that does not wait for its child (against G2).
    (User, "fork", lambda user, fork, to: None, 0),
    # An owner that never releases the holds of the dead.
    (Owner, "forget", lambda owner, worker: owner.end_if_unused(), 0),
    # A borrower that does not ask when its lender dies.
    (LendingUser, "died", lambda user, worker, mint: [], 128),
    # A caller that does not hold a request behind its earlier ones on the alias.
    (Names, "dispatch", lambda names, rref, send, *, first=False: [send], 25),
    (Entries, "let_go", _forgetful, 0),
    # A target that never tells its own target or value.
    (Aliases, "answer_asking", lambda aliases, owner: [], 12),
    # A receiver that hands every message over, however often it comes.
    (Channel, "receive", lambda channel, packet, now, full: list(packet.messages), 0),
    # A borrower that keeps its table to itself.
    (BorrowingUser, "_take_table", lambda user: (), 0),
    # An endpoint that settles deaths before it is counted.
    (Death, "uncounted", lambda death: frozenset(), 81),
    # An endpoint that looks for no rings.
    (DeadlockDetector, "suspect", lambda rings, rref: [], 0),
    (DeadlockDetector, "_came_round", _rash, 0),
    (Search, "begin_again", _sure, 24),
    # An endpoint that never searches.
    (
        CycleCollector,
        "suspect",
        lambda cycles, rrefs, *, cuts: [Looked(rref) for rref in rrefs[:1]],
        0,
    ),
]
"""A machine, its broken method, and the seed from which to look for a plan that goes wrong."""


@pytest.mark.parametrize(
    ("machine", "method", "wrong", "first"),
    BROKEN,
    ids=[f"{m.__name__}.{n}" for m, n, _, _ in BROKEN],
)
def test_a_broken_machine_is_found_and_the_plan_shrinks(
    monkeypatch: pytest.MonkeyPatch, machine: Any, method: str, wrong: Any, first: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(machine, method, wrong)
        found = next(
            plan for plan in map(draw, range(first, 3000)) if simulate(plan).wrong is not None
        )
        assert simulate(found).kind != "TypeError"  # of *wrong*, which has other arguments
        least = shrink(found)
        assert len(least.acts) < len(found.acts) / 2
        assert simulate(least).wrong is not None
        assert simulate(least).kind == simulate(found).kind  # the same guarantee
    assert simulate(least).wrong is None
    assert shrink(found) == found


def test_a_long_plan_shrinks_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of the plan the fault needs: this one shows only at the end."""
    played = 0

    def counting(plan: Plan) -> Outcome:
        nonlocal played
        played += len(plan.acts)
        return simulate(plan)

    monkeypatch.setattr(Entries, "let_go", _forgetful)
    monkeypatch.setattr(shrinking, "simulate", counting)
    found = draw(1, 2000, weather="crashes")
    monkeypatch.setattr(shrinking, "MOST", 12_000)
    least = shrink(found)
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

LOSING = [
    edit("a death breaks all aliases", Aliases.died, "is_lost(known)", "True"),
    edit(
        "breaks what it knows with the hop",
        Aliases.died,
        "is_lost(known)",
        "is_lost(known) or worker == alias.rref.creator",
    ),
    edit(
        "after a death nothing is passed on",
        Aliases._has_lost,
        "any(map(self.entries.is_lost, rrefs))",
        "bool(self.state.dead and cargo.descriptors)",
    ),
    edit(
        "after a death nothing becomes an alias",
        Aliases.stand_for,
        "self.entries.is_lost(target)",
        "self.state.dead",
    ),
    edit(
        "after a death no alias finds its target",
        Aliases._found,
        "self.entries.is_lost(canonical)",
        "self.state.dead",
    ),
    edit(
        "after a death nothing is asked again",
        Requests._fetch_there,
        "entry.lost",
        "self.state.dead",
    ),
]


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

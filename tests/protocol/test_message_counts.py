"""The cost of sharing: the control messages of every scenario in every discipline.

They are counted on the machines that run in actors (see `counting`), so the numbers are exact. The
table in ``docs/sharing.md`` is made from them: ``pytest tests/protocol/test_message_counts.py
--rewrite`` writes it, and a stale table fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from farref.protocol.ids import RRefId
from farref.protocol.sharing import DISCIPLINES, Sharing

from .counting import Task, World, random_program

PAGE = Path(__file__).parents[2] / "docs" / "sharing.md"
ORDER: tuple[Sharing, ...] = ("lend", "borrow", "fork")
SHORT = {
    "ForkRequest": "request",
    "Ack": "ACK",
    "ChildAck": "child ACK",
    "Returned": "returned",
    "NotifyRefRemoved": "notify",
    "RefRemoved": "removed",
    "Delete": "delete",
}
MANY = 100
"""The references that the name *xs* stands for."""
NOT_KEPT = "Lent for a call, and not kept"
PROGRAMS = """
Lent for a call, and not kept
  by the owner
    own A x; call A C x; end 1; drop A x
  by a user
    given B x; call A C x; end 1
  by the owner, and the borrower lends it on
    own A x; call A C x; call C D x; end 2; end 1; drop A x
  by a user, and the borrower lends it on
    given B x; call A C x; call C D x; end 2; end 1
  by a user to the owner
    given B x; call A B x; end 1
  by a user, and the borrower lends it to the lender
    given B x; call A C x; call C A x; end 2; end 1
  by a user, and lent on to a borrower that lends it to itself
    given B x; call A C x; call C D x; call D D x; end 3; end 2; end 1
  by a user, in two calls at once
    given B x; call A C x; call A C x; end 1; end 2
  by a user, to a method of another object
    given B x; given C y; method A y x; end 1
  by the owner, 100 references in one call
    own A xs; call A C xs; end 1; drop A xs
  by a user, 100 references in one call
    given B xs; call A C xs; end 1

Kept after the call, and dropped later
  lent by the owner
    own A x; call A C x; keep 1 x; end 1; drop A x; drop C x
  lent by a user
    given B x; call A C x; keep 1 x; end 1; drop C x
  by the second borrower; lent by the owner, and lent on
    own A x; call A C x; call C D x; keep 2 x; end 2; end 1; drop A x; drop D x
  by the second borrower; lent by a user, and lent on
    given B x; call A C x; call C D x; keep 2 x; end 2; end 1; drop D x
  by both borrowers; lent by a user, and lent on
    given B x; call A C x; call C D x; keep 1 x; keep 2 x; end 2; end 1; drop C x; drop D x
  by D, until its call ends; lent by the owner to C, by C to D, and C's call ends first
    own A x; call A C x; call C D x; end 1; drop A x; end 2
  by D, until its call ends; lent by a user to C, by C to D, and C's call ends first
    given B x; call A C x; call C D x; end 1; end 2
  by D, until its first call ends; lent by a user to C, by C to D, by D to E, by E to D again
    given B x; call A C x; call C D x; call D E x; call E D x; end 4; end 3; end 2; end 1
  by the owner; lent by a user
    given B x; call A B x; keep 1 x; end 1; drop B x
  by the lender; lent by a user, and lent to it by the borrower
    given B x; call A C x; call C A x; keep 2 x; end 2; end 1; drop A x
  lent by a user in two calls at once
    given B x; call A C x; call A C x; keep 1 x; keep 2 x; end 1; end 2; drop C x x
  lent by the owner in two calls at once
    own A x; call A C x; call A C x; keep 1 x; keep 2 x; end 1; end 2; drop A x; drop C x x
  lent by a user in two calls, one after the other
    given B x; call A C x; keep 1 x; end 1; call A C x; keep 2 x; end 2; drop C x x
  lent by a user to a method of another object
    given B x; given C y; method A y x; keep 1 x; end 1; drop C x
  100 references in one call, lent by the owner
    own A xs; call A C xs; keep 1 xs; end 1; drop A xs; drop C xs
  100 references in one call, lent by a user
    given B xs; call A C xs; keep 1 xs; end 1; drop C xs

Lent to `remote()`, which has no reply
  by the owner, and not kept
    own A x; remote A C y x; end 1; drop A x y
  by a user, and not kept
    given B x; remote A C y x; end 1; drop A y
  by a user, 100 references, and none kept
    given B xs; remote A C y xs; end 1; drop A y
  by the owner, and kept in the result
    own A x; remote A C y x; end 1 x; drop A x y
  by a user, and kept in the result
    given B x; remote A C y x; end 1 x; drop A y

Given on, or back
  lent by the owner, and sent on in a one-way message
    own A x; call A C x; tell C D x; end 2; end 1; drop A x
  lent by a user, and sent on in a one-way message
    given B x; call A C x; tell C D x; end 2; end 1
  lent by the owner, and returned
    own A x; call A C x; end 1 x; drop A x result
  lent by a user, and returned
    given B x; call A C x; end 1 x; drop A result
  lent by a user, lent on, returned and returned
    given B x; call A C x; call C D x; end 2 x; drop C result; end 1 x; drop A result
  returned by the owner: a new object
    call A C; own C x; end 1 x; drop A result

Whole programs, with the creation and the end of the object
  remote references, 1: return value
    made A B x; fetch A x; drop A x
  remote references, 2: user to owner
    made A B x; call A B x; end 1; drop A x
  remote references, 3: owner to user
    own B x; call B C x; drop B x; fetch C x; end 1
  remote references, 4: user to user
    made A B x; call A C x; fetch C x; end 1; drop A x
  borrowing, 1: forwarding what one owns
    own F x; call F G x; drop F x; call G H x; end 1; end 2
  borrowing, 2: returning a reference
    call F G; own G x; end 1 x; own F outer result; call F H x; end 2; drop F outer
"""
"""Groups, titles and steps. A has requested the *given* objects before, and drops them at the end;
the cost of these, and of objects that it requests by *remote*, without sharing is not counted. A
number is that of a call, method, creation or message: *keep* outlives it, *end* may return some."""


@dataclass(frozen=True)
class Scenario:
    group: str
    title: str
    steps: tuple[str, ...]

    def play(self, world: World) -> None:
        names: dict[str, list[RRefId]] = {}
        tasks: list[Task] = []

        def of(words: list[str]) -> list[RRefId]:
            return [rref for word in words for rref in names[word]]

        for step in self.steps:
            match step.split():
                case "given", owner, name:
                    names[name] = [world.made("A", owner) for _ in range(number_of(name))]
                case "own", at, name, *inside:
                    names[name] = [world.own(at, *of(inside)) for _ in range(number_of(name))]
                case "made", at, to, name:
                    names[name] = [world.made(at, to)]
                case "remote", at, to, name, *lent:
                    names[name] = [world.remote(at, to, *of(lent))]
                    tasks.append(world.running(to))
                case "call", at, to, *lent:
                    tasks.append(world.call(at, to, *of(lent)))
                case "tell", at, to, *given:
                    tasks.append(world.tell(at, to, *of(given)))
                case "method", at, on, *lent:
                    tasks.append(world.method(at, *names[on], *of(lent)))
                case "fetch", at, name:
                    world.fetch(at, *names[name])
                case "keep", number, *kept:
                    tasks[int(number) - 1].keep(*of(kept))
                case "end", number, *returned:
                    task = tasks[int(number) - 1]
                    task.handles += [each for each in of(returned) if each not in task.handles]
                    task.end(*of(returned))
                    names["result"] = world.results
                case "drop", at, *dropped:
                    world.drop(at, *of(dropped))
                case _:
                    raise AssertionError(f"no such step: {step}")
        given = [step.split()[2] for step in self.steps if step.startswith("given")]
        if given:
            world.drop("A", *of(given))
        assert world.left() == []

    def without_sharing(self, world: World) -> None:
        """A requests and drops the objects whose cost is not counted."""
        made: list[RRefId] = []
        for what, *words in map(str.split, self.steps):
            if what == "given":
                made += [world.made("A", words[0]) for _ in range(number_of(words[1]))]
            elif what == "remote":
                made.append(world.made("A", words[1]))
        if made:
            world.drop("A", *made)


def number_of(name: str) -> int:
    return MANY if name == "xs" else 1


def scenarios() -> Iterator[Scenario]:
    group = title = ""
    for line in PROGRAMS.splitlines():
        if line.startswith("    "):
            yield Scenario(group, title, tuple(line.strip().split("; ")))
        elif line.startswith("  "):
            title = line.strip()
        elif line:
            group = line


SCENARIOS = list(scenarios())


def control(scenario: Scenario, sharing: Sharing) -> Counter[str]:
    """The messages of *scenario* in *sharing*, by kind; nothing is left behind."""
    world, bare = World(sharing), World(sharing)
    scenario.play(world)
    scenario.without_sharing(bare)
    cost = Counter(world.control)
    cost.subtract(bare.control)
    assert min(cost.values(), default=0) >= 0
    return +cost


def each_scenario(function: Callable[..., None]) -> Callable[..., None]:
    ids = [f"{each.group.partition(' ')[0]}: {each.title}" for each in SCENARIOS]
    mark = pytest.mark.parametrize("scenario", SCENARIOS, ids=ids)
    marked: Callable[..., None] = mark(function)
    return marked


@each_scenario
def test_lending_never_costs_more_than_forking(scenario: Scenario) -> None:
    assert control(scenario, "lend").total() <= control(scenario, "fork").total()


@each_scenario
def test_a_loan_that_is_not_kept_costs_nothing(scenario: Scenario) -> None:
    if scenario.group == NOT_KEPT:
        assert control(scenario, "lend") == Counter()


@each_scenario
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_each_discipline_uses_its_own_messages(scenario: Scenario, sharing: Sharing) -> None:
    borrowing = {"NotifyRefRemoved", "RefRemoved"}
    used = set(control(scenario, sharing))
    if sharing == "borrow":
        assert "Delete" not in used
    else:
        assert not used & borrowing
    if sharing == "fork":
        assert "Returned" not in used


@pytest.mark.parametrize("sharing", ["lend", "borrow"])
def test_the_notes_examples_cost_at_most_two(sharing: Sharing) -> None:
    examples = [each for each in SCENARIOS if each.title.startswith("borrowing, ")]
    assert [control(each, sharing).total() <= 2 for each in examples] == [True, True]


# ---- any program


@pytest.mark.parametrize("begin", range(0, 400, 100))
def test_no_random_program_costs_more_by_lending_than_by_forking(begin: int) -> None:
    for seed in range(begin, begin + 100):
        lend, fork = (random_program(World(how), seed).control for how in ("lend", "fork"))
        assert lend.total() <= fork.total(), f"seed {seed}: {lend} by lending, {fork} by forking"


# ---- the page


def cell(cost: Counter[str]) -> str:
    """``4: request, ACK, child ACK, delete``."""
    kinds = (
        f"{cost[kind]} {word}" if 1 < cost[kind] < cost.total() else word
        for kind, word in SHORT.items()
        if cost[kind]
    )
    return f"**{cost.total():,}** {', '.join(kinds)}".strip()


def table() -> str:
    """All scenarios, one table for each group."""
    lines: list[str] = []
    for group in dict.fromkeys(each.group for each in SCENARIOS):
        lines += ["", f"| {group} | {' | '.join(ORDER)} |", "|---|---|---|---|"]
        for each in SCENARIOS:
            if each.group == group:
                costs = (cell(control(each, sharing)) for sharing in ORDER)
                lines.append(f"| {each.title} | {' | '.join(costs)} |")
    return "\n".join([*lines, ""])


def test_the_table_on_the_page_is_this_one(*, rewrite: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- counted -->\n", "\n<!-- end of counted -->"
    before, _, rest = text.partition(begin)
    shown, _, after = rest.partition(end)
    if rewrite:
        PAGE.write_text(before + begin + table() + end + after, encoding="utf-8")
    else:
        assert shown == table(), (
            "it is stale: pytest tests/protocol/test_message_counts.py --rewrite"
        )

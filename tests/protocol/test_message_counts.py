"""The cost of sharing: the control messages of every scenario in every discipline.

They are counted on the machines that run in actors (see `counting`), so the numbers are exact. The
table in ``docs/sharing.md`` is made from them: ``pytest tests/protocol/test_message_counts.py
--rewrite`` writes it, and a stale table fails.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from farref.protocol.sharing import DISCIPLINES

from .counting import World, random_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.protocol.ids import RRefId
    from farref.protocol.sharing import Sharing

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

NOT_KEPT = "Lent for a call, and not kept"
CREATING = "Lent to `remote()`, which has no reply"
KEPT = "Kept after the call, and dropped later"
GIVEN_ON = "Given on, or back"
WHOLE = "Whole programs, with the creation and the end of the object"


@dataclass(frozen=True)
class Scenario:
    """A program.

    *given* names the owners of the objects that A requested before; A drops them at the end. *also*
    names the owners of objects that A requests and drops within the program. The cost of these
    objects without sharing is not counted.
    """

    group: str
    title: str
    play: Callable[..., None]
    given: str
    also: str


SCENARIOS: list[Scenario] = []


def scenario(
    group: str, title: str, *, given: str = "", also: str = ""
) -> Callable[[Callable[..., None]], None]:
    def add(play: Callable[..., None]) -> None:
        SCENARIOS.append(Scenario(group, title, play, given, also))

    return add


# ---- not kept


@scenario(NOT_KEPT, "by the owner")
def _(w: World) -> None:
    x = w.own("A")
    w.call("A", "C", x).end()
    w.drop("A", x)


@scenario(NOT_KEPT, "by a user", given="B")
def _(w: World, x: RRefId) -> None:
    w.call("A", "C", x).end()


@scenario(NOT_KEPT, "by the owner, and the borrower lends it on")
def _(w: World) -> None:
    x = w.own("A")
    task = w.call("A", "C", x)
    w.call("C", "D", x).end()
    task.end()
    w.drop("A", x)


@scenario(NOT_KEPT, "by a user, and the borrower lends it on", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    w.call("C", "D", x).end()
    task.end()


@scenario(NOT_KEPT, "by a user to the owner", given="B")
def _(w: World, x: RRefId) -> None:
    w.call("A", "B", x).end()


@scenario(NOT_KEPT, "by a user, and the borrower lends it to the lender", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    w.call("C", "A", x).end()
    task.end()


@scenario(NOT_KEPT, "by a user, and lent on to a borrower that lends it to itself", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    last = w.call("C", "D", x)
    w.call("D", "D", x).end()
    last.end()
    task.end()


@scenario(NOT_KEPT, "by a user, in two calls at once", given="B")
def _(w: World, x: RRefId) -> None:
    one, two = w.call("A", "C", x), w.call("A", "C", x)
    one.end()
    two.end()


@scenario(NOT_KEPT, "by a user, to a method of another object", given="BC")
def _(w: World, x: RRefId, y: RRefId) -> None:
    w.method("A", y, x).end()


@scenario(NOT_KEPT, f"by the owner, {MANY} references in one call")
def _(w: World) -> None:
    xs = [w.own("A") for _ in range(MANY)]
    w.call("A", "C", *xs).end()
    w.drop("A", *xs)


@scenario(NOT_KEPT, f"by a user, {MANY} references in one call", given="B" * MANY)
def _(w: World, *xs: RRefId) -> None:
    w.call("A", "C", *xs).end()


# ---- kept


@scenario(KEPT, "lent by the owner")
def _(w: World) -> None:
    x = w.own("A")
    w.call("A", "C", x).keep(x).end()
    w.drop("A", x)
    w.drop("C", x)


@scenario(KEPT, "lent by a user", given="B")
def _(w: World, x: RRefId) -> None:
    w.call("A", "C", x).keep(x).end()
    w.drop("C", x)


@scenario(KEPT, "by the second borrower; lent by the owner, and lent on")
def _(w: World) -> None:
    x = w.own("A")
    task = w.call("A", "C", x)
    w.call("C", "D", x).keep(x).end()
    task.end()
    w.drop("A", x)
    w.drop("D", x)


@scenario(KEPT, "by the second borrower; lent by a user, and lent on", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    w.call("C", "D", x).keep(x).end()
    task.end()
    w.drop("D", x)


@scenario(KEPT, "by both borrowers; lent by a user, and lent on", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    last = w.call("C", "D", x)
    task.keep(x)
    last.keep(x).end()
    task.end()
    w.drop("C", x)
    w.drop("D", x)


@scenario(
    KEPT, "by D, until its call ends; lent by the owner to C, by C to D, and C's call ends first"
)
def _(w: World) -> None:
    x = w.own("A")
    task = w.call("A", "C", x)
    last = w.call("C", "D", x)
    task.end()
    w.drop("A", x)
    last.end()


@scenario(
    KEPT,
    "by D, until its call ends; lent by a user to C, by C to D, and C's call ends first",
    given="B",
)
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    last = w.call("C", "D", x)
    task.end()
    last.end()


@scenario(
    KEPT,
    "by D, until its first call ends; lent by a user to C, by C to D, by D to E, by E to D again",
    given="B",
)
def _(w: World, x: RRefId) -> None:
    calls = [w.call(lender, borrower, x) for lender, borrower in ("AC", "CD", "DE", "ED")]
    for task in reversed(calls):
        task.end()


@scenario(KEPT, "by the owner; lent by a user", given="B")
def _(w: World, x: RRefId) -> None:
    w.call("A", "B", x).keep(x).end()
    w.drop("B", x)


@scenario(KEPT, "by the lender; lent by a user, and lent to it by the borrower", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    w.call("C", "A", x).keep(x).end()
    task.end()
    w.drop("A", x)


@scenario(KEPT, "lent by a user in two calls at once", given="B")
def _(w: World, x: RRefId) -> None:
    one, two = w.call("A", "C", x), w.call("A", "C", x)
    one.keep(x)
    two.keep(x)
    one.end()
    two.end()
    w.drop("C", x, x)


@scenario(KEPT, "lent by the owner in two calls at once")
def _(w: World) -> None:
    x = w.own("A")
    one, two = w.call("A", "C", x), w.call("A", "C", x)
    one.keep(x)
    two.keep(x)
    one.end()
    two.end()
    w.drop("A", x)
    w.drop("C", x, x)


@scenario(KEPT, "lent by a user in two calls, one after the other", given="B")
def _(w: World, x: RRefId) -> None:
    for _ in range(2):
        task = w.call("A", "C", x)
        task.keep(x)
        task.end()
    w.drop("C", x, x)


@scenario(KEPT, "lent by a user to a method of another object", given="BC")
def _(w: World, x: RRefId, y: RRefId) -> None:
    w.method("A", y, x).keep(x).end()
    w.drop("C", x)


@scenario(KEPT, f"{MANY} references in one call, lent by the owner")
def _(w: World) -> None:
    xs = [w.own("A") for _ in range(MANY)]
    w.call("A", "C", *xs).keep(*xs).end()
    w.drop("A", *xs)
    w.drop("C", *xs)


@scenario(KEPT, f"{MANY} references in one call, lent by a user", given="B" * MANY)
def _(w: World, *xs: RRefId) -> None:
    w.call("A", "C", *xs).keep(*xs).end()
    w.drop("C", *xs)


# ---- creations


@scenario(CREATING, "by the owner, and not kept", also="C")
def _(w: World) -> None:
    x = w.own("A")
    y = w.remote("A", "C", x)
    w.running("C").end()
    w.drop("A", x, y)


@scenario(CREATING, "by a user, and not kept", given="B", also="C")
def _(w: World, x: RRefId) -> None:
    y = w.remote("A", "C", x)
    w.running("C").end()
    w.drop("A", y)


@scenario(CREATING, f"by a user, {MANY} references, and none kept", given="B" * MANY, also="C")
def _(w: World, *xs: RRefId) -> None:
    y = w.remote("A", "C", *xs)
    w.running("C").end()
    w.drop("A", y)


@scenario(CREATING, "by the owner, and kept in the result", also="C")
def _(w: World) -> None:
    x = w.own("A")
    y = w.remote("A", "C", x)
    w.running("C").end(x)
    w.drop("A", x, y)


@scenario(CREATING, "by a user, and kept in the result", given="B", also="C")
def _(w: World, x: RRefId) -> None:
    y = w.remote("A", "C", x)
    w.running("C").end(x)
    w.drop("A", y)


# ---- given on


@scenario(GIVEN_ON, "lent by the owner, and sent on in a one-way message")
def _(w: World) -> None:
    x = w.own("A")
    task = w.call("A", "C", x)
    w.tell("C", "D", x).end()
    task.end()
    w.drop("A", x)


@scenario(GIVEN_ON, "lent by a user, and sent on in a one-way message", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    w.tell("C", "D", x).end()
    task.end()


@scenario(GIVEN_ON, "lent by the owner, and returned")
def _(w: World) -> None:
    x = w.own("A")
    w.call("A", "C", x).end(x)
    w.drop("A", x, *w.results)


@scenario(GIVEN_ON, "lent by a user, and returned", given="B")
def _(w: World, x: RRefId) -> None:
    w.call("A", "C", x).end(x)
    w.drop("A", *w.results)


@scenario(GIVEN_ON, "lent by a user, lent on, returned and returned", given="B")
def _(w: World, x: RRefId) -> None:
    task = w.call("A", "C", x)
    w.call("C", "D", x).end(x)
    w.drop("C", *w.results)
    task.end(x)
    w.drop("A", *w.results)


@scenario(GIVEN_ON, "returned by the owner: a new object")
def _(w: World) -> None:
    task = w.call("A", "C")
    x = w.own("C")
    task.handles.append(x)
    task.end(x)
    w.drop("A", *w.results)


# ---- whole programs


@scenario(WHOLE, "remote references, 1: return value")
def _(w: World) -> None:
    x = w.made("A", "B")
    w.fetch("A", x)
    w.drop("A", x)


@scenario(WHOLE, "remote references, 2: user to owner")
def _(w: World) -> None:
    x = w.made("A", "B")
    w.call("A", "B", x).end()
    w.drop("A", x)


@scenario(WHOLE, "remote references, 3: owner to user")
def _(w: World) -> None:
    x = w.own("B")
    task = w.call("B", "C", x)
    w.drop("B", x)
    w.fetch("C", x)
    task.end()


@scenario(WHOLE, "remote references, 4: user to user")
def _(w: World) -> None:
    x = w.made("A", "B")
    task = w.call("A", "C", x)
    w.fetch("C", x)
    task.end()
    w.drop("A", x)


@scenario(WHOLE, "borrowing, 1: forwarding what one owns")
def _(w: World) -> None:
    x = w.own("F")
    g = w.call("F", "G", x)
    w.drop("F", x)
    h = w.call("G", "H", x)
    g.end()
    h.end()


@scenario(WHOLE, "borrowing, 2: returning a reference")
def _(w: World) -> None:
    g = w.call("F", "G")
    x = w.own("G")
    g.handles.append(x)
    g.end(x)
    outer = w.own("F", *w.results)
    w.call("F", "H", x).end()
    w.drop("F", outer)


# ---- counting


def control(scenario: Scenario, sharing: Sharing) -> Counter[str]:
    """The messages of *scenario* in *sharing*, by kind; nothing is left behind."""
    world, bare = World(sharing), World(sharing)
    given = [world.made("A", owner) for owner in scenario.given]
    scenario.play(world, *given)
    if given:
        world.drop("A", *given)
    assert world.left() == []
    objects = [bare.made("A", owner) for owner in scenario.given + scenario.also]
    if objects:
        bare.drop("A", *objects)
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

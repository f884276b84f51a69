"""The conclusions that `farref refs` draws from the rows of all endpoints, each case by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from farref.actors.core.ages import MOST, STEP, Ages
from farref.actors.inspect.snapshot import ShortNames, marks_of

from .test_refs import ROW

if TYPE_CHECKING:
    from farref import ReferenceInfo


def test_two_lives_of_one_name_are_told_apart() -> None:
    names = ShortNames()
    rows = [ROW, replace(ROW, rref="A@2/1", canonical=None, forks={"A@2/7": "C/x@a"})]
    for row in rows:
        names.meet_row(row)
    short = [names.short_row(row, None) for row in rows]
    assert [row.rref for row in short] == ["A@1/1", "A@2/1"]
    assert [row.worker for row in short] == ["B", "B"]
    assert short[1].forks == {"A@2/7": "C/x"}
    assert names.in_full["C/x"] == "C/x@a"


def marks(*rows: ReferenceInfo, silent: tuple[str, ...] = (), leak_age: float = 60) -> list[Any]:
    found, _ = marks_of(list(rows), set(silent), leak_age)
    return [found.get(row.rref, ()) for row in rows]


def test_what_is_suspected() -> None:
    assert marks(ROW) == [("leak",)]
    assert marks(ROW, leak_age=101) == [()]
    for held in ({"handles": 1}, {"messages": 1}, {"tasks": 1}):
        assert marks(replace(ROW, **held)) == [()]
    pinned = replace(ROW, tasks=1, pins={"B@1/1": "C@1"})
    assert marks(pinned) == [("leak",)]
    user = replace(ROW, worker="C@1", role="user", handles=1)
    assert marks(ROW, user) == [(), ()]
    known = replace(ROW, forks={"B@1/1": "C@1"})
    assert marks(known, silent=("C@1",)) == [()]  # it may or may not hold it


def test_what_only_a_cycle_keeps_is_suspected() -> None:
    one = replace(ROW, contains=("A@1/2",))
    two = replace(ROW, rref="A@1/2", contains=("A@1/1",), handles=1, in_values=1)
    back = replace(ROW, handles=1, in_values=1, contains=("A@1/2", "A@1/3"))
    three = replace(ROW, rref="A@1/3", handles=1, in_values=1)
    both = ("cycle", "leak")
    assert marks(back, two, three) == [both, both, ("leak",)]
    assert marks(replace(back, handles=2), two, three) == [("cycle",), ("cycle",), ()]
    assert marks(replace(one, contains=("A@1/1",), handles=1, in_values=1)) == [both]
    # A reference by the name of an alias leads to the same object.
    named = replace(two, contains=("A@1/9",))
    called = replace(back, names={"A@1/9": 1})
    assert marks(called, named, three) == [both, both, ("leak",)]


def test_an_alias_keeps_what_it_stands_for() -> None:
    alias = replace(ROW, rref="A@1/2", role="alias", target="A@1/1", canonical="A@1/1", handles=1)
    held = replace(ROW, handles=1)  # the alias's own
    assert marks(held, alias) == [(), ()]
    assert marks(held, replace(alias, handles=0)) == [("leak",), ("leak",)]


def test_a_long_cycle_and_what_leads_to_it() -> None:
    ring = [replace(ROW, rref=f"A@1/{n}", contains=(f"A@1/{n - 1}",)) for n in range(1, 20_000)]
    first = replace(ROW, rref="A@1/0", contains=("A@1/19999",))
    outside = replace(ROW, rref="A@1/20000", contains=("A@1/0",))
    _, cycles = marks_of([outside, first, *ring], set(), 60)
    assert [len(cycle) for cycle in cycles] == [20_000]


def test_ages_of_what_was_named() -> None:
    ages = Ages()
    state: Any = SimpleNamespace(forks=0, calls=0)
    assert ages.of_fork(1, 5.0) == 0
    for second in range(100):
        ages.mark(state, float(second))
        state.forks, state.calls = 10 * (second + 1), second
        ages.mark(state, second + STEP / 2)
        state.forks += 3
    found = [ages.of_fork(n, 100.0) for n in (1, 10, 13, 14, 500)]
    assert found == [100, 100, 100, 99, 51]
    assert ages.of_call(99, 100.0) == 1
    for second in range(100, 3 * MOST):
        ages.mark(state, float(second))
        state.forks = 10 * (second + 1)
    assert len(ages._notes) <= MOST
    now = float(3 * MOST)
    assert ages.of_fork(10 * MOST, now) == pytest.approx(now - MOST, abs=4)

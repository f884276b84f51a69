"""Traces of aliases: real steps of the machines, recorded as actors record them, and read back."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref.trace import load, tell
from farref.trace.story import Mark
from farref.trace.view import Stage

from ..bases import SHARINGS
from ..protocol.counting import World
from .recordings import Tape, labels
from .test_show import shown

if TYPE_CHECKING:
    pass

A, B, C = "A@1", "B@2", "C@3"


def chain(world: World) -> Any:
    """The note's example: A calls h on B, h calls g on C, g calls f on D; f has not run yet."""
    h = world.remote("A", "B")
    g = world.remote("B", "C")
    world.tasks[-2].handles.append(g)
    world.tasks[-2].alias(g)
    f = world.remote("C", "D")
    world.running("C").handles.append(f)
    world.running("C").alias(f)
    return h


# ---- the labels of arrows


def test_the_three_facts_of_the_note_are_said(tmp_path: Path) -> None:
    world = World("lend", trace=str(tmp_path))
    h = chain(world)
    world.fetch("A", h, direct=True)
    world.running("D").end()
    world.drop("A", h)
    story = world.read()
    assert labels(story, "AliasRef") == [
        "A/1 aliases B/1",
        "B/1 aliases C/1",
        "A/1 aliases C/1",  # B, when it knows the canonical object
    ]
    assert labels(story, "Canonical") == [
        "C/1 is canonical",
        "B/1 is C/1, fork C/2",
        "C/1 is canonical",
    ]
    assert labels(story, "AliasGone") == [
        "A/1 no alias of B/1",  # but it is one of C/1
        "B/1 no alias of C/1",
        "A/1 no alias of C/1",
    ]
    assert labels(story, "Reply")[0] == "A/1 is C/1, fork B/2"
    assert story.summary.left == ()
    assert story.summary.freed == story.summary.objects == 3


def test_a_fork_that_comes_home_beside_an_answer(tmp_path: Path) -> None:
    """The canonical object lives with the alias's owner."""
    world = World("lend", trace=str(tmp_path))
    h = world.remote("A", "B")
    x = world.own("B")
    task = world.running("B")
    g = world.remote("B", "C", x)
    task.handles.append(g)
    task.alias(g)
    world.running("C").alias(x)
    world.drop("A", h)
    world.drop("B", x)
    story = world.read()
    assert story.summary.left == ()
    assert Stage.HOME in {fork.stage for fork in story.forks.values()}


def test_a_method_call_is_answered_by_way_of_the_alias(tmp_path: Path) -> None:
    world = World("lend", trace=str(tmp_path))
    h = world.remote("A", "B")
    task = world.running("B")
    g = world.made("B", "C")
    task.handles.append(g)
    task.alias(g)
    world.method("A", h).end()
    world.drop("A", h)
    story = world.read()
    assert labels(story, "Reply") == ["reply to ()", "reply to (); A/1 is B/1, fork B/2"]


def test_a_reference_under_the_name_of_an_alias(tmp_path: Path) -> None:
    world = World("lend", trace=str(tmp_path))
    h = world.remote("A", "B")
    task = world.running("B")
    g = world.made("B", "C")
    task.handles.append(g)
    task.alias(g)
    world.fetch("A", h, direct=True)
    call = world.call("A", "D", h)
    assert call.handles == [h]
    call.end()
    world.drop("A", h)
    story = world.read()
    assert labels(story, "Call") == ["call (A/1 is B/1), lends B/1 as A/2"]
    assert story.summary.left == ()


def test_why_a_value_is_lost() -> None:
    tape = Tape()
    for why in ("cycle", "owner", "creator"):
        tape.note(A, "lose", rref="A@1/1", why=why)
    rows = tell(tape.recording()).rows
    assert [row.text for row in rows if isinstance(row, Mark)] == [
        "A/1 is lost: it leads back to itself",
        "A/1 is lost: so is what it stands for",
        "A/1 is lost: nobody will make it",
    ]


def test_a_request_that_is_passed_on_says_so() -> None:
    tape = Tape()
    tape.pass_on(A, B, "Invoke", call="A@1/1", rref="A@1/1", label="m", carries=[])
    relays = {"relays": "A@1/1"}
    tape.pass_on(B, C, "Invoke", call="B@2/1", rref="B@2/1", label="m", carries=[], **relays)
    tape.pass_on(B, C, "Fetch", call="B@2/2", rref="B@2/1", **relays)
    story = tell(tape.recording())
    assert labels(story, "Invoke") == ["call A/1.m()", "passes on B/1.m()"]
    assert labels(story, "Fetch") == ["passes on to_here B/1"]


# ---- leftovers


@pytest.mark.parametrize("sharing", SHARINGS)
def test_after_any_forest_of_aliases_nothing_is_left(sharing: Any, tmp_path: Path) -> None:
    """Objects in random trees of aliases, used and dropped in random order."""
    for seed in range(30):
        dice, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        world = World(sharing, trace=str(folder))
        held = [("A", world.made("A", "B")), ("C", world.own("C"))]
        for _ in range(12):
            at, rref = dice.choice(held)
            what = dice.random()
            if what < 0.6:
                made = world.remote(at, dice.choice("ABCD"), rref)
                world.tasks[-1].alias(world.tasks[-1].handles[0])
                held.append((at, made))
            elif what < 0.8:
                world.fetch(at, rref, direct=dice.random() < 0.5)
            else:
                task = world.call(at, dice.choice("ABCD"), rref)
                held.append((task.at, task.handles[0]))
                task.keep(task.handles[0])
                task.end()
        dice.shuffle(held)
        for at, rref in held:
            world.drop(at, rref)
        assert world.left() == [], seed
        story = world.read()
        assert story.summary.left == (), seed
        assert story.summary.freed == story.summary.objects
        assert story.summary.control["AliasRef"] >= 1


def test_the_dead_are_not_waited_for() -> None:
    tape = Tape()
    made = {"rref": "A@1/1", "fork": "A@1/1", "label": "f", "carries": []}
    tape.pass_on(A, B, "Create", **made)
    ask = {"call": "A@1/2", "rref": "A@1/1", "alias": "A@1/2", "label": "A@1/2"}
    tape.pass_on(A, B, "AliasRef", **ask)
    assert "A has not been told what A/1 stands for" in tell(tape.recording()).summary.left
    tape.note(A, "died", peer=B)
    said = tell(tape.recording()).summary
    assert (said.left, said.lost) == ((), ("A/1, owned by B",))


# ---- the picture


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_aliases_are_readable_in_every_width(width: int, tmp_path: Path) -> None:
    world = World("lend", trace=str(tmp_path))
    h = chain(world)
    world.fetch("A", h, direct=True)
    world.running("D").end()
    world.drop("A", h)
    world.read()
    text = shown(load(tmp_path), width)
    assert max(map(len, text.splitlines())) <= width
    assert re.search("alias", text)
    assert re.search("canon|is it", text)
    assert "h aliases g" in text  # the legend

"""Traces of loans: real steps of the machines, recorded as actors record them, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref.trace import read, save, tell
from farref.trace.notes import of_discipline, parsed
from farref.trace.view import Stage

from ..bases import SHARINGS
from ..protocol.counting import World, random_program
from .recordings import Tape, forwarding, labels

if TYPE_CHECKING:
    from farref.trace import Story

A, B, C, D = "A@1", "B@2", "C@3", "D@4"
X = "B@2/1"


def stages(story: Story, fork: str) -> list[str]:
    return [
        change.stage.value for row in story.rows for change in row.changes if change.fork.id == fork
    ]


# ---- whatever the machines do is read right


@pytest.mark.parametrize("sharing", SHARINGS)
def test_after_any_program_nothing_is_left(sharing: Any, tmp_path: Path) -> None:
    for seed in range(60):
        folder = tmp_path / str(seed)
        folder.mkdir()
        story = random_program(World(sharing, trace=str(folder)), seed).read()
        assert story.summary.left == (), seed
        assert story.summary.freed == story.summary.objects


KNOWN = "A/2 of A/1, held by C, is known to the owner still"
LENT = "loan A/2 of A/1, lent by A to C, is not returned"


@pytest.mark.parametrize(
    ("sharing", "kept", "dropped", "says"),
    [
        # C keeps the reference that it was lent, and never drops it.
        *(("lend", True, True, f"loan {KNOWN}"), ("fork", True, True, f"fork {KNOWN}")),
        ("borrow", True, True, f"loan {KNOWN}"),
        ("borrow", True, False, "loan A/2 of A/1, held by C, has not been told to the owner"),
        # The call never returns.
        *(("lend", False, False, LENT), ("fork", False, False, f"fork {KNOWN}")),
        ("borrow", False, False, LENT),
    ],
)
def test_a_leak_is_seen(
    sharing: Any, says: str, tmp_path: Path, *, kept: bool, dropped: bool
) -> None:
    world = World(sharing, trace=str(tmp_path))
    x = world.made("A", "B")
    task = world.call("A", "C", x)
    if kept:
        task.keep(x).end()
    if dropped:
        world.drop("A", x)
    left = world.read().summary.left
    assert left[0] == "A/1, owned by B, is not freed"
    assert says in left


# ---- the life of a loan


def test_a_borrower_reaches_the_owner_reply_by_reply(tmp_path: Path) -> None:
    world = World("borrow", trace=str(tmp_path))
    x = world.own("A")
    outer = world.call("A", "C", x)
    inner = world.call("C", "D", x)
    inner.keep(x).end()
    outer.end()
    world.drop("A", x)
    world.drop("D", x)
    story = world.read()
    assert stages(story, "C@0/1") == ["lent", "held", "known", "deleted"]
    assert stages(story, "A@0/1") == ["lent", "returned"]
    assert labels(story, "Reply") == [
        "reply to (), holds C/1",
        "reply to (), A/1 returned; borrowers: D by C/1",
    ]
    assert labels(story, "NotifyRefRemoved") == ["notify at the end of C/1"]
    assert labels(story, "RefRemoved") == ["removed C/1"]


def test_a_table_is_handed_over_by_whoever_leaves(tmp_path: Path) -> None:
    world = World("borrow", trace=str(tmp_path))
    x = world.made("A", "B")
    task = world.call("A", "C", x)
    task.keep(x).end()
    world.drop("A", x)
    world.drop("C", x)
    story = world.read()
    assert stages(story, "A@0/2") == ["lent", "held", "known", "deleted"]
    assert labels(story, "RefRemoved") == ["removed A/1; borrowers: C by A/2", "removed A/2"]


def test_a_loan_that_comes_back_is_no_new_fork(tmp_path: Path) -> None:
    world = World("lend", trace=str(tmp_path))
    x = world.made("A", "B")
    world.call("A", "C", x).end(x)
    world.drop("A", x, *world.results)
    story = world.read()
    assert list(story.forks) == ["A@0/1", "A@0/2"]
    assert stages(story, "A@0/2") == ["lent", "returned"]
    assert labels(story, "Reply") == ["reply [A/1] to (), A/2 returned"]


def test_a_creation_returns_its_loans_by_a_message(tmp_path: Path) -> None:
    world = World("lend", trace=str(tmp_path))
    x = world.made("A", "B")
    y = world.remote("A", "C", x)
    world.running("C").end()
    world.drop("A", x, y)
    story = world.read()
    assert labels(story, "Returned") == ["A/2 returned"]
    (loan,) = (fork for fork in story.forks.values() if fork.loan)
    assert loan.stage is Stage.RETURNED


def test_many_loans_are_counted(tmp_path: Path) -> None:
    world = World("borrow", trace=str(tmp_path))
    xs = [world.own("A") for _ in range(5)]
    task = world.call("A", "C", *xs)
    task.keep(*xs[1:])
    task.end()
    world.drop("A", *xs)
    world.drop("C", *xs[1:])
    story = world.read()
    assert labels(story, "Call") == ["call (5 references), lends 5 references"]
    assert labels(story, "Reply") == ["reply to (), holds 4 references; A/1 returned"]
    assert labels(story, "NotifyRefRemoved") == ["notify at the end of 4 references"]
    assert labels(story, "RefRemoved") == ["removed 4 references"]


def test_a_dead_lender_is_replaced_by_what_its_borrower_announces() -> None:
    tape = Tape()
    tape.pass_on(A, C, "Call", call="A@1/1", label="f", carries=[[X, "A@1/2", B, "loan"]])
    tape.note(C, "died", peer=A)
    tape.pass_on(C, B, "ForkRequest", rref=X, fork="C@3/1")
    tape.note(B, "known", rref=X, fork="C@3/1", holder=C)
    tape.pass_on(B, C, "Ack", rref=X, fork="C@3/1")
    tape.note(C, "buried", peer=A)
    tape.pass_on(C, B, "RefRemoved", removed=[{"rref": X, "forks": ["C@3/1"], "borrowers": []}])
    tape.note(B, "free", rref=X)
    story = tell(tape.recording())
    assert stages(story, "A@1/2") == ["lent", "joined"]
    assert stages(story, "C@3/1") == ["known", "deleted"]
    assert story.summary.left == ()


# ---- the steps of a published example


def test_steps_are_found_where_they_happened() -> None:
    story = tell(forwarding(), notes="3b F: x.borrowers.append(g) <= F learns that G holds F/1")
    (row,) = (row for row in story.rows if row.notes)
    assert [(note.at, note.text) for note in row.notes] == [("F@1", "3b F: x.borrowers.append(g)")]
    assert row.labels[0] == "reply to g(), holds F/1"  # type: ignore[union-attr]  # this row has labels
    assert (story.summary.noted, story.summary.missing) == (1, ())


def test_a_step_out_of_its_order_is_missing_unless_its_order_is_open() -> None:
    steps = "6 end <= F frees F/1\n{} begin <= F calls g on G"
    for name, missing in (("1", ("1 begin (F calls g on G)",)), ("*", ())):
        summary = tell(forwarding(), notes=steps.format(name)).summary
        assert (summary.noted, summary.missing) == (2 - len(missing), missing)


def test_steps_are_kept_in_a_saved_trace(tmp_path: Path) -> None:
    steps = "1 F submits g <= F calls g on G\n9 never <= H frees F/1"
    save(tell(forwarding(), "a title", steps), tmp_path / "t.jsonl")
    again = read(tmp_path / "t.jsonl").summary
    assert (again.noted, again.missing) == (1, ("9 never (H frees F/1)",))


def test_steps_of_one_discipline() -> None:
    steps = "1 all <= F frees F/1\n[borrow] 2 some <= F frees F/1"
    assert [step for step, _ in parsed(of_discipline(steps, "borrow"))] == ["1 all", "2 some"]
    assert [step for step, _ in parsed(of_discipline(steps, "lend"))] == ["1 all"]
    assert parsed(of_discipline(steps, "fork")) == []


def test_a_step_says_by_what_it_is_known() -> None:
    with pytest.raises(ValueError, match="a step is written"):
        parsed("3b F: x.borrowers.append(g)")

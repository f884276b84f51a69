"""Reading traces copes with torn lines; merging goes by cause alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farref.trace import TraceError, load, tell
from farref.trace.merge import merge
from farref.trace.records import Recording
from farref.trace.story import Arrow, ArrowPart, Mark

from .recordings import Tape, user_to_user

A, B, C = "A@1", "B@2", "C@3"


def random_run(seed: int, endpoints: int, steps: int) -> Tape:
    """Possible steps of *endpoints*: send, receive in order per pair, or a step of their own."""
    dice, tape = random.Random(seed), Tape()
    names = [f"E{number}@{number:x}" for number in range(endpoints)]
    flying: dict[tuple[str, str], int] = {}
    for _ in range(steps):
        at = dice.choice(names)
        waiting = [sender for (sender, to), count in flying.items() if to == at and count]
        what = dice.random()
        if waiting and what < 0.5:
            sender = dice.choice(waiting)
            flying[sender, at] -= 1
            tape.receive(at, sender, "Tell")
        elif what < 0.85:
            to = dice.choice(names)
            flying[at, to] = flying.get((at, to), 0) + 1
            tape.send(at, to, "Tell")
        else:
            tape.note(at, "run", label="f")
    return tape


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 120))
def test_any_run_is_merged_by_cause(seed: int, endpoints: int, steps: int) -> None:
    recording = random_run(seed, endpoints, steps).recording()
    merged = merge(recording)
    for at, own in recording.steps.items():
        assert [id(r) for r in merged if r.at == at] == [id(r) for r in own]
    sent = {r.name: place for place, r in enumerate(merged) if r.kind == "send"}
    for place, record in enumerate(merged):
        if record.kind == "receive":
            assert sent[record.name] < place


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_same_run_is_always_merged_the_same_way(seed: int, dice: random.Random) -> None:
    recording = random_run(seed, 4, 60).recording()
    ends = list(recording.steps.items())
    dice.shuffle(ends)
    again = merge(Recording(dict(ends)))
    assert [id(r) for r in again] == [id(r) for r in merge(recording)]


def test_the_news_of_a_death_follows_what_the_dead_did() -> None:
    tape = Tape()
    tape.note(A, "died", peer=B)
    tape.send(A, C, "Tell")
    tape.send(B, C, "Tell")
    tape.receive(C, B, "Tell")
    tape.receive(C, A, "Tell")
    merged = [(record.at, record.kind) for record in merge(tape.recording())]
    assert merged == [
        (B, "send"), (C, "receive"), (A, "died"), (A, "send"), (C, "receive"),
    ]  # fmt: skip


def test_who_was_only_given_up_for_dead_may_go_on() -> None:
    tape = Tape()
    tape.note(A, "died", peer=B)
    tape.send(A, B, "Tell")
    tape.receive(B, A, "Tell")
    assert [record.kind for record in merge(tape.recording())] == ["died", "send", "receive"]


def test_a_receipt_without_its_send_follows_nothing() -> None:
    tape = Tape()
    tape.receive(B, A, "Tell")
    story = tell(tape.recording())
    assert [row.part for row in story.rows if isinstance(row, Arrow)] == [ArrowPart.ARRIVES]


def test_files_that_contradict_each_other_are_refused() -> None:
    tape = Tape()
    for one, other in ((A, B), (B, A)):
        tape.receive(one, other, "Tell")
        tape.send(one, other, "Tell")
    with pytest.raises(TraceError, match="A@1, B@2 contradict each other"):
        merge(tape.recording())


def test_two_ends_that_name_different_messages_are_refused() -> None:
    tape = Tape()
    tape.send(A, B, "Tell")
    tape.receive(B, A, "Delete", forks=[])
    with pytest.raises(TraceError, match="a Tell where it was sent and a Delete"):
        merge(tape.recording())


def test_a_message_that_did_not_arrive_has_its_usual_name() -> None:
    recording = user_to_user()
    cut = [each for each in recording.steps[A] if (each.kind, each.message) != ("receive", "Ack")]
    story = tell(Recording({**recording.steps, A: cut}))
    assert "an ACK from B to A did not arrive" in story.summary.left


def test_two_lives_of_one_name_are_told_apart() -> None:
    tape = Tape()
    tape.pass_on(A, "B@2", "Tell")
    tape.pass_on(A, "B@9", "Tell")
    names = tell(tape.recording()).names
    assert [names.of(each) for each in (A, "B@2", "B@9")] == ["A", "B#1", "B#2"]


# ---- files


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{garbled", "JSON is malformed"),
        ("\udcff", "line 2 is not text"),
        ("3", "Expected `array`"),
        ("null", "Expected `array`"),
        ("[1]", "Expected `str` - at `$[0]`"),
        ("[" * 1_000_000, "nested too deeply"),
        ('["join",1.0,["A",1],99,"lend",{},"new"]', "it has format 99, and this farref reads only"),
        ('["trace",99]', "it has format 99, and this farref reads only"),
        ('["trace",99,"a title",""]', "it has format 99, and this farref reads only"),
        ('["join",1.0,["A",1],99,"lend",{}]', "it has format 99, and this farref reads only"),
        ('{"at": "A@1", "kind": "join", "format": 4}', "it has format 4, and this farref reads"),
        ('["leap",1.0,["A",1]]', "'leap'"),
        ('["free",-1.0,["A",1],[["A",1],1]]', "$[1]"),
        ('["free",1' + "0" * 5_000 + ',["A",1],[["A",1],1]]', "$[1]"),
        ('["free",1.0,["A",1]]', "at least length 4"),
        ('["free",1.0,["A",1],["A",2]]', "Expected `array`"),
        ('["send",1.0,["A",1],["B",2],1,["Sing"],null,null]', "'Sing'"),
        ('["send",1.0,["A",1],["B",2]', "truncated"),
    ],
    ids=lambda each: each[:20],
)
def test_a_line_that_is_no_step_is_named(tmp_path: Path, line: str, says: str) -> None:
    content = f'["leave",1.0,["A",1]]\n{line}\n{{}}\n'
    (tmp_path / "x.jsonl").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(TraceError, match=r"x\.jsonl.* line 2") as caught:
        load(tmp_path)
    assert says in str(caught.value)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no trace at"):
        load(tmp_path / "none")
    with pytest.raises(TraceError, match=r"no \.jsonl file"):
        load(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(TraceError, match="holds no steps"):
        load(tmp_path)


def test_the_messages_of_a_search_for_rings_fold_into_one_row() -> None:
    tape, rref = Tape(), "B@1/1"
    for look, cuts in ((1, 1), (2, 2)):
        tape.note("B@1", "do", do="suspect_cycle", rrefs=[rref], cuts=True)
        tape.pass_on("B@1", "C@1", "WhoHolds", look=look, rrefs=[rref])
        tape.pass_on("C@1", "B@1", "Holders", look=look, grips=[])
        for _ in range(cuts):
            tape.pass_on("B@1", "C@1", "Cut", rref="C@1/1", stamp=1)
    folded, whole = (tell(tape.recording(), fold=fold) for fold in (True, False))
    texts = [row.text for row in folded.rows if isinstance(row, Mark)]
    assert texts == ["ring search: 3 messages", "ring search: 4 messages"]
    assert len(whole.rows) == 7
    assert folded.summary == whole.summary

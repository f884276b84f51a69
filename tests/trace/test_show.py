"""The picture of a trace: its layout in every width, with and without colour."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from farref.trace import SuffixError, save, saver, show, tell
from farref.trace.lanes import Side, layout
from farref.trace.notes import Note
from farref.trace.records import Recording

from .recordings import Tape, crowd, forwarding, user_to_user

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

STEPS = """
1  F submits g                  <= F calls g on G
3b F: x.borrowers.append(g)     <= F learns that G holds F/1
6b F: delete x, and then it is all over with x <= F frees F/1
"""


def shown(
    recording: Any, width: int, *, encoding: str = "utf-8", notes: str = "", **options: Any
) -> str:
    page = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    console = Console(file=page, width=width, **options)
    show(tell(recording, notes=notes), console)
    page.flush()
    assert isinstance(page.buffer, io.BytesIO)
    return page.buffer.getvalue().decode(encoding)


FITTING: dict[str, tuple[Recording, str, tuple[str, ...]]] = {
    "fork": (
        user_to_user(), "", ("add()", "ACK", "(a)", "frees A/1", "nothing left", "fork"),
    ),
    "loan": (
        forwarding(),
        STEPS,
        (
            *("lends F/1", "holds F/1", "returned", "notify", "removed", "nothing left"),
            *("1 F submits g", "3b F: x.borrowers.append(g)", "6b F: delete x"),
            "3 of 3 steps of the note found",
        ),
    ),
    "ten endpoints": (
        crowd(9), "", ("Look(owner/1)", *(f"worker-{number:02}" for number in range(1, 10))),
    ),
}  # fmt: skip
"""Traces, the steps to look for in them, and texts that no width may lose."""


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100, 120, 200])
@pytest.mark.parametrize("what", FITTING)
def test_it_fits_and_is_complete(what: str, width: int) -> None:
    recording, notes, texts = FITTING[what]
    text = shown(recording, width, notes=notes)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" not in text
    assert [line for line in lines if line != line.rstrip()] == []
    assert [each for each in texts if each not in text] == []
    heads = sum(each.kind == "send" for steps in recording.steps.values() for each in steps)
    assert text.count("▶") + text.count("◀") >= heads


@pytest.mark.parametrize(
    ("recording", "lines"),
    [
        (user_to_user(), ["A ─▶ B  remote add() as A/1 at B", "    A/2 unknown to B"]),
        (forwarding(), ["    G/1 lent to H", "    G/1 returned by H"]),
    ],
    ids=["fork", "loan"],
)
def test_below_60_it_is_a_list(recording: Recording, lines: list[str]) -> None:
    found = shown(recording, 50).splitlines()
    assert [each for each in lines if each not in found] == []
    assert max(map(len, found)) <= 50


def elsewhere(users: int) -> Recording:
    """The program has a loader make objects, and each of *users* gets one; it owns one, too."""
    tape, program, loader = Tape(), "program@0", "loader@1"
    for number in range(1, users + 1):
        rref, user = f"program@0/{number}", f"user-{number}@{number:x}"
        tape.pass_on(program, loader, "Create", rref=rref, fork=rref, label="f")
        carries = [[rref, f"program@0/{number + 100}", loader]]
        tape.pass_on(program, user, "Call", call=rref, label="g", carries=carries)
        mine = f"program@0/{number + 200}"
        carries = [[mine, f"program@0/{number + 300}", program]]
        tape.pass_on(program, user, "Tell", label="Mine", carries=carries)
        tape.pass_on(user, loader, "Invoke", call=f"{user}/1", rref=rref, label="h")
        alias = f"{loader}/{number}"
        tape.pass_on(loader, user, "AliasRef", rref=f"{user}/9", alias=rref)
        tape.pass_on(user, loader, "Create", rref=alias, fork=alias, target=rref, label="k")
    return tape.recording()


def test_a_list_names_the_owners_of_objects_that_others_created() -> None:
    text = shown(elsewhere(1), 59)
    assert "program ─▶ loader  remote f() as program/1 at loader\n" in text
    assert "program ─▶ user-1  call g(program/1 at loader)\n" in text
    assert "program ─▶ user-1  tell Mine(program/201)\n" in text, "its id names its owner"
    assert "user-1 ─▶ loader  call program/1.h() at loader\n" in text
    assert "program/1 at loader aliases user-1/9\n" in text
    assert "  remote program/1.k() at loader as" in text


def test_bare_lanes_name_owners_where_there_is_room() -> None:
    chosen = layout(tell(elsewhere(8)), 100)
    assert chosen is not None
    assert not chosen.labelled
    text = shown(elsewhere(8), 100)
    assert "│     g(program/1 at loader) " in text
    assert "│     remote f() as program/8 " in text
    assert " call g(program/1 at loader) " in shown(elsewhere(8), 110)


def test_arrows_name_owners_unless_the_head_of_the_view_does() -> None:
    assert "loader's view of program/1" in shown(elsewhere(1), 160)
    assert "call g(program/1) " in shown(elsewhere(1), 160)
    changes = shown(elsewhere(5), 190)
    assert "owner's view" in changes
    assert "g(program/1 at loader) " in changes


@pytest.mark.parametrize("width", [80, 120, 200])
def test_ten_endpoints_still_have_lanes(width: int) -> None:
    assert "│" in shown(crowd(9), width).splitlines()[2]


@pytest.mark.parametrize("size", [2, 7])
def test_where_there_is_little_room_what_happens_is_said_in_short(size: int) -> None:
    """By lanes with words, and without them: no half id and no half name."""
    tape, owner = Tape(), "a-coordinator@0"
    for number in range(1, size + 1):
        tape.pass_on(owner, f"w-{number}@1", "Tell", label="Look")
    brings = [["w-1@1/7", "w-1@1/8", "w-1@1"]]
    tape.pass_on("w-1@1", owner, "Call", call="w-1@1/1", label="leads", carries=brings)
    tape.note(owner, "run", peer="w-1@1", label="leads")
    tape.note("w-1@1", "fail", call="w-1@1/1234", peer=owner)
    tape.note("w-1@1", "free", rref="w-1@1/1234")
    text = shown(tape.recording(), 70)
    assert "▸" in text
    assert "leads()" in text.partition("▸")[2]
    assert text.count("w-1/1234") == 2
    assert "…" not in text.partition("├")[2]


def test_a_hundred_endpoints_are_a_list() -> None:
    assert layout(tell(crowd(99)), 120) is None
    assert "owner ─▶ worker-07" in shown(crowd(99), 120)


def test_many_forks_are_counted() -> None:
    chosen = layout(tell(crowd(2, forks=500)), 120)
    assert chosen is not None
    assert chosen.side is Side.CHANGES
    assert "500 forks" in shown(crowd(2, forks=500), 120)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_owners_view_is_whole(width: int) -> None:
    """It names the fork, however long its id is, and every stage of a row."""
    tape, owner = Tape(), "a-name-of-20-letters@1"
    for number in range(100, 110):
        tape.note(owner, "known", rref=f"{owner}/1", fork=f"{owner}/{number}", holder="B@2")
        tape.note(owner, "run", label="f")
    carries = [
        [f"{owner}/1", f"{owner}/{number}", owner, passing]
        for passing, numbers in (("fork", range(200, 203)), ("loan", range(300, 304)))
        for number in numbers
    ]
    tape.pass_on(owner, "B@2", "Call", call=f"{owner}/9", label="keep", carries=carries)
    tape.pass_on("B@2", owner, "Delete", rref=f"{owner}/1", forks=[f"{owner}/109"], borrowers=[])
    text = shown(tape.recording(), width)
    assert re.search(
        r"(3 forks known 4 forks lent|● 3 forks ○ 4 forks|● 3 ○ 4)$", text, re.MULTILINE
    )
    assert re.search(r"(✕ a-name-of-20-letters/109|letters/109 deleted)$", text, re.MULTILINE)
    assert "owner's view" in text


def test_ascii_where_the_encoding_has_no_lines() -> None:
    text = shown(user_to_user(), 80, encoding="ascii")
    assert "+- remote add() ----->|" in text
    assert "|<.......... ACK A/1 .+" in text
    assert "nothing left" in text
    assert "l lent   o known   r returned   x deleted" in shown(forwarding(), 80, encoding="ascii")


def test_colour_in_a_terminal_and_none_under_no_color() -> None:
    colour = shown(user_to_user(), 100, force_terminal=True, color_system="256")
    assert "\x1b[1;38;5;33m" in colour  # a creation
    assert "\x1b[38;5;166m" in colour  # a fork request
    plain = shown(user_to_user(), 100, force_terminal=True, color_system="256", no_color=True)
    assert "38;5" not in plain
    assert ESCAPE.sub("", plain) == ESCAPE.sub("", colour) == shown(user_to_user(), 100)


def test_a_message_to_oneself() -> None:
    tape = Tape()
    tape.pass_on("A@1", "A@1", "Fetch", rref="A@1/1", call="A@1/1")
    assert "⟲ to_here A/1" in shown(tape.recording(), 80)


@pytest.mark.parametrize(
    ("recording", "notes", "said"),
    [(user_to_user(), "", "frees A/1"), (forwarding(), STEPS, "3b F: x.borrowers.append(g)")],
    ids=["fork", "loan"],
)
def test_saved_pictures_are_complete_in_themselves(
    recording: Recording, notes: str, said: str, tmp_path: Path
) -> None:
    story = tell(recording, "a <title>", notes)
    for name, title in (("t.svg", "&lt;title&gt;"), ("t.HTML", r"\u003ctitle>")):
        save(story, tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8").replace("&#160;", " ")
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert said in text
        assert title in text
        assert "a <title>" not in text
    ElementTree.parse(tmp_path / "t.svg")


def test_an_unknown_suffix_is_refused() -> None:
    with pytest.raises(SuffixError, match=r"one of \.jsonl, \.svg, \.html"):
        saver(Path("trace.png"))


# ---- loans, and the steps of a published example


def test_a_step_that_is_left_out_counts_and_has_its_reason() -> None:
    text = shown(forwarding(), 120, notes=f"{STEPS}\n9 never <= left out: here it is not needed")
    found = len(STEPS.strip().splitlines())
    assert f"{found} of {found + 1} steps of the note found" in text
    assert "left out: 9 never (here it is not needed)" in text
    assert "missing" not in text


def test_a_step_stands_beside_the_lane_of_who_took_it() -> None:
    story = tell(forwarding(), notes=STEPS)
    (row,) = (row for row in story.rows if row.notes and row.notes[0].text.startswith("6b"))
    assert row.notes == (Note("F@1", "6b F: delete x, and then it is all over with x"),)
    line = next(line for line in shown(forwarding(), 120, notes=STEPS).splitlines() if "6b" in line)
    assert line.startswith(" │ 6b F: delete x")

"""Every demo, played for real on every base: it ends, it shows its story, it leaves nothing."""

from __future__ import annotations

import dataclasses
import platform
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from farref.commands.demo import NAMES
from farref.examples.harness import Demo, elsewhere
from farref.trace import Recording, Story, read, tell
from farref.trace.notes import of_discipline, parsed
from farref.trace.view import Stage

from ..bases import BASES, SHARINGS, default, has_processes
from .kit import farref, piped

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.processes

NOTED = ("forward-owned", "return-owned")
"""Demos that play a published example, step by step."""
OBJECTS = {
    "lend-kept": 2,
    "kept-by-init": 2,
    "ring": 2,
    "nested": 2,
    "return-owned": 2,
    "alias-chain": 3,
    "alias-tree": 4,
    "early-calls": 5,
    "pipeline": 2,
    "owner-dies": 2,
}
"""Demos with more than one object."""
OWN = {name: Demo.named(name).sharing for name in NAMES}
MORE = [(name, "lend") for name in NOTED]
"""Played on every base, beside each demo in its own discipline."""
TIMED = ("elastic", "middle-dies", "owner-dies")
"""Demos that take seconds, and are not about a discipline."""
OTHERS = [
    each
    for each in product(NAMES, SHARINGS)
    if each not in [*OWN.items(), *MORE] and each[0] not in TIMED
]
"""Played on one base only."""


PLAY = """
import sys
from pathlib import Path
from farref.examples.harness import Demo, perform
from farref.trace import save

base, folder, *what = sys.argv[1:]
for each in what:
    name, sharing = each.split(":")
    save(perform(Demo.named(name), base, sharing), Path(folder, f"{each}.jsonl"))
"""


def play(base: str, folder: Path, what: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Story]:
    """Play demos, each in a discipline, one after the other, in a program of their own."""
    names = [":".join(each) for each in what]
    command = [sys.executable, "-c", PLAY, base, str(folder), *names]
    subprocess.run(command, check=True, timeout=100)
    return {each: read(folder / f"{name}.jsonl") for each, name in zip(what, names, strict=True)}


@pytest.fixture(scope="module", params=BASES)
def base(request: pytest.FixtureRequest) -> str:
    """One of the bases."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def played(base: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Story]:
    """All demos, in their own disciplines."""
    return play(base, tmp_path_factory.mktemp("demos"), [*OWN.items(), *MORE])


@pytest.fixture(scope="module")
def stories(played: dict[tuple[str, str], Story]) -> dict[str, Story]:
    """All demos in their own disciplines, by their names alone."""
    return {name: played[name, sharing] for name, sharing in OWN.items()}


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Story]:
    """All demos, in the disciplines that they are not about."""
    return play(default(), tmp_path_factory.mktemp("others"), OTHERS)


def check_end(story: Story, name: str) -> None:
    assert story.summary.left == ()
    lost = sum(each.lost for each in story.objects.values())
    assert story.summary.freed + lost == story.summary.objects == OBJECTS.get(name, 1)
    assert not lost or name == "owner-dies"
    assert story.problems == ()
    assert story.summary.missing == ()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left(stories: dict[str, Story], name: str) -> None:
    check_end(stories[name], name)


@pytest.mark.parametrize("name", NAMES)
def test_references_that_one_is_told_to_look_for_are_there(
    stories: dict[str, Story], name: str
) -> None:
    told = set(re.findall(r"\b(?:[A-H]|program)/\d+", Demo.named(name).look_for))
    there = stories[name].objects.values()
    assert told <= {stories[name].names.id(each.id) for each in there}


@pytest.mark.long
@pytest.mark.parametrize(("name", "sharing"), OTHERS)
def test_nothing_is_left_in_any_discipline(
    others: dict[tuple[str, str], Story], name: str, sharing: str
) -> None:
    check_end(others[name, sharing], name)


def test_the_survivors_of_a_kill_train_on(stories: dict[str, Story]) -> None:
    assert stories["elastic"].summary.user["Invoke"] >= 2 * (3 + 2 + 4)


def test_an_object_is_lost_with_its_owner_where_that_can_be_killed(
    base: str, stories: dict[str, Story]
) -> None:
    lost = stories["owner-dies"].summary.lost
    assert ("A/1, owned by B" in lost) == has_processes(base)


def test_an_orphan_makes_itself_known_and_goes_on(base: str, stories: dict[str, Story]) -> None:
    story = stories["middle-dies"]
    assert ("ForkRequest" in story.summary.control) == has_processes(base)
    assert story.summary.lost == ()
    kinds = [(record.kind, record.message) for record in story.records]
    if has_processes(base):  # C fetches after B's loan has ended
        buried = max(n for n, (kind, _) in enumerate(kinds) if kind == "buried")
        assert kinds.index(("send", "Fetch")) > buried


# ---- the examples of the borrowing note


@pytest.mark.parametrize("sharing", ["borrow", "lend"])
@pytest.mark.parametrize("name", NOTED)
def test_every_step_of_the_note_happens(
    played: dict[tuple[str, str], Story], name: str, sharing: str
) -> None:
    story = played[name, sharing]
    check_end(story, name)
    steps = [step for step, _ in parsed(of_discipline(Demo.named(name).steps, sharing))]
    assert [note.text for row in story.rows for note in row.notes] == steps
    assert story.summary.noted == len(steps) >= 12
    assert story.summary.control.total() <= 2


@pytest.mark.parametrize("name", NOTED)
def test_a_step_that_is_not_recorded_is_missing(
    played: dict[tuple[str, str], Story], name: str
) -> None:
    """Only steps that were found are printed: without its records a step is missing."""
    story = played[name, "borrow"]
    silent: set[str] = set()
    for at in {record.at for record in story.records}:
        steps = {
            other: [r for r in story.records if r.at == other]
            for other in {record.at for record in story.records} - {at}
        }
        silent |= set(tell(Recording(steps, notes=story.notes)).summary.missing)
    wanted = {f"{step} ({sentence})" for step, sentence in parsed(story.notes)}
    assert silent == wanted


def test_a_loan_that_is_not_kept_is_free(others: dict[tuple[str, str], Story]) -> None:
    for sharing, end in (("lend", "Delete"), ("borrow", "RefRemoved")):
        assert dict(others["owner-to-user", sharing].summary.control) == {}
        for name in ("user-to-user", "user-to-owner", "return-value"):
            assert dict(others[name, sharing].summary.control) == {"Ack": 1, end: 1}


# ---- aliases


def test_the_facts_of_the_aliasing_note_are_found(stories: dict[str, Story]) -> None:
    story = stories["alias-chain"]
    steps = [step for step, _ in parsed(Demo.named("alias-chain").steps)]
    assert sorted(note.text for row in story.rows for note in row.notes) == sorted(steps)
    assert story.summary.noted == len(steps) == 9


def test_a_second_fetch_of_an_alias_goes_where_the_value_is(stories: dict[str, Story]) -> None:
    fetches = [
        (record.peer[0], record.text("rref").rpartition("/")[2])
        for record in stories["alias-chain"].records
        if (record.kind, record.message) == ("send", "Fetch")
    ]
    assert [to for to, _ in fetches] == ["A", "C", "C"]


def test_several_aliases_of_one_object_are_shipped_once(stories: dict[str, Story]) -> None:
    story = stories["alias-tree"]
    values = [
        record
        for record in story.records
        if (record.kind, record.message) == ("send", "Reply")
        and story.names.of(record.at) == "B"
        and not record.fields.get("elsewhere")
    ]
    assert len(values) == 1
    assert story.summary.user["Fetch"] == 4


def test_dependent_calls_are_sent_before_any_is_answered(stories: dict[str, Story]) -> None:
    messages = [
        (record.kind, record.message)
        for record in stories["early-calls"].records
        if record.at.startswith("program") and record.user
    ]
    assert messages[:5] == [*[("send", "Create")] * 3, ("send", "Invoke"), ("receive", "Reply")]


def test_calls_on_an_alias_are_passed_on_and_then_made_directly(stories: dict[str, Story]) -> None:
    story = stories["early-calls"]
    calls = [
        record for record in story.records if (record.kind, record.message) == ("send", "Invoke")
    ]
    passed_on = [record for record in calls if record.text("relays")]
    assert passed_on
    assert {story.names.of(record.at) for record in passed_on} == {"A"}
    assert (story.names.of(calls[-1].peer), calls[-1].text("relays")) == ("B", "")


# ---- the messages of the protocol


COSTS: dict[tuple[str, str], dict[str, int]] = {
    ("return-value", "fork"): {"Ack": 1, "Delete": 1},
    ("user-to-owner", "fork"): {"Ack": 1, "ChildAck": 1, "Delete": 1},  # it comes home
    ("tell-user-to-owner", "fork"): {"Ack": 1, "ChildAck": 1, "Delete": 1},
    ("owner-to-user", "fork"): {"Delete": 1},
    ("tell-owner-to-user", "fork"): {"Delete": 1},
    ("tell-return-value", "fork"): {"Delete": 1},
    ("user-to-user", "fork"): {"Ack": 2, "ForkRequest": 1, "ChildAck": 1, "Delete": 2},
    # The second time C is confirmed, and makes no fork request.
    ("tell-user-to-user", "fork"): {"Ack": 2, "ForkRequest": 1, "ChildAck": 2, "Delete": 2},
    ("lend-kept", "lend"): {"Ack": 3, "ForkRequest": 1, "ChildAck": 1, "Delete": 3},
    ("forward-owned", "borrow"): {"NotifyRefRemoved": 1, "RefRemoved": 1},
    ("forward-owned", "lend"): {"Delete": 1},
    ("return-owned", "borrow"): {"RefRemoved": 1},
    ("return-owned", "lend"): {"Delete": 1},
}
STAGES = {
    "user-to-owner": [Stage.DELETED, Stage.HOME],
    "tell-user-to-owner": [Stage.DELETED, Stage.HOME],
    "tell-user-to-user": [Stage.DELETED, Stage.DELETED, Stage.JOINED],
}
"""The last stage of each fork of some demos."""


@pytest.mark.parametrize("what", COSTS, ids="-".join)
def test_the_control_messages_of_a_demo(
    played: dict[tuple[str, str], Story], what: tuple[str, str]
) -> None:
    assert dict(played[what].summary.control) == COSTS[what]


@pytest.mark.parametrize("name", STAGES)
def test_the_ends_of_the_forks_of_a_demo(stories: dict[str, Story], name: str) -> None:
    assert [fork.stage for fork in stories[name].forks.values()] == STAGES[name]


def test_user_code_does_not_wait_for_the_owner(stories: dict[str, Story]) -> None:
    """Unlike in the note: C's function starts beside its fork request, before B's ACK."""
    steps = [
        record.kind if record.kind == "run" else record.message
        for record in stories["user-to-user"].records
        if record.at.startswith("C@") and record.kind in ("run", "send", "receive")
    ]
    assert steps.index("run") < steps.index("Ack")


# ---- the faults of others


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("late-arrival", "the table was freed on its way, and the reader gets KeyError: "),
        ("uncounted-holder", "0 objects are counted, and the process that holds one gets KeyError"),
        ("kept-by-init", "no process has a proxy, but the server keeps 1 table"),
        ("reader-ends", "the next reader gets FileNotFoundError: "),
    ],
)
def test_a_demo_shows_what_goes_wrong_with_multiprocessing(name: str, says: str) -> None:
    """In `make demo`, too. If a Python repairs it, the demo says so, and this test fails there."""
    run = piped("demo", name)
    assert run.returncode == 0, run.stderr
    assert f"With multiprocessing: {says}" in " ".join(run.stdout.split())
    assert "nothing left" in run.stdout


def test_a_demo_says_if_multiprocessing_does_it_well() -> None:
    demo = dataclasses.replace(Demo.named("reader-ends"), fault=lambda: None)
    version = platform.python_version()
    assert elsewhere(demo) == f"With multiprocessing: it goes well on Python {version}."
    assert elsewhere(Demo.named("ring")) is None


def test_the_list_names_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the demo is started."""
    monkeypatch.setitem(sys.modules, "networkx", None)
    lines = farref("demo", columns=200).stdout.splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert "Needs networkx (pip install 'farref[examples]')." in rows["pagerank"]
    assert "Needs" not in rows["wordcount"]

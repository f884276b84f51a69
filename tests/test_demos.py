"""Every demo, played for real on every base: it ends, it shows its story, it leaves nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from farref.commands.demo import NAMES
from farref.trace import Story, read
from farref.trace.view import Stage

pytestmark = pytest.mark.processes

BASES = ("farrefBase", "multiprocTCPBase", "simpleSystemBase")


PLAY = """
import sys
from pathlib import Path
from farref.commands.demo import NAMES, find
from farref.commands.stage import perform
from farref.trace import save

for name in NAMES:
    save(perform(find(name), sys.argv[1]), Path(sys.argv[2], f"{name}.jsonl"))
"""


@pytest.fixture(scope="module", params=BASES)
def stories(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Story]:
    """All of them, played by a program of their own, one after the other."""
    folder = tmp_path_factory.mktemp("demos")
    subprocess.run([sys.executable, "-c", PLAY, request.param, str(folder)], check=True, timeout=90)
    return {name: read(folder / f"{name}.jsonl") for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left(stories: dict[str, Story], name: str) -> None:
    story = stories[name]
    assert story.summary.left == ()
    assert story.summary.freed == story.summary.objects == 1
    assert story.problems == ()


def control(stories: dict[str, Story], name: str) -> dict[str, int]:
    return dict(stories[name].summary.control)


def test_a_return_value_needs_one_ack(stories: dict[str, Story]) -> None:
    assert control(stories, "return-value") == {"Ack": 1, "Delete": 1}


@pytest.mark.parametrize("how", ["", "tell-"])
def test_a_reference_comes_home_by_a_child_ack_alone(stories: dict[str, Story], how: str) -> None:
    assert control(stories, f"{how}user-to-owner") == {"Ack": 1, "ChildAck": 1, "Delete": 1}
    stages = [fork.stage for fork in stories[f"{how}user-to-owner"].forks.values()]
    assert stages == [Stage.DELETED, Stage.HOME]


@pytest.mark.parametrize("name", ["owner-to-user", "tell-owner-to-user", "tell-return-value"])
def test_the_owner_shares_without_a_word(stories: dict[str, Story], name: str) -> None:
    assert control(stories, name) == {"Delete": 1}


def test_a_user_shares_with_a_user_by_a_fork_request(stories: dict[str, Story]) -> None:
    expected = {"Ack": 2, "ForkRequest": 1, "ChildAck": 1, "Delete": 2}
    assert control(stories, "user-to-user") == expected


def test_a_second_share_with_a_confirmed_user_needs_no_fork_request(
    stories: dict[str, Story],
) -> None:
    expected = {"Ack": 2, "ForkRequest": 1, "ChildAck": 2, "Delete": 2}
    assert control(stories, "tell-user-to-user") == expected
    stages = [fork.stage for fork in stories["tell-user-to-user"].forks.values()]
    assert stages == [Stage.DELETED, Stage.DELETED, Stage.JOINED]


def test_user_code_does_not_wait_for_the_owner(stories: dict[str, Story]) -> None:
    """Unlike in the note: C's function starts beside its fork request, before B's ACK."""
    steps = [
        record.kind if record.kind == "run" else record.message
        for record in stories["user-to-user"].records
        if record.at.startswith("C@") and record.kind in ("run", "send", "receive")
    ]
    assert steps.index("run") < steps.index("Ack")

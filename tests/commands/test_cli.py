"""The command `farref`: its help, its exit codes, its mistakes told without a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import farref.examples
from farref.cli import app
from farref.commands import demo
from farref.commands.demo import NAMES, PROGRAMS
from farref.examples import harness
from farref.trace import save, tell

from ..trace.recordings import user_to_user
from .kit import completed, in_a_terminal, piped, without_colours
from .kit import farref as command

COMMANDS = [each.callback.__name__ for each in app.registered_commands if each.callback]
CHOOSE = "Choose one of farrefBase, multiprocTCPBase, simpleSystemBase"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(tell(user_to_user(), "a title"), tmp_path / "t.jsonl")
    return tmp_path / "t.jsonl"


@pytest.mark.parametrize("what", [(), *((name,) for name in COMMANDS)])
def test_help_everywhere(what: tuple[str, ...]) -> None:
    run = command(*what, "--help")
    assert "<bool>" not in run.stdout
    assert run.returncode == 0
    assert "Usage: " in run.stdout
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("what", "paragraph"),
    [("ps", "Only your own. .* is installed."), ("run", "Node 0 .* a recipe for each.")],
)
def test_help_breaks_a_paragraph_only_where_the_terminal_ends(what: str, paragraph: str) -> None:
    lines = command(what, "--help", columns=400).stdout.splitlines()
    assert any(re.fullmatch(paragraph, line.strip()) for line in lines)


def test_a_key_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "new.key"
    made = command("key", str(file))
    assert (made.returncode, made.stderr) == (0, "")
    assert f"farref join ADDRESS --key {file}" in made.stdout
    content = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    again = command("key", str(file))
    assert (again.returncode, again.stdout) == (1, "")
    assert "exists already" in again.stderr
    assert file.read_bytes() == content
    nowhere = command("key", str(tmp_path / "no" / "folder"))
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "No such file or directory" in nowhere.stderr


def test_demos_are_listed_with_their_disciplines() -> None:
    run = command("demo")
    assert run.returncode == 0
    rows = json.loads(command("demo", "--json").stdout)
    assert [row["name"] for row in rows] == [*NAMES, *PROGRAMS]
    for row in rows:
        assert re.search(rf"^{row['name']} +{row['sharing']} +\S", run.stdout, re.MULTILINE)
        assert row["sentence"].endswith(".")
    assert {row["name"]: row["sharing"] for row in rows}["forward-owned"] == "borrow"


@pytest.mark.parametrize(
    ("words", "installed", "offers"),
    [
        ("farref demo tell-u", False, ["tell-user-to-owner", "tell-user-to-user"]),
        ("farref demo tell-user-to-u", True, ["tell-user-to-user"]),
        ("farref demo p", False, ["pipeline", "parameter-server", "pagerank", "photographs"]),
        ("farref demo forward-owned --sharing l", False, ["lend"]),
        ("farref demo --sharing ", False, ["lend", "borrow", "fork"]),
    ],
)
def test_words_are_completed(words: str, offers: list[str], *, installed: bool) -> None:
    assert completed(words, installed=installed) == offers


def test_the_disciplines_are_in_the_help() -> None:
    text = " ".join(command("demo", "--help").stdout.replace("│", " ").split())
    assert re.search(r"--sharing \S*lend\|borrow\|fork\S* How calls share the references", text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("demo", "nonsense"), "there is no demo 'nonsense'"),
        (("demo", "--save", "x.html"), "name of one traced demo"),
        (("demo", "all", "--save", "x.html"), "name of one traced demo"),
        (("demo", "wordcount", "--save", "x.html"), "name of one traced demo"),
        (("demo", "elastic", "--workers", "2"), "only programs take it: parameter-server"),
        (("demo", "pagerank", "--workers", "0"), "Invalid value for '--workers'"),
        (("demo", "return-value", "--save", "x.png"), "saved as one of .jsonl, .svg, .html"),
        (("demo", "return-value", "--sharing", "theft"), "'lend', 'borrow', 'fork'"),
        (("demo", "return-value", "--base", "nonsense"), f"no system base 'nonsense'. {CHOOSE}"),
        (("demo", "return-value", "--base", "multiprocUDPBase"), CHOOSE),
        (("join", "127.0.0.1", "--base", "nonsense"), CHOOSE),
        (("nonsense",), "No such command"),
    ],
)
def test_a_mistake_on_the_command_line_is_2(arguments: tuple[str, ...], says: str) -> None:
    run = command(*arguments)
    assert run.returncode == 2
    assert says in " ".join(run.stderr.replace("│", " ").split())
    assert "Traceback" not in run.stderr


def test_a_file_or_a_folder_is_shown_and_saved_again(saved: Path) -> None:
    page = saved.parent / "t.html"
    for source in (saved, saved.parent):
        run = command("trace", source, "--save", page)
        assert (run.returncode, run.stderr) == (0, f"saved {page}\n")
        assert run.stdout.startswith("a title\n")
        assert "├─ remote add() as A/1 ───" in run.stdout
        assert "remote add()" in page.read_text(encoding="utf-8")
    run = command("trace", saved, "--save", saved.parent / "no" / "t.html")
    assert run.returncode == 1
    assert "cannot be written: No such file" in run.stderr


def test_a_pipe_gets_no_control_characters(saved: Path) -> None:
    assert "\x1b" not in piped("trace", str(saved)).stdout
    plain = piped("trace", str(saved), PYTHONIOENCODING="ascii").stdout
    assert plain.isascii()
    assert "+- remote add() as A/1 ---" in plain


@pytest.mark.parametrize("width", [80, 120, 200])
def test_in_a_terminal_there_is_colour_and_nothing_wraps(saved: Path, width: int) -> None:
    code, text = in_a_terminal("trace", str(saved), width=width)
    assert code == 0
    assert "\x1b[" in text
    lines = without_colours(text)
    assert max(map(len, lines)) <= width
    assert any("├─ remote add()" in line for line in lines)


def test_no_color_is_obeyed_in_a_terminal(saved: Path) -> None:
    code, text = in_a_terminal("trace", str(saved), width=100, NO_COLOR="1")
    assert code == 0
    assert "38;5" not in text
    assert "[3" not in text


@pytest.mark.processes
def test_a_demo_in_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "t.html"
    code, text = in_a_terminal("demo", "return-value", "--save", str(file), width=100)
    assert code == 0
    assert "nothing left" in text
    assert file.is_file()


@pytest.mark.processes
def test_the_summary_of_a_demo_as_json() -> None:
    run = command("demo", "user-to-user", "--json", "--base", "simpleSystemBase")
    assert run.returncode == 0
    said = json.loads(run.stdout)
    assert said["left"] == []
    assert said["sharing"] == "fork"
    assert said["control"] == {"Ack": 2, "ForkRequest": 1, "ChildAck": 1, "Delete": 2}


@pytest.mark.processes
def test_a_demo_in_another_discipline() -> None:
    run = command("demo", "user-to-user", "--sharing", "lend", "--base", "simpleSystemBase")
    assert run.returncode == 0
    assert "[sharing: lend]" in run.stdout
    assert 'Played with sharing="lend"; the demo is written for "fork".' in run.stdout
    assert re.search(r"2 control messages +1 ACK · 1 delete", run.stdout)


EXAMPLES = {
    "fails": """'It cannot be played.'
import farref
SHARING = "lend"

def play(system):
    raise farref.WorkerDiedError("in it")
""",
    "misses": """'One of its steps does not happen.'
from farref.examples import return_value
SHARING, STEPS = "lend", "9 never <= H frees F/1"

def play(system):
    return_value.play(system)
""",
    "lacks": """'It needs a package.'
from farref.examples.harness import needed

with needed(__name__):
    import no_such_package
""",
    "keeps": """'Its workers keep what they are lent. It is right with three of them.'
import farref
from farref.examples.harness import Program, Verdict

KEPT = []

def keep(ref):
    KEPT.append(ref)

class Keeps(Program):
    def together(self, system, workers, progress):
        ref = farref.RRef([1])
        for number in range(workers):
            farref.rpc_sync(system.worker(f"w{number}"), keep, (ref,))
        return workers, [*system.counters()["program"].control]

    def alone(self, progress):
        return None

    def judge(self, found, expected):
        return Verdict(found[0] == 3, {"control": found[1]})

PROGRAM = Keeps
""",
}
"""Demos and programs of these tests."""


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The examples of these tests are among those that the command finds."""
    for name, text in EXAMPLES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(farref.examples, "__path__", [*farref.examples.__path__, str(tmp_path)])
    monkeypatch.setattr(demo, "NAMES", ("return-value", "fails", "misses"))
    monkeypatch.setattr(demo, "PROGRAMS", ("lacks", "keeps"))
    return monkeypatch


IN_PROCESS = ("--base", "simpleSystemBase")


@pytest.mark.processes
@pytest.mark.usefixtures("offered")
def test_a_program_has_the_workers_and_the_discipline_of_the_command_line() -> None:
    keeps = ("demo", "keeps", *IN_PROCESS)
    run = command(*keeps, "--sharing", "borrow", "--workers", "3", "--json")
    said = json.loads(run.stdout)
    assert (run.returncode, said["workers"], said["same"]) == (0, 3, True)
    assert said["control"] == ["NotifyRefRemoved"]
    wrong = command(*keeps, "--workers", "1")
    assert wrong.returncode == 1
    assert re.search(r"^1 worker \d+\.\d\d s, with their start and end", wrong.stdout, re.MULTILINE)


@pytest.mark.processes
def test_the_tour_goes_on_and_says_what_came_of_it(offered: pytest.MonkeyPatch) -> None:
    run = command("demo", "all", "--workers", "3", *IN_PROCESS)
    assert run.returncode == 1
    assert "2 of 5 succeeded\nleft out: lacks\nfailed: fails, misses\n" in run.stdout
    assert "missing: 9 never (H frees F/1)" in run.stdout
    missing = f"this program needs no_such_package, which is not installed: {harness.INSTALL}"
    assert f"fails: WorkerDiedError: in it\nlacks was left out: {missing}\n" in run.stderr
    offered.setattr(demo, "NAMES", ("return-value",))
    run = command("demo", "all", "--workers", "3", "--json", *IN_PROCESS)
    assert run.returncode == 0, "what is left out is no failure"
    assert [each["name"] for each in json.loads(run.stdout)] == ["return-value", "keeps"]


@pytest.mark.processes
def test_a_trace_is_shown_at_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slowly, line by line, after the hint; fast, at once."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    play = ("demo", "return-value", *IN_PROCESS)
    slow = command(*play, "--slow").stdout.splitlines()
    assert pauses.count(0.5) > 5
    pauses.clear()
    for pace in ("--fast",), ():
        fast = command(*play, *pace).stdout.splitlines()
        assert sorted(fast) == sorted(slow)
        assert fast.index(slow[0]) > len(fast) // 2
    assert 0.5 not in pauses

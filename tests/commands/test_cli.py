"""The command `farref`: its help, its exit codes, its mistakes told without a traceback."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from farref.cli import app
from farref.commands import demo
from farref.commands.demo import NAMES, PROGRAMS
from farref.examples import forward_owned, harness, wordcount
from farref.protocol.errors import WorkerDiedError
from farref.protocol.sharing import Sharing
from farref.trace import save, tell

from ..trace.recordings import user_to_user

CHOOSE = "Choose one of farrefBase, multiprocTCPBase, simpleSystemBase"
FARREF = [sys.executable, "-m", "farref"]


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


def farref(*arguments: str, columns: int = 100) -> Finished:
    """Run the command in this process; every exception except an exit is raised."""
    env = {"COLUMNS": str(columns)}
    result = CliRunner().invoke(app, arguments, env=env, prog_name="farref")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Finished(result.exit_code, result.stdout, result.stderr)


def piped(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it as a program of its own, with its output into a pipe."""
    return subprocess.run(
        [*FARREF, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "100", **env},
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(tell(user_to_user(), "a title"), tmp_path / "t.jsonl")
    return tmp_path / "t.jsonl"


@pytest.mark.parametrize("what", [(), ("demo",), ("trace",)])
def test_help_everywhere(what: tuple[str, ...]) -> None:
    run = farref(*what, "--help")
    assert run.returncode == 0
    assert "Usage: " in run.stdout
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("what", "paragraph"),
    [("ps", "Only your own. .* is installed."), ("run", "Node 0 .* a recipe for each.")],
)
def test_help_breaks_a_paragraph_only_where_the_terminal_ends(what: str, paragraph: str) -> None:
    lines = farref(what, "--help", columns=400).stdout.splitlines()
    assert any(re.fullmatch(paragraph, line.strip()) for line in lines)


def test_version() -> None:
    assert re.fullmatch(r"farref \d+\.\d+\.\d+\S*\n", farref("--version").stdout)


def test_a_key_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "new.key"
    made = farref("key", str(file))
    assert (made.returncode, made.stderr) == (0, "")
    assert f"farref join ADDRESS --key {file}" in made.stdout
    content = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    again = farref("key", str(file))
    assert (again.returncode, again.stdout) == (1, "")
    assert "exists already" in again.stderr
    assert file.read_bytes() == content
    nowhere = farref("key", str(tmp_path / "no" / "folder"))
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "No such file or directory" in nowhere.stderr


def test_demos_are_listed() -> None:
    run = farref("demo")
    assert run.returncode == 0
    for name in (*NAMES, *PROGRAMS):
        assert re.search(rf"^{name} +(lend|borrow|fork|any) +\S", run.stdout, re.MULTILINE)


def test_demos_are_listed_as_json() -> None:
    rows = json.loads(farref("demo", "--json").stdout)
    assert [row["name"] for row in rows] == [*NAMES, *PROGRAMS]
    assert all(row["sentence"].endswith(".") for row in rows)
    assert {row["name"]: row["sharing"] for row in rows}["forward-owned"] == "borrow"


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("farref demo tell-u", ["tell-user-to-owner", "tell-user-to-user"]),
        ("farref demo p", ["pipeline", "parameter-server", "pagerank", "photographs"]),
        ("farref demo forward-owned --sharing l", ["lend"]),
        ("farref demo --sharing ", [*get_args(Sharing)]),
    ],
)
def test_words_are_completed(words: str, offers: list[str]) -> None:
    place = len(words.split(" ")) - 1
    env = {"_FARREF_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    run = subprocess.run(
        [shutil.which("farref", path=str(Path(sys.executable).parent)) or "farref"],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **env},
    )
    assert run.stdout.split() == offers


def test_the_disciplines_are_in_the_help() -> None:
    text = " ".join(farref("demo", "--help").stdout.replace("│", " ").split())
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
    run = farref(*arguments)
    assert run.returncode == 2
    assert says in " ".join(run.stderr.replace("│", " ").split())
    assert "Traceback" not in run.stderr


def test_a_saved_trace_is_shown(saved: Path) -> None:
    run = farref("trace", str(saved))
    assert run.returncode == 0
    assert run.stdout.startswith("a title\n")
    assert "├─ remote add() as A/1 ───" in run.stdout


def test_a_folder_is_shown_and_saved_again(saved: Path) -> None:
    page = saved.parent / "t.html"
    run = farref("trace", str(saved.parent), "--save", str(page))
    assert (run.returncode, run.stderr) == (0, f"saved {page}\n")
    assert "remote add()" in page.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_told(saved: Path) -> None:
    run = farref("trace", str(saved), "--save", str(saved.parent / "no" / "t.html"))
    assert run.returncode == 1
    assert "cannot be written: No such file" in run.stderr


def test_a_pipe_gets_no_control_characters(saved: Path) -> None:
    assert "\x1b" not in piped("trace", str(saved)).stdout
    plain = piped("trace", str(saved), PYTHONIOENCODING="ascii").stdout
    assert plain.isascii()
    assert "+- remote add() as A/1 ---" in plain


def in_a_terminal(*arguments: str, width: int, **env: str) -> tuple[int, str]:
    """Run `farref` in a pseudo-terminal of *width* columns; returns its exit code and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable,
            [*FARREF, *arguments],
            {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width), **env},
        )
    written, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:  # Linux: the other end is closed
                chunk = b""
            if not chunk:
                break
            written += chunk
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written.decode()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_in_a_terminal_there_is_colour_and_nothing_wraps(saved: Path, width: int) -> None:
    code, text = in_a_terminal("trace", str(saved), width=width)
    assert code == 0
    assert "\x1b[" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
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
    run = piped("demo", "user-to-user", "--json", "--base", "simpleSystemBase")
    assert run.returncode == 0
    said = json.loads(run.stdout)
    assert said["left"] == []
    assert said["sharing"] == "fork"
    assert said["control"] == {"Ack": 2, "ForkRequest": 1, "ChildAck": 1, "Delete": 2}


@pytest.mark.processes
def test_a_demo_in_another_discipline() -> None:
    run = piped("demo", "user-to-user", "--sharing", "lend", "--base", "simpleSystemBase")
    assert run.returncode == 0
    assert "[sharing: lend]" in run.stdout
    assert 'Played with sharing="lend"; the demo is written for "fork".' in run.stdout
    assert re.search(r"2 control messages +1 ACK · 1 delete", run.stdout)


def test_a_program_in_another_discipline(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[object] = []

    def do(made: object, workers: object, **options: object) -> harness.Comparison:
        played.append((type(made), workers, options["sharing"]))
        return harness.Comparison(1, 1.0, 1.0, harness.Verdict(len(played) < 2, {}))

    monkeypatch.setattr(harness, "do", do)
    run = farref("demo", "wordcount", "--sharing", "borrow", "--workers", "3")
    assert run.returncode == 0
    assert "1 worker 1.00 s, with their start and end" in run.stdout
    assert farref("demo", "wordcount").returncode == 1
    assert played == [(wordcount.WordCount, 3, "borrow"), (wordcount.WordCount, None, None)]


@pytest.mark.processes
def test_the_tour_goes_on_and_says_what_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str) -> None:
        raise harness.MissingPackageError(f"{name} wants more")

    def play(name: str, *_: object, **__: object) -> None:
        raise WorkerDiedError(f"in {name}")

    monkeypatch.setattr(demo, "NAMES", ("return-value",))
    monkeypatch.setattr(demo, "PROGRAMS", ("pagerank",))
    monkeypatch.setattr(harness, "make", make)
    run = farref("demo", "all", "--base", "simpleSystemBase")
    assert run.returncode == 0
    assert "1 of 2 succeeded\nleft out: pagerank\n" in run.stdout
    assert run.stderr == "pagerank was left out: pagerank wants more\n"
    (figures,) = json.loads(farref("demo", "all", "--json", "--base", "simpleSystemBase").stdout)
    assert (figures["name"], figures["left"]) == ("return-value", [])
    monkeypatch.setattr(demo, "_play", play)
    run = farref("demo", "all")
    assert run.returncode == 1
    assert "0 of 2 succeeded\nfailed: return-value, pagerank\n" in run.stdout


def test_a_trace_is_shown_at_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slowly, line by line, after the hint; fast, at once."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    play = ("demo", "return-value", "--base", "simpleSystemBase")
    slow = farref(*play, "--slow").stdout.splitlines()
    assert pauses.count(0.5) > 5
    pauses.clear()
    for pace in ("--fast",), ():
        fast = farref(*play, *pace).stdout.splitlines()
        assert sorted(fast) == sorted(slow)
        assert fast.index(slow[0]) > len(fast) // 2
    assert 0.5 not in pauses


@pytest.mark.processes
def test_a_missing_step_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_owned, "STEPS", "9 never <= H frees F/1")
    run = farref("demo", "forward-owned")
    assert run.returncode == 1
    assert "missing: 9 never (H frees F/1)" in run.stdout

"""Damaged files and command lines: an error that names the input, and no other error."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from farref import System, SystemDownError
from farref.actors.base import lives
from farref.actors.hosting import directory
from farref.cli import app
from farref.commands.demo import NAMES
from farref.trace import TraceError, read, save, tell
from farref.trace.replay import Player

from ..protocol.counting import World, random_program
from ..trace.recordings import user_to_user
from .cases import cases, damaged

VALUES: tuple[Any, ...] = (None, True, -1, 1 << 70, 1.5, "", "x", "A@1/1", [], [[]], ["A@1"], {})


def other(rng: random.Random, value: Any) -> Any:
    """*value*, JSON, with a part replaced, dropped or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        match rng.randrange(4):
            case 0:
                return {each: v for each, v in value.items() if each != key}
            case 1:
                return {**value, rng.choice(("kind", "at", "loans", "new")): rng.choice(VALUES)}
            case _:
                return {**value, key: other(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], other(rng, value[place]), *value[place + 1 :]]
    return rng.choice(VALUES)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """Runs command lines. It makes the commands once: typer takes longer for that than they run."""
    command = typer.main.get_command(app)
    monkeypatch.setattr("typer.testing._get_command", lambda _: command)
    return CliRunner()


def test_traces(tmp_path: Path, runner: CliRunner) -> None:
    path = tmp_path / "t.jsonl"
    save(tell(user_to_user(), "a title"), path)
    whole = path.read_bytes()
    lines = whole.decode().splitlines()
    shown = refused = 0
    for case in cases("traces"):
        with case as rng:
            if rng.random() < 0.5:
                number = rng.randrange(len(lines))
                line = json.dumps(other(rng, json.loads(lines[number])))
                path.write_text("\n".join([*lines[:number], line, *lines[number + 1 :]]) + "\n")
            elif rng.random() < 0.5:
                path.write_bytes(damaged(rng, whole))
            else:
                rng.shuffle(mixed := list(lines))
                path.write_text("\n".join(mixed[: rng.randint(0, len(mixed))]))
            run = runner.invoke(app, ["trace", str(path)], env={"COLUMNS": "100"})
            if run.exception is not None and not isinstance(run.exception, SystemExit):
                raise run.exception
            assert run.exit_code in (0, 1)
            shown += run.exit_code == 0
            refused += run.exit_code == 1
            if run.exit_code:
                assert run.stderr.startswith("farref trace: ")
                with pytest.raises(TraceError):
                    read(path)
    assert shown
    assert refused


def test_rows(tmp_path: Path) -> None:
    """Damaged rows of endpoints: a `TraceError`, or a story that can be told."""
    random_program(World("borrow", trace=str(tmp_path)), 1).read()
    files = {path: path.read_bytes() for path in sorted(tmp_path.glob("*.jsonl"))}
    told = refused = 0
    for case in cases("rows"):
        with case as rng:
            path = rng.choice(list(files))
            if rng.random() < 0.7:
                lines = files[path].splitlines()
                number = rng.randrange(len(lines))
                lines[number] = json.dumps(other(rng, json.loads(lines[number]))).encode()
                path.write_bytes(b"".join(line + b"\n" for line in lines))
            else:
                path.write_bytes(damaged(rng, files[path]))
            try:
                story = read(tmp_path)
                player = Player()
                for record in story.records:
                    player.take(record)
                told += 1
            except TraceError:
                refused += 1
            path.write_bytes(files[path])
    assert told
    assert refused


def test_directory(monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> None:
    """The damaged entry of a running system: `SystemDownError`, and others are still found."""
    monkeypatch.setattr(directory, "START_PATIENCE", 0.01)
    entry = {
        "base": "simpleSystemBase",
        "pid": os.getpid(),
        "started": lives.started(os.getpid()),
        "door": {},
    }
    directory.add("good", entry)
    directory.add("bad", entry)
    path = own_folder / "bad.json"
    whole = path.read_bytes()
    for case in cases("directory"):
        with case as rng:
            if rng.random() < 0.6:
                path.write_text(json.dumps(other(rng, entry)))
            else:
                path.write_bytes(damaged(rng, whole))
            with pytest.raises(SystemDownError):
                System.attach("bad", timeout=1)
            assert directory.find("good") == entry
    path.unlink(missing_ok=True)
    with pytest.raises(SystemDownError, match="good"):
        System.attach("bad")


WORDS = (
    "demo", "trace", "--help", "--version", "--save", "--sharing", "lend", "borrow", "-", "--", "",
    "no such file", "/dev/null", "/", "x.html", "x.txt", "--save=", "--base", "\0", "\udcff",
    "9" * 50,
)  # fmt: skip


def test_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: CliRunner) -> None:
    """The error is one line, with exit code 1 or 2 and no traceback."""
    monkeypatch.chdir(tmp_path)
    assert not set(WORDS) & set(NAMES)
    for case in cases("arguments"):
        with case as rng:
            arguments = [rng.choice(WORDS) for _ in range(rng.randint(0, 5))]
            run = runner.invoke(app, arguments, env={"COLUMNS": "100"}, prog_name="farref")
            if run.exception is not None and not isinstance(run.exception, SystemExit):
                raise run.exception
            assert run.exit_code in (0, 1, 2)
            assert "Traceback" not in run.output

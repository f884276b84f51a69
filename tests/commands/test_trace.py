"""`farref trace` in use: on files and on running systems, good ones and bad ones."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import farref
from farref import System
from farref.actors.core.current import frame
from farref.actors.recording.tracing import FORMAT
from farref.trace import read
from farref.trace.replay import Player
from farref.trace.show import NAMED
from farref.tracetest.files import differences

from ..actors.cycles.rings import ring_of
from ..actors.helpers import hold
from ..trace.recordings import rows, user_to_user
from ..waiting import eventually
from .kit import FARREF, PATIENCE, Terminal
from .kit import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOP = f"shop-{os.getpid()}"


def run(*arguments: object, code: int = 0, columns: int = 80) -> str:
    """The command's output on both streams, or its exit message."""
    done = command("trace", *arguments, columns=columns)
    assert done.returncode == code, done
    return done.stdout + done.stderr


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.jsonl"
    lines = (line for of_one in rows(user_to_user()).values() for line in of_one)
    join = f'["join",0.0,["C",3],{FORMAT},"lend",{{}}]'
    path.write_text("".join(f"{line}\n" for line in (join, *lines)), encoding="utf-8")
    return path


# ---- a saved trace


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_part_of_it_fits_every_width(saved: Path, width: int) -> None:
    text = run(saved, "--ref", "A/1", "--worker", "C", columns=width)
    assert "[only A/1 at C]" in text
    assert "fork" in text
    assert "add()" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_json_has_each_step_with_the_names_of_its_fields(saved: Path) -> None:
    lines = [json.loads(line) for line in run(saved, "--json").splitlines()]
    recorded = [json.loads(line) for line in saved.read_text(encoding="utf-8").splitlines()]
    printed = Counter((each["kind"], each["time"]) for each in lines)
    assert Counter((kind, time) for kind, time, *_ in recorded if kind != "trace") <= printed
    (one, *_) = (each for each in lines if each["kind"] == "send")
    assert {"at", "peer", "number", "message"} <= one.keys()
    only = run(saved, "--json", "--worker", "C").splitlines()
    assert 0 < len(only) < len(lines)


def test_exports_go_to_stdout_or_a_file(saved: Path, tmp_path: Path) -> None:
    assert json.loads(run(saved, "--export", "perfetto"))["traceEvents"]
    events = tmp_path / "events.json"
    assert f"saved {events}" in run(saved, "--export", "perfetto", "--to", events)
    assert json.loads(events.read_text(encoding="utf-8"))["traceEvents"]
    there = tmp_path / "a/b"
    assert "cannot be written: " in run(saved, "--export", "perfetto", "-o", there, code=1)


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("{saved}", "--ref", "A/9"), 1, "there is no reference A/9 in this trace; there are A/1"),
        (
            ("{saved}", "--worker", "Z"),
            1,
            "there is no endpoint Z in this trace; there are A, B, C",
        ),
        (("{saved}", "--export", "test"), 1, "it lacks the beginning of A@1"),
        (("{saved}", "--export", "test", "--ref", "A/1"), 2, "a test needs the whole trace"),
        (("{saved}", "--to", "x"), 2, "it is for an --export"),
        (("{saved}", "--json", "--export", "perfetto"), 2, "choose one of"),
        (("{saved}", "--seconds", "1"), 2, "it is for a running system"),
        (("{saved}", "--export", "pdf"), 2, "perfetto"),
        (("nowhere",), 1, "there is no trace at nowhere, and no system of that name: no system"),
        ((), 1, "name a system or a saved trace: no system of yours runs"),
    ],
)
def test_what_cannot_be_done_is_said(
    saved: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    text = run(*(each.format(saved=saved) for each in arguments), code=code)
    assert says in " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x89PNG\r\n\x1a\n\xff\n", "bad.jsonl is not a trace: line 1 is not text"),
        (b"hello\n", "bad.jsonl, line 1, is not a step of a trace: JSON is malformed"),
        (b'["jo', "holds no steps"),
        (b'["join",1.0,["A",1],%d,"lend",{}]\n' % FORMAT, "nothing happened during"),
    ],
    ids=["binary", "text", "torn", "quiet"],
)
def test_what_is_no_trace_is_said(tmp_path: Path, content: bytes, says: str) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    text = run(bad, code=1)
    assert text.startswith("farref trace: ")
    assert says in " ".join(text.split())


def test_a_long_trace_is_printed_to_its_end_only(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    line = '["free",1.0,["A",1],[["A",1],%d]]\n'
    path.write_text("".join(line % number for number in range(1, 3001)), encoding="utf-8")
    text = run(path)
    assert "(2000 steps before these: --all shows them)" in text
    assert "frees A/2001" in text
    assert "frees A/2000\n" not in text
    assert "frees A/1\n" in run(path, "--all")


def test_of_much_that_is_left_some_is_named(tmp_path: Path) -> None:
    path = tmp_path / "left.jsonl"
    request = '["send",1.0,["A",1],["B",1],%d,["ForkRequest",[["B",1],%d],'
    request += '[["a-name-that-makes-lines-go-on",1],%d]],null,null]\n'
    path.write_text("".join(request % (n, n, n) for n in range(1, 31)), encoding="utf-8")
    text = run(path)
    assert text.count("     left: ") == NAMED + 1
    whole = run(path, "--all").count("     left: ")
    assert f"     left: {whole - NAMED} more, which --all shows\n" in text
    assert whole >= 30
    lines = text.splitlines()
    assert all(len(each) <= 80 for each in lines)
    after = lines.index(next(each for each in lines if each.startswith("     left: ")))
    assert all(each.startswith("     ") for each in lines[after:])  # the continuation lines, too


def test_a_search_for_rings_is_one_row_without_all(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    look = '["send",1.0,["A",1],["B",1],1,["WhoHolds",1,[[["B",1],1]],false],null,null]\n'
    path.write_text(look, encoding="utf-8")
    assert "ring search: 1 message" in run(path, columns=120)
    assert "who holds B/1?" in run(path, "--all", columns=120)


# ---- a running system


def is_recorded() -> bool:
    """Whether this process's endpoint records."""
    return frame().core.tracer is not None


def recorded() -> list[bool]:
    """Of each endpoint of the shop."""
    return [is_recorded(), *(farref.rpc_sync(name, is_recorded) for name in "BC")]


def work() -> None:
    ref = farref.remote("B", str)
    farref.rpc_sync("C", id, args=(ref,))


def lengthy() -> None:
    pass


lengthy.__name__ = "f" * 100_000  # it is the label of each call


@pytest.fixture
def shop(own_folder: Path) -> Iterator[System]:
    with System(name=SHOP) as system:
        system.worker("B"), system.worker("C")
        yield system


@contextmanager
def viewing(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A viewer of the shop, which records."""
    with subprocess.Popen(
        [*FARREF, "trace", SHOP, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as viewer:
        try:
            eventually(lambda: all(recorded()) or viewer.poll() is not None, patience=PATIENCE)
            yield viewer
        finally:
            viewer.kill()


@pytest.mark.processes
@pytest.mark.usefixtures("shop")
def test_a_system_is_recorded_while_it_is_watched_and_an_incident_becomes_a_test(
    tmp_path: Path,
) -> None:
    file, page, end = tmp_path / "live.jsonl", tmp_path / "live.txt", tmp_path / "end"
    held = farref.remote("B", str)  # it has tables before anybody watches
    held.to_here()
    with viewing("--json"):
        pass
    eventually(lambda: not any(recorded()))  # the viewer is known to be dead
    with viewing("--seconds", "1") as viewer:
        out, err = viewer.communicate(timeout=PATIENCE)
    assert "   0 of 0 objects freed\n" in out, err  # no step is about `held`, which is left
    call = farref.rpc_async("B", hold, (end,))  # and a call is under way
    with viewing("--seconds", "4", "--save", str(file)) as viewer:
        end.touch()
        call.result()
        kept = farref.remote("B", str)
        while True:  # as long as it watches
            work()
            try:
                out, err = viewer.communicate(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            break
    assert viewer.returncode == 0, err
    assert f"watching {SHOP}" in err
    assert f"{SHOP}, while it was watched." in out
    assert "frees program/" in out
    assert "left:" not in out  # the system goes on, and so does what it holds
    # At least `kept`: the end may also come in the midst of `work`.
    assert re.search(r"\n     still there when the recording ended: \d+ objects?, \d+ ref", out)
    eventually(lambda: not any(recorded()))
    story, player = read(file), Player()
    for record in story.records:
        player.take(record)
    assert player.broken == {}
    tables = " ".join(line for lane in story.lanes for line in player.tables(lane))
    assert f"B owns {held.id}: resolved" in tables
    run(file, "--export", "test", "--to", page)
    assert differences(page) == ""
    text = page.read_text(encoding="utf-8")
    assert "\ngiven program {" in text
    assert '"dead":["Dead",["firsts",["list",' in text
    del held, kept


@pytest.mark.processes
@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_search_for_rings_is_one_row_of_the_live_picture(shop: System, width: int) -> None:
    with Terminal() as terminal:
        terminal.open("w", shlex.join([*FARREF, "trace", SHOP]), width)
        eventually(lambda: all(recorded()), patience=PATIENCE)
        ring_of("B", "C")
        eventually(shop.collect)
        shown = terminal.screen("* ring search")
        assert "'s view" in shown
        assert not re.search(r"who holds|look|only values|alive|╌ cut", shown)
        assert max(map(len, shown.splitlines())) <= width
        terminal.tmux("send-keys", "-t", "w", "C-c")
        assert "left:" not in terminal.screen(" of 2 objects freed")


@pytest.mark.processes
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_stays_on_when_the_viewer_dies(how: signal.Signals) -> None:
    with viewing("--json") as viewer:
        assert viewer.stdout is not None
        assert json.loads(viewer.stdout.readline())["kind"] == "join"
        viewer.send_signal(how)
        viewer.communicate(timeout=PATIENCE)
    eventually(lambda: not any(recorded()))


@pytest.mark.processes
@pytest.mark.usefixtures("shop")
def test_a_viewer_that_takes_nothing_costs_a_buffer_and_no_more() -> None:
    """What comes when the buffer is full is dropped, and then the trace begins anew."""
    calls = 400
    with viewing("--json") as viewer:
        for _ in range(calls):  # meanwhile the viewer waits until somebody reads its output
            farref.rpc_sync("B", lengthy)
        assert viewer.stdout is not None
        kinds: Counter[str] = Counter()
        for line in viewer.stdout:
            step = json.loads(line)
            kinds[step["kind"]] += step["at"].startswith("program@")
            if kinds["join"] == 2 or kinds["send"] == calls:
                break
    assert kinds["join"] == 2
    assert 0 < kinds["send"] < calls

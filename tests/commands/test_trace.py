"""`farref trace` in use: on files and on running systems, good ones and bad ones."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import farref
from farref import System
from farref.actors.api.viewing import Watching
from farref.actors.core.current import frame, running_in
from farref.actors.core.threads import Threads
from farref.actors.inspect.watching import KEPT, Stream
from farref.actors.recording.encoding import FORMAT
from farref.actors.recording.recorded import Recorded
from farref.actors.wire.messages import Traced, WorkerInfo
from farref.cli import app
from farref.protocol.ids import WorkerId
from farref.trace.records import group, parse
from farref.trace.replay import Player
from farref.trace.show import NAMED
from farref.trace.story import tell
from farref.tracetest.files import differences

from ..trace.recordings import rows, user_to_user
from ..waiting import eventually

PATIENCE = 60.0  # seconds; `farref` alone takes several to start on a busy machine
SHOP = f"shop-{os.getpid()}"


def run(*arguments: object, code: int = 0) -> str:
    """The command's output on both streams, or its exit message."""
    result = CliRunner().invoke(app, ["trace", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.jsonl"
    lines = (line for of_one in rows(user_to_user()).values() for line in of_one)
    join = f'["join",0.0,["C",3],{FORMAT},"lend",{{}}]'
    path.write_text("".join(f"{line}\n" for line in (join, *lines)), encoding="utf-8")
    return path


# ---- a saved trace


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_part_of_it_fits_every_width(saved: Path, width: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = run(saved, "--ref", "A/1", "--worker", "C")
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


# ---- a running system


def is_recorded() -> bool:
    """Whether this process's endpoint records."""
    endpoint = frame().core
    return endpoint.tracer is not None or isinstance(endpoint.context, Recorded)


def work() -> None:
    ref = farref.remote("B", str)
    farref.rpc_sync("C", id, args=(ref,))


@pytest.fixture
def shop(own_folder: Path) -> Iterator[System]:
    with System(name=SHOP) as system:
        system.worker("B"), system.worker("C")
        yield system


def recorded_anywhere() -> bool:
    return is_recorded() or any(farref.rpc_sync(name, is_recorded) for name in "BC")


def of_kind(watching: Watching, lines: list[str], kind: str) -> int:
    """The number of *lines*, and of those that came since, that are of *kind*."""
    lines += watching.lines(0.1)
    return sum(step.kind == kind for line in lines for step in parse(line))


def until(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@pytest.mark.processes
def test_a_system_is_recorded_only_while_it_is_watched(shop: System, tmp_path: Path) -> None:
    held = farref.remote("B", str)  # it has tables before anybody watches
    held.to_here()
    end = tmp_path / "end"
    call = farref.rpc_async("B", until, (str(end),))  # and a call is under way
    assert not recorded_anywhere()
    lines: list[str] = []
    with Watching(System.attach(SHOP)) as watching:
        eventually(lambda: of_kind(watching, lines, "join") == 3)
        end.touch()
        call.result()
        with running_in(shop.endpoint.core):  # and not the viewer's
            assert is_recorded()
            assert farref.rpc_sync("B", is_recorded)
            work()
        eventually(lambda: of_kind(watching, lines, "free") >= 1)
    farref.rpc_sync("B", int)
    eventually(lambda: not recorded_anywhere())
    story = tell(group(chain.from_iterable(map(parse, lines))))
    player = Player()
    for record in story.records:
        player.take(record)
    assert player.broken == {}
    tables = " ".join(line for lane in story.lanes for line in player.tables(lane))
    assert f"B owns {held.id}: resolved" in tables
    del held


@pytest.mark.processes
def test_the_command_watches_and_an_incident_becomes_a_test(shop: System, tmp_path: Path) -> None:
    file, page = tmp_path / "live.jsonl", tmp_path / "live.txt"
    with subprocess.Popen(
        [sys.executable, "-m", "farref", "trace", "--seconds", "4", "--save", str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as viewer:  # fmt: skip
        try:
            eventually(recorded_anywhere)
            while viewer.poll() is None:  # as long as it watches
                work()
                time.sleep(0.2)
            out, err = viewer.communicate(timeout=60)
        finally:
            viewer.kill()
    assert viewer.returncode == 0, err
    assert f"watching {SHOP}" in err
    assert f"{SHOP}, while it was watched." in out
    assert "frees program/" in out
    eventually(lambda: not recorded_anywhere())
    run(file, "--export", "test", "--to", page)
    assert differences(page) == ""
    assert "\ngiven program {" in page.read_text(encoding="utf-8")


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_stays_on_when_the_viewer_dies(shop: System, how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "farref", "trace", SHOP, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as viewer:  # fmt: skip
        try:
            assert viewer.stdout is not None
            first = json.loads(viewer.stdout.readline())
            assert first["kind"] == "join"
            assert recorded_anywhere()
            viewer.send_signal(how)
            viewer.communicate(timeout=PATIENCE)
        finally:
            viewer.kill()
    eventually(lambda: not recorded_anywhere())


class FakePort:
    def __init__(self) -> None:
        self.posted: list[Traced] = []

    def post(self, _: object, message: Traced) -> None:
        self.posted.append(message)


class FakeEndpoint:
    """The parts of an endpoint that a `Stream` needs."""

    def __init__(self) -> None:
        self.me = WorkerId("A", 1)
        self.port = FakePort()
        self.threads = Threads()


def test_a_viewer_that_takes_nothing_costs_a_buffer_and_no_more() -> None:
    endpoint: Any = FakeEndpoint()
    stream = Stream(endpoint, WorkerInfo(endpoint.me, endpoint.me))
    line = b"x" * 1023 + b"\n"
    stream.store(line)
    eventually(lambda: endpoint.port.posted)
    for _ in range(2 * KEPT // len(line)):
        stream.store(line)
    assert [each.number for each in endpoint.port.posted] == [1]
    assert stream._size <= KEPT
    assert stream.full
    assert not stream.begin_anew(), "what came before the gap goes first"
    for number in range(1, 1000):
        stream.taken(number)
    assert sum(len(each.lines) for each in endpoint.port.posted) <= KEPT + len(line)
    assert stream.begin_anew()
    stream.store(b"after\n")
    eventually(lambda: endpoint.port.posted[-1].lines == "after\n")
    stream.close()

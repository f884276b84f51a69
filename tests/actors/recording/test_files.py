"""The rows that endpoints write to files: no kill, full disk or fork loses any of them."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import farref
from farref import System, WorkerDiedError
from farref.actors.recording import steps
from farref.actors.recording.recorded import Recorded
from farref.actors.recording.tracefile import FileSink
from farref.actors.recording.tracing import Tracer
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import Call, Cargo
from farref.serialization.payload import Payload
from farref.trace import tell
from farref.trace.records import Record, load, parse

from ..scripts import run

A, B = WorkerId("A", 1), WorkerId("B", 0x1F00)


@pytest.fixture
def tracer(tmp_path: Path) -> Iterator[Tracer]:
    """A tracer that records to a file in the test's folder."""
    tracer = Tracer(A)
    tracer.begin(FileSink(str(tmp_path), A), "lend")
    yield tracer
    tracer.close()


def file_of(folder: Path, name: str = "A") -> Path:
    (path,) = folder.glob(f"{name}-*")
    return path


def held(folder: Path) -> list[str]:
    """The references of the `hold`s that are in the file of A."""
    records = load(file_of(folder)).steps["A@1"]
    return [each.text("rref") for each in records if each.text("do") == "hold"]


def test_reading_says_how_far_it_is_of_all_files(tmp_path: Path) -> None:
    line = '["free",1.0,["%s",1],[["%s",1],1]]\n'
    for name, count in (("A", 3), ("B", 5)):
        (tmp_path / f"{name}-1.jsonl").write_text(count * (line % (name, name)), encoding="utf-8")
    said: list[tuple[int, int]] = []
    load(tmp_path, lambda done, whole: said.append((done, whole)))
    assert said == [(done, 8) for done in range(1, 9)]


# ---- kills


def told() -> None:
    """Ask C for something, and die."""
    farref.remote("C", str)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.processes
def test_a_kill_takes_no_step_along(tmp_path: Path) -> None:
    with System(trace=tmp_path, timeout=20) as system:
        system.worker("B"), system.worker("C")
        with pytest.raises(WorkerDiedError):
            farref.rpc_sync("B", told)
    assert b'["leave"' not in file_of(tmp_path, "B").read_bytes(), "it ended in good order"
    recording = load(tmp_path)
    assert recording.problems == ()
    (mine,) = (steps for at, steps in recording.steps.items() if at.startswith("B@"))
    assert [(each.kind, each.text("label")) for each in mine if each.text("label")] == [
        ("receive", "told"),
        ("run", "told"),
        ("send", "str"),
    ]


@pytest.mark.parametrize("zeros", [b"", bytes(100)])
def test_a_line_that_a_crash_of_the_machine_tore_is_skipped_and_said(
    zeros: bytes, tracer: Tracer, tmp_path: Path
) -> None:
    tracer.did("hold", RRefId(A, 1))
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes() + b'["free",1.0,["A",1],[["A",1' + zeros)
    (problem,) = load(path).problems
    assert "line 3, is cut off and was skipped" in problem
    assert tell(load(path)).problems == (problem,)
    assert held(tmp_path) == ["A@1/1"]


# ---- files


def test_a_file_that_is_truncated_goes_on(tracer: Tracer, tmp_path: Path) -> None:
    """By ``: > file``, or by logrotate: the process lives, and the next rows are in the file."""
    path = file_of(tmp_path)
    for number in range(10_000):
        tracer.did("hold", RRefId(A, number))
        if number % 2_000 == 0:
            os.truncate(path, 0)
    tracer.close()
    content = path.read_bytes()
    assert b"\0" not in content
    lines = content.splitlines()
    assert [parse(line.decode())[0].kind for line in lines] == ["do"] * 1_999 + ["leave"]


TRUNCATED = """
import os, sys
from pathlib import Path
from farref import System, rpc_sync

with System(trace=sys.argv[1], timeout=20) as system:
    system.worker("B")
    for turn in range(200):
        rpc_sync("B", int)
        for file in Path(sys.argv[1]).iterdir():
            os.truncate(file, 0)
    print("lives")
"""


@pytest.mark.processes
def test_who_truncates_a_file_kills_nobody(tmp_path: Path) -> None:
    assert run(tmp_path, TRUNCATED, str(tmp_path / "trace")) == "lives\n"


SIZE = 100_000


def test_a_full_disk_ends_the_recording_and_no_more(
    tracer: Tracer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[bytes] = []
    tracer.begin(Kept(kept), "lend")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, hard))  # the disk is full, for this process
    try:
        for number in range(10_000):
            tracer.did("hold", RRefId(A, number))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (record,) = caplog.records
    assert "the recording of A ends" in record.getMessage()
    assert len(kept) == 10_001, "the other sink goes on"
    there = held(tmp_path)
    assert there == [f"A@1/{number}" for number in range(len(there))]
    assert SIZE - 200 < file_of(tmp_path).stat().st_size <= SIZE
    assert b"\0" not in file_of(tmp_path).read_bytes()


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")  # of a fork beside threads
from farref import System, rpc_sync

with System(trace=sys.argv[1]) as system:
    system.worker("B")
    rpc_sync("B", int)
    child = os.fork()
    if child == 0:
        system.endpoint.core.tracer.did("own", ())
        system.endpoint.core.tracer.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for _ in range(5):
        rpc_sync("B", int)
"""


@pytest.mark.processes
def test_a_forked_child_leaves_the_file_alone(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    run(tmp_path, FORK, str(folder))
    (mine,) = load(file_of(folder, "program")).steps.values()
    assert [each.message for each in mine if each.kind == "send"] == ["Call"] * 6
    assert [each.kind for each in mine].index("leave") == len(mine) - 1


# ---- rows


class Kept:
    """A sink that keeps the lines."""

    def __init__(self, lines: list[bytes]) -> None:
        self.store = lines.append

    def close(self) -> None:
        pass


def test_several_sinks_get_the_same_lines(tracer: Tracer, tmp_path: Path) -> None:
    kept: list[bytes] = []
    sink = Kept(kept)
    tracer.did("hold", RRefId(A, 1))
    tracer.begin(sink, "lend", {"of": "A"})
    tracer.did("hold", RRefId(A, 2))
    lines = file_of(tmp_path).read_bytes().splitlines(keepends=True)
    assert [parse(line.decode())[0].kind for line in lines] == ["join", "do", "do"]
    assert kept[1:] == lines[2:]
    tracer.remove(sink)
    tracer.did("hold", RRefId(A, 3))
    assert len(kept) == 2
    assert held(tmp_path) == ["A@1/1", "A@1/2", "A@1/3"]


def row(message: Call) -> Record:
    lines: list[bytes] = []
    tracer = Tracer(A, clock=lambda: 1.5)
    tracer.begin(Kept(lines), "lend")
    tracer.sent(B, message, 6)
    return parse(lines[-1].decode())[0]


@pytest.mark.parametrize(
    ("payload", "label"),
    [
        (Payload(b"secret", tag="count"), "count"),
        (Payload(b"secret", tag=("ask", 3, "Look")), "ask Look"),
        (Payload(b"secret", tag="na\u00efve"), "na\u00efve"),
        (Payload(b"secret", tag="\udcff"), "\\udcff"),
        (Payload(b"secret"), ""),
        ("secret", ""),
        (None, ""),
    ],
)
def test_of_what_is_the_users_there_is_a_label(payload: Any, label: str) -> None:
    fields = row(Call(call=CallId(A, 3), cargo=Cargo(payload=payload))).fields
    assert fields == {
        "at": "A@1", "kind": "send", "time": 1.5, "peer": "B@1f00", "number": 7, "message": "Call",
        "user": True, "call": "A@1/3", "label": label,
    }  # fmt: skip


def test_every_input_has_a_kind_of_row() -> None:
    recorded = {name for name in vars(Recorded) if name[0] != "_"} - {"plain"}
    of_each = {"fork_all", "lend_all", "give_all"}  # they make a row `fork` or `lend` for each
    assert set(steps.INPUTS) == recorded - {"take", "died", "bury"} - of_each | {"fork", "lend"}

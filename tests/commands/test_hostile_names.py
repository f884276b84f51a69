"""Names, types and errors of others are text, in each command and export.

No character of them is shown that a terminal, a parser or a reader would obey.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from xml.dom import minidom

import pytest

import farref
from farref import System
from farref.actors.recording.tracing import FORMAT
from farref.testing import assert_nothing_held
from farref.trace import TraceError, read

from .kit import FARREF, PATIENCE, in_a_terminal
from .kit import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = {
    "escape": "\x1b]0;pwned\x1b\\\x1b[31m",
    "C1": "\x9b31m",
    "DEL": "\x7f",
    "override": "\u202e",
    "line": "\nforged line",
    "return": "\rforged",
    "separator": "\u2028",
    "no XML": "\x00\x0b\ufffe\uffff",
    "markup": "[red]x[/red][/]:smile:",
    "script": "</script><script>alert(1)</script><!--",
    "quotes": "'\"`&<>%#;{}{0}{peer}\\",
}
"""What a name may hold."""
NAME = "W" + "".join(HOSTILE.values())


def named(name: str) -> Any:
    def made(value: object) -> object:
        return type(name.replace("\0", ""), (), {})() if value is None else value

    made.__name__ = made.__qualname__ = name
    return made


def check_clean(*texts: str, own_lines: bool = False) -> None:
    """A terminal, and a reader, get the characters that they see.

    Without *own_lines* no name begins a line.
    """
    for text in texts:
        assert all(each.isprintable() or each == "\n" for each in text), ascii(text)
        assert own_lines or "\nforged" not in text


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, Path]]:
    """A running system with hostile names of everything, and the folder of its trace."""
    folder = tmp_path_factory.mktemp("trace")
    with System(trace=folder, silence=None) as system:
        system.worker(NAME)
        held = [farref.remote(NAME, named(f"f{each}"), (1,)) for each in HOSTILE.values()]
        held += [farref.remote(NAME, named(f"T{each}"), (None,)) for each in HOSTILE.values()]
        held += [farref.rpc_sync(NAME, named("g"), ({"x": held[0]},))]
        yield system, folder


@pytest.mark.processes
@pytest.mark.parametrize(
    "words",
    [
        ["refs", "SYSTEM"],
        ["refs", "SYSTEM", "--json"],
        ["refs", "SYSTEM", "--why", "program/1"],
        ["ps"],
        ["ps", "--json"],
        ["gc", "SYSTEM", "--dry-run"],
        ["top", "SYSTEM", "--once"],
        ["top", "SYSTEM", "--once", "--json"],
        ["metrics", "SYSTEM"],
        ["metrics", "SYSTEM", "--json"],
        ["trace", "FOLDER"],
        ["trace", "FOLDER", "--json"],
        ["trace", "FOLDER", "--worker", "NAME"],
        ["trace", "FOLDER", "--export", "perfetto"],
        ["trace", "FOLDER", "--export", "test"],
    ],
    ids=" ".join,
)
def test_a_command_shows_them_as_text(words: list[str], trace: tuple[System, Path]) -> None:
    system, folder = trace
    name = NAME.replace("\x00", r"\x00")  # an argument cannot hold it; it is written as it is shown
    known = {"SYSTEM": system.name, "FOLDER": str(folder), "NAME": name}
    run = command(*(known.get(word, word) for word in words))
    assert run.returncode == 0, run.stderr
    check_clean(run.stdout, run.stderr)
    if words[0] in ("refs", "metrics") and "--json" in words:
        assert NAME in every_text(json.loads(run.stdout))  # a program gets it as it is


RAW = [each for each in NAME if not each.isprintable() and each not in "\x1b\n\r"]
"""What no terminal may get. The other three it gets for the picture itself."""


@pytest.mark.processes
def test_a_picture_in_a_terminal_has_them_as_text(trace: tuple[System, Path]) -> None:
    watching = ("refs", trace[0].name, "--watch")
    code, text = in_a_terminal(*watching, width=300, interrupt_at="pwned")
    assert code == 0
    assert "pwned" in text
    assert not [each for each in RAW if each in text], ascii(text)
    assert "\x1b]0;" not in text


@pytest.mark.processes
def test_a_live_trace_shows_them_as_text(trace: tuple[System, Path]) -> None:
    words = [*FARREF, "trace", trace[0].name, "--seconds", "4"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watcher:
        assert watcher.stderr is not None
        assert "watching" in watcher.stderr.readline()
        while True:
            farref.rpc_sync(NAME, named(f"f{NAME}"), (1,))
            farref.remote(NAME, named(f"f{NAME}"), (1,)).to_here()
            try:
                shown, said = watcher.communicate(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            break
    assert watcher.returncode == 0, said
    assert "pwned" in shown
    check_clean(shown)


@pytest.mark.parametrize(
    "words",
    [
        ["NAME"],
        ["ps", "NAME"],
        ["ps", "--NAME"],
        ["refs", "NAME", "--watch"],
        ["trace", "x", "NAME"],
        ["trace", "x", "--export", "NAME"],
        ["join", "NAME"],
        ["join", "127.0.0.1", "--key", "NAME"],
        ["down", "NAME"],
        ["run", "--", "NAME"],
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_shown_as_text(words: list[str]) -> None:
    name = NAME.replace("\x00", "")  # an argument cannot hold it
    run = command(*(word.replace("NAME", name) for word in words))
    assert run.returncode != 0
    assert run.stderr
    check_clean(run.stdout, run.stderr)


@pytest.mark.processes
def test_the_report_of_the_plug_in_shows_them_as_text(trace: tuple[System, Path]) -> None:
    with pytest.raises(AssertionError) as report:
        assert_nothing_held(trace[0], 0.1)
    assert "pwned" in str(report.value)
    check_clean(str(report.value))


def every_text(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for each in value for text in every_text(each)]
        case dict():
            return [text for pair in value.items() for each in pair for text in every_text(each)]
        case _:
            return []


@pytest.mark.processes
def test_saved_traces_can_be_parsed_and_read_again(
    trace: tuple[System, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(trace[1], tmp_path / "trace")  # the system goes on, and its trace
    story = read(folder)
    for name in ("a.svg", "a.html", "a.jsonl"):
        run = command("trace", folder, "--save", tmp_path / name)
        assert run.returncode == 0, run.stderr
        check_clean((tmp_path / name).read_bytes().decode())
    minidom.parse(str(tmp_path / "a.svg"))
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("</script>") == page.count("<script")
    again = read(tmp_path / "a.jsonl")
    assert [record.fields for record in again.records] == json.loads(
        json.dumps([record.fields for record in story.records])
    )


@pytest.mark.processes
def test_logs_of_workers_and_of_the_program_show_them_as_text() -> None:
    program = f"""
import farref, logging, os
def f(name):
    logging.getLogger("mine").error("it is %s", name)
def fail(name): raise ValueError(name)
with farref.System() as system:
    system.worker("B")
    farref.rpc_sync("B", f, ({NAME!r},))
    fail.__name__ = fail.__qualname__ = {NAME!r}
    farref.rpc_async("B", fail, ({NAME!r},)).wait
    farref.remote("B", fail, ({NAME!r},))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=PATIENCE
    )
    said = run.stderr.decode()
    assert run.returncode == 0, said
    assert "it is W\\x1b]0;pwned" in said
    assert "nobody" in said
    check_clean(said, own_lines=True)  # a log message may have several


@pytest.mark.processes
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:PORT", 200),
        ("localhost:PORT", 200),
        ("LOCALHOST", 200),
        ("metrics.example:PORT", 200),
        ("evil.example", 421),
        ("evil.example:PORT", 421),
        ("127.0.0.1.evil.example:PORT", 421),
        ("[::1]:PORT", 421),
        ("", 421),
    ],
)
def test_metrics_are_served_to_those_who_ask_by_our_name(
    host: str, status: int, serving: str
) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{serving}/metrics")
    request.add_header("Host", host.replace("PORT", serving))
    try:
        answer = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        assert answer.status == status
        assert (b"--host" in answer.read()) == (status != 200)


@pytest.fixture(scope="module")
def serving() -> Iterator[str]:
    """The port of `farref metrics --serve`."""
    with System(silence=None) as system:
        words = ["metrics", system.name, "--serve", "0", "--host", "Metrics.example"]
        with subprocess.Popen(
            [sys.executable, "-X", "faulthandler", *FARREF[1:], *words],
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stderr is not None
            yield server.stderr.readline().rpartition(":")[2].partition("/")[0]
            system.shutdown()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.send_signal(signal.SIGABRT)
                raise AssertionError(f"it did not end:\n{server.stderr.read()}") from None


# ---- lines of a trace that are none

ROWS: list[list[Any]] = [
    ["join", 1.0, ["A", 1], FORMAT, "lend", {}],
    ["join", 1.0, ["B", 2], FORMAT, "lend", {}],
    [
        *("send", 2.0, ["A", 1], ["B", 2], 1),
        *(["Create", [["A", 1], 2], [["A", 1], 1], [["A", 1], 1], ["f", []]], None, None),
    ],
    [
        *("receive", 2.0, ["B", 2], ["A", 1], 1),
        *(["Create", [["A", 1], 2], [["A", 1], 1], [["A", 1], 1], ["f", []]], None),
    ],
    ["hold", 3.0, ["B", 2], [["A", 1], 1]],
    ["free", 3.0, ["B", 2], [["A", 1], 1]],
    ["died", 3.0, ["B", 2], ["A", 1], []],
]


def test_the_rows_are_right(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    assert len(read(tmp_path / "a.jsonl").rows) == 4


@pytest.mark.parametrize("value", [{"a": [2]}, -1, True, [[[]]]])
@pytest.mark.parametrize(
    ("row", "place"),
    [
        (row, place)
        for row, values in enumerate(ROWS)
        for place in range(len(values))
        if values[place] != {}  # tables, which are read when the machines run again
    ],
)
def test_a_malformed_row_is_an_error_that_names_its_line_and_place(
    row: int, place: int, value: Any, tmp_path: Path
) -> None:
    rows = [*ROWS[:row], [*ROWS[row][:place], value, *ROWS[row][place + 1 :]], *ROWS[row + 1 :]]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    with pytest.raises(TraceError, match=rf"a.jsonl, line {row + 1}, .*(`\$\[{place}\]|format)"):
        read(file)

"""The command `farref refs` on running systems: its table, its JSON, its reasons, its watch."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

import farref
from farref import Counters, ReferenceInfo, RRef, Snapshot, System
from farref.actors.core.ages import MOST, STEP, Ages
from farref.actors.core.counters import Tally
from farref.actors.hosting import directory
from farref.actors.inspect import retaining
from farref.actors.inspect.snapshot import ShortNames, _marks, _strong
from farref.actors.inspect.why import seconds_text, size_text
from farref.commands import bar
from farref.commands.bar import waiting
from farref.protocol.context import Context
from farref.protocol.ids import WorkerId
from farref.refs.choice import Choice
from farref.refs.table import COLUMNS, cells, summary, table, totals
from farref.refs.watch import _height, watch

from ..actors.helpers import PATIENCE, make_box, until
from ..docs.pages import blocks
from .test_cli import FARREF, in_a_terminal, piped
from .test_cli import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

NAME = "shop"
KEPT: list[Any] = []


def keep(refs: list[RRef[Any]]) -> None:
    KEPT[:] = refs


@pytest.fixture(scope="module")
def shop() -> Iterator[System]:
    """A system with references of every role, a cycle, and a value of known size."""
    # On a busy machine, searching the heap of all the tests takes time.
    with (
        pytest.MonkeyPatch.context() as patient,
        System(name=NAME, sites=True, timeout=20) as system,
    ):
        patient.setattr(retaining, "SECONDS", 20.0)
        for name in ("baker", "cook"):
            system.worker(name)
        yield system


@pytest.fixture(scope="module")
def stock(shop: System) -> dict[str, RRef[Any]]:
    """The references held in the shop while these tests run."""
    bread = farref.remote("baker", bytes, args=(5000,))
    farref.wait([bread])
    farref.rpc_sync("cook", keep, args=([bread],))
    one, other = farref.remote("baker", make_box), farref.remote("cook", make_box)
    one.rpc_sync().put(other)
    other.rpc_sync().put(one)
    assert until(shop, lambda: all("confirmed" in r.state for r in farref.references()))
    return {"bread": bread, "menu": RRef({"main": [bread]}), "one": one, "other": other}


# ---- for programs


@pytest.mark.processes
def test_json(shop: System, stock: dict[str, RRef[Any]]) -> None:
    run = piped("refs", NAME, "--json", "--leak-age", "0", "--timeout", "30")
    assert (run.returncode, run.stderr) == (0, "")
    said = json.loads(run.stdout)
    assert set(said) == {"system", "rows", "silent", "cycles", "totals", "counters"}
    assert said["system"] == NAME
    assert set(said["rows"][0]) == set(ReferenceInfo.__struct_fields__)
    assert said["silent"] == {}
    names = {key: str(ref.id) for key, ref in stock.items()}
    assert said["cycles"] == [sorted([names["one"], names["other"]])]
    rows = {(row["worker"], row["rref"]): row for row in said["rows"]}
    bread = rows["baker", names["bread"]]
    assert (bread["role"], bread["type"], bread["state"]) == ("owner", "bytes", "resolved")
    assert 5000 <= bread["size"] < 5200
    assert re.fullmatch(re.escape(__file__) + r":\d+ in stock", bread["site"])
    assert sorted(bread["forks"].values()) == ["cook", "program"]
    assert rows["cook", names["bread"]]["handles"] == 1
    assert rows["program", names["menu"]]["contains"] == [names["bread"]]
    assert rows["baker", names["one"]]["marks"] == ["cycle"]
    assert not any(row["worker"].startswith("program-") for row in said["rows"])  # the viewer
    assert said["totals"]["objects"] == 4
    assert said["totals"]["rows"] == len(said["rows"])
    assert said["counters"]["cook"]["references"] == {"owner": 1, "user": 2}


@pytest.mark.processes
def test_why_as_json_and_as_a_tree(shop: System, stock: dict[str, RRef[Any]]) -> None:
    name = str(stock["bread"].id)
    run = piped("refs", NAME, "--why", name, "--json", "--timeout", "30")
    assert run.returncode == 0
    said = json.loads(run.stdout)
    assert set(said) == {"kind", "text", "where", "worker", "rref", "children"}
    assert (said["kind"], said["rref"]) == ("reference", name)
    assert {child["worker"] for child in said["children"]} == {"program", "cook"}
    tree = piped("refs", NAME, "--why", name, "--timeout", "30").stdout
    assert tree.startswith(f"{name}, bytes of 5.0 kB, owned by baker, ")
    assert f"global {__name__}.KEPT[0]" in tree
    assert f"in the value of {stock['menu'].id}, at ['main'][0]" in tree
    assert "\x1b" not in tree


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nobody",), "no system named 'nobody' runs"),
        (("not/a/name",), "a system's name must be 1 to 64 letters"),
        ((NAME, "--why", "nonsense"), f"system '{NAME}' has no reference 'nonsense'"),
        ((NAME, "--why", "program/"), "several references begin with 'program/': "),
        ((NAME, "--worker", "nobody"), "there is no endpoint nobody in"),
        ((NAME, "--worker", "nobody", "--json"), "there are baker, "),
        ((NAME, "--worker", "nobody", "--watch"), "there is no endpoint nobody in"),
    ],
)
def test_errors_are_told(
    shop: System, stock: dict[str, RRef[Any]], arguments: tuple[str, ...], says: str
) -> None:
    run = command("refs", *arguments)
    assert (run.returncode, run.stdout) == (1, "")
    assert says in run.stderr
    assert "Traceback" not in run.stderr


def test_mistakes_are_2() -> None:
    for arguments in (
        ("--why", "A/1", "--watch"),
        ("--role", "king"),
        ("--state", "solid"),
        ("--every", "0"),
    ):
        run = command("refs", *arguments)
        assert run.returncode == 2
        assert "Traceback" not in run.stderr


@pytest.mark.processes
def test_which_system_is_meant(shop: System, monkeypatch: pytest.MonkeyPatch) -> None:
    assert directory.names() == [NAME]
    assert command("refs").returncode == 0
    with System("simpleSystemBase", name=f"{NAME}-b"):
        run = command("refs")
        assert run.returncode == 1
        assert f"several of your systems run, name one: {NAME}, {NAME}-b" in run.stderr
        inside = command("refs", f"{NAME}-b")
        assert inside.returncode == 1
        assert "runs inside one program" in inside.stderr
    monkeypatch.setattr(directory, "names", list)
    assert "no system of yours runs" in command("refs").stderr


@pytest.mark.processes
def test_names_and_ids_are_completed(shop: System, stock: dict[str, RRef[Any]]) -> None:
    def completed(words: str) -> list[str]:
        env = {
            "_FARREF_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        run = subprocess.run(
            [str(Path(sys.executable).parent / "farref")],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, **env},
        )
        return run.stdout.split()

    assert completed("farref refs sh") == completed("farref trace sh") == [NAME]
    ids = sorted(str(ref.id) for ref in stock.values())
    # A key press waits for one second; on a busy machine that may be too short.
    assert until(shop, lambda: sorted(completed(f"farref refs {NAME} --why program/")) == ids)


# ---- the page

STORY = [
    block
    for block in blocks("docs/howto/find-a-leak.md")
    if block.section == "From another terminal"
]
LEAKY = next(block.body for block in STORY if block.title == "leaky.py")


@pytest.mark.processes
def test_the_leak_of_the_page_is_found_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY, encoding="utf-8")
    command_line = [sys.executable, "leaky.py"]
    with subprocess.Popen(
        command_line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        try:
            for _ in range(3):
                assert program.stdout.readline() == "499500\n"
            asking = ("refs", "reports", "--timeout", "30")
            end = time.monotonic() + 30
            while (run := command(*asking, "--why", "program/2")).returncode == 0:
                if "program has" not in run.stdout or time.monotonic() > end:
                    break  # it has dropped its last handle
            table = command(*asking, "--sort", "size").stdout
        finally:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=60)
    asked = "$ farref refs --why program/2\n"
    (expected,) = (block.body for block in STORY if block.body.startswith(asked))
    assert _without_figures(asked + run.stdout) == _without_figures(expected)
    (legend,) = re.findall("^held by: h .*", table, re.MULTILINE)
    assert all(legend in each.body for each in STORY if "held by: h " in each.body)
    assert len(re.findall(r"^program/\d owner loader dict ", table, re.MULTILINE)) == 3
    assert len(re.findall(r"^program/\d user +reader dict ", table, re.MULTILINE)) == 3


def _without_figures(text: str) -> str:
    """*text* without its blanks, times, sizes and folders."""
    text = re.sub(r"\S*leaky.py", "leaky.py", text)
    return "".join(re.sub(r"[\d.]+ (s|kB)", "", text).split())


# ---- for people


@pytest.mark.processes
@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_table_fits_and_says_more_where_there_is_room(
    shop: System, stock: dict[str, RRef[Any]], width: int
) -> None:
    code, text = in_a_terminal("refs", NAME, "--leak-age", "0", width=width)
    assert code == 0
    assert "\x1b[" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= width
    head = lines[0].split()
    assert head[:4] == ["reference", "role", "at", "value"]
    assert ("known" in head) == (width >= 120)
    assert ("created" in head) == (width >= 200)
    assert ("handles" in head) == (width >= 200)
    assert any(re.fullmatch("held by: .* b loans", line) for line in lines) == (width < 200)
    name = str(stock["bread"].id)
    (row,) = (line for line in lines if re.match(rf"{name} +owner +baker ", line))
    assert "5.0 kB" in row
    assert "resolved" in row
    if width >= 200:
        assert "test_refs.py" in row


@pytest.mark.processes
def test_no_color_is_obeyed(shop: System, stock: dict[str, RRef[Any]]) -> None:
    code, text = in_a_terminal("refs", NAME, width=100, NO_COLOR="1")
    assert code == 0
    assert "38;5" not in text


class Terminal:
    """A real terminal of a server of its own; an ended server's may still be there for a moment."""

    def __init__(self) -> None:
        self._command = ["tmux", "-L", f"farref-refs-{uuid.uuid4().hex[:8]}", "-f", "/dev/null"]

    def tmux(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def screen(self, until_it_has: str) -> str:
        """The screen, as soon as it shows *until_it_has*."""
        shown = self.glimpse(until_it_has, 30)
        assert until_it_has in shown, shown
        return shown

    def glimpse(self, text: str, seconds: float) -> str:
        """The screen, as soon as it shows *text*, or after *seconds* seconds."""
        end = time.monotonic() + seconds
        while text not in (shown := self.tmux("capture-pane", "-p")) and time.monotonic() < end:
            time.sleep(0.05)
        return shown


@pytest.mark.processes
@pytest.mark.parametrize("width", [80, 200])
def test_watching_in_a_real_terminal(
    shop: System, stock: dict[str, RRef[Any]], tmp_path: Path, width: int
) -> None:
    code = tmp_path / "code"
    run = " ".join([*FARREF, "refs", NAME, "--watch", "--every", "0.2"])
    environment = [f"-e{key}={os.environ[key]}" for key in ("XDG_RUNTIME_DIR", "PATH")]
    if "PYTHONPATH" in os.environ:
        environment.append(f"-ePYTHONPATH={os.environ['PYTHONPATH']}")
    shell = f"{run}; echo $? > {code}; echo left; sleep 60"
    terminal = Terminal()
    terminal.tmux("new-session", "-d", "-s", "w", "-x", str(width), "-y", "30", *environment, shell)
    try:
        shown = terminal.screen("Ctrl-C ends")
        assert max(map(len, shown.splitlines())) <= width
        assert f"{stock['bread'].id} " in shown
        marked = False
        end = time.monotonic() + 60
        while not marked and time.monotonic() < end:  # a mark stays for one look, and may be missed
            new = farref.remote("cook", sorted, args=("cab",))
            name = str(new.id)
            marked = f"+ {name} " in terminal.glimpse(f"+ {name} ", 2)
            terminal.screen(f"  {name} ")  # not new any more
            del new
            marked &= f"- {name} " in terminal.glimpse(f"- {name} ", 2)
        assert marked
        terminal.tmux("send-keys", "-t", "w", "C-c")
        after = terminal.screen("left")
        assert code.read_text() == "0\n"
        assert "Traceback" not in after
        assert "Ctrl-C ends" in after  # the last table stays
    finally:
        terminal.tmux("kill-server")


@pytest.mark.processes
def test_watching_draws_no_row_that_the_screen_has_no_room_for(
    shop: System, stock: dict[str, RRef[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole table of many references takes longer than the time between two looks."""
    snapshot = shop.references()
    rows = [*snapshot] * 20
    drawn = []

    def noted(rows: list[ReferenceInfo], *more: Any) -> Table:
        drawn.append(len(rows))
        return table(rows, *more)

    monkeypatch.setattr("farref.refs.watch.table", noted)
    looks = iter([(snapshot, rows)] * 3)
    out = Console(file=io.StringIO(), force_terminal=True, width=120, height=24)
    with pytest.raises(StopIteration):
        watch(lambda: next(looks), out, 0)
    *screens, last = drawn
    assert len(screens) == 3
    assert 0 < max(screens) <= 24
    assert last == len(rows)


@pytest.mark.processes
def test_watching_ends_with_the_system_and_in_a_pipe() -> None:
    name = f"{NAME}-short"
    with System(name=name) as system:
        watching = subprocess.Popen(
            [*FARREF, "refs", name, "--watch", "--every", "0.1", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["system"] == name
        assert system.references().silent == {}
    _, errors = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert errors.startswith("farref refs: ")
    assert "Traceback" not in errors


@pytest.mark.processes
def test_an_interrupt_in_a_pipe_is_an_orderly_end(shop: System) -> None:
    watching = subprocess.Popen(
        [*FARREF, "refs", NAME, "--watch", "--every", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=60)
    assert (watching.returncode, errors) == (0, "")
    assert until(
        shop, lambda: {info.name for info in shop.workers()} == {"baker", "cook", "program"}
    )


# ---- the parts, without a system


ROW = ReferenceInfo(
    worker="B@1",
    rref="A@1/1",
    role="owner",
    owner="B@1",
    owner_address="",
    state="resolved",
    handles=0,
    messages=0,
    tasks=0,
    contained_in=(),
    contains=(),
    forks={},
    loans={},
    pins={},
    borrowers={},
    target=None,
    canonical="A@1/1",
    aliases={},
    names={},
    type="list",
    size=100,
    complete=True,
    in_values=0,
    requested=None,
    age=100.0,
    unsettled=None,
    site=None,
    on_delete=False,
)


def test_two_lives_of_one_name_are_told_apart() -> None:
    names = ShortNames()
    rows = [ROW, replace(ROW, rref="A@2/1", canonical=None, forks={"A@2/7": "C/x@a"})]
    for row in rows:
        names.meet_row(row)
    short = [names.short_row(row, None) for row in rows]
    assert [row.rref for row in short] == ["A@1/1", "A@2/1"]
    assert [row.worker for row in short] == ["B", "B"]
    assert short[1].forks == {"A@2/7": "C/x"}
    assert names.in_full["C/x"] == "C/x@a"


def marks(*rows: ReferenceInfo, silent: tuple[str, ...] = (), leak_age: float = 60) -> list[Any]:
    found, _ = _marks(list(rows), set(silent), leak_age)
    return [found.get(row.rref, ()) for row in rows]


def test_what_is_suspected() -> None:
    assert marks(ROW) == [("leak",)]
    assert marks(ROW, leak_age=101) == [()]
    for held in ({"handles": 1}, {"messages": 1}, {"tasks": 1}):
        assert marks(replace(ROW, **held)) == [()]
    pinned = replace(ROW, tasks=1, pins={"B@1/1": "C@1"})
    assert marks(pinned) == [("leak",)]
    user = replace(ROW, worker="C@1", role="user", handles=1)
    assert marks(ROW, user) == [(), ()]
    known = replace(ROW, forks={"B@1/1": "C@1"})
    assert marks(known, silent=("C@1",)) == [()]  # it may or may not hold it


def test_what_only_a_cycle_keeps_is_suspected() -> None:
    one = replace(ROW, contains=("A@1/2",))
    two = replace(ROW, rref="A@1/2", contains=("A@1/1",), handles=1, in_values=1)
    back = replace(ROW, handles=1, in_values=1, contains=("A@1/2", "A@1/3"))
    three = replace(ROW, rref="A@1/3", handles=1, in_values=1)
    both = ("cycle", "leak")
    assert marks(back, two, three) == [both, both, ("leak",)]
    assert marks(replace(back, handles=2), two, three) == [("cycle",), ("cycle",), ()]
    assert marks(replace(one, contains=("A@1/1",), handles=1, in_values=1)) == [both]
    # A reference by the name of an alias leads to the same object.
    named = replace(two, contains=("A@1/9",))
    called = replace(back, names={"A@1/9": 1})
    assert marks(called, named, three) == [both, both, ("leak",)]


def test_an_alias_keeps_what_it_stands_for() -> None:
    alias = replace(ROW, rref="A@1/2", role="alias", target="A@1/1", canonical="A@1/1", handles=1)
    held = replace(ROW, handles=1)  # the alias's own
    assert marks(held, alias) == [(), ()]
    assert marks(held, replace(alias, handles=0)) == [("leak",), ("leak",)]


def test_strong_components_of_a_long_chain() -> None:
    edges = {str(n): {str(n + 1)} for n in range(20_000)} | {"20000": {"0"}, "x": {"0"}}
    parts = _strong(edges)
    assert sorted(map(len, parts)) == [1, 20_001]


def test_ages_of_what_was_named() -> None:
    ages, state = Ages(), Context(WorkerId("A", 1), "lend").state
    assert ages.of_fork(1, 5.0) == 0
    for second in range(100):
        ages.mark(state, float(second))
        state.forks, state.calls = 10 * (second + 1), second
        ages.mark(state, second + STEP / 2)
        state.forks += 3
    found = [ages.of_fork(n, 100.0) for n in (1, 10, 13, 14, 500)]
    assert found == [100, 100, 100, 99, 51]
    assert ages.of_call(99, 100.0) == 1
    for second in range(100, 3 * MOST):
        ages.mark(state, float(second))
        state.forks = 10 * (second + 1)
    assert len(ages._notes) <= MOST
    now = float(3 * MOST)
    assert ages.of_fork(10 * MOST, now) == pytest.approx(now - MOST, abs=4)


def test_rows_are_chosen_and_sorted() -> None:
    big = replace(ROW, rref="A/2", size=10**7, age=5.0, marks=("cycle",))
    user = replace(ROW, worker="C", role="user", handles=3, owner_state="created")
    rows = [ROW, big, user]
    for choice, found in (
        (Choice(), rows),
        (Choice(worker="C"), [user]),
        (Choice(role="owner"), [ROW, big]),
        (Choice(prefix="A/"), [big]),
        (Choice(older=50), [ROW, user]),
        (Choice(state="created"), [user]),
        (Choice(type="dict"), []),
        (Choice(suspects=True), [big]),
    ):
        assert choice.of(rows) == found
    assert Choice().of(rows, "size")[0] is big
    assert Choice().of(rows, "handles")[0] is user
    assert Choice().of(rows, "age")[-1] is big
    assert Choice().of(rows, "role")[-1] is user


def test_changes_are_marked_and_ages_are_none() -> None:
    rows = [replace(ROW, age=1.0), replace(ROW, rref="A/2", handles=2), replace(ROW, rref="A/3")]
    before = {(r.worker, r.rref): cells(replace(r, age=0.5, handles=0)) for r in rows[:2]}
    gone = [cells(replace(ROW, rref="A/4"))]
    console = Console(width=100, force_terminal=False)
    with console.capture() as captured:
        console.print(table(rows, 100, before, gone))
    lines = captured.get().splitlines()[1:]
    assert [line[0] for line in lines] == [" ", "*", "+", "-"]
    assert len(cells(ROW)) == len(COLUMNS)


def test_a_file_that_does_not_fit_ends_with_what_matters() -> None:
    row = replace(ROW, site=f"/home/{'long/' * 20}shop.py:3 in main")
    console = Console(width=170, force_terminal=False)
    with console.capture() as captured:
        console.print(table([row], 170))
    assert captured.get().splitlines()[1].rstrip().endswith("/shop.py:3 in main")


def test_an_alias_is_said_to_be_one_once() -> None:
    user = replace(ROW, role="user", state="confirmed", type=None, owner_state="alias")
    assert " ".join(cells(user)).count("alias") == 1


def test_lines_that_do_not_fit_are_counted_as_many() -> None:
    console = Console(width=20)
    assert _height([Text("word " * 3), Text("word " * 7)], console) == 3


def test_a_wait_shows_that_it_lasts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(bar, "LATE", PATIENCE)
    with waiting("asking"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(bar, "LATE", 0.01)
    shown, end = "", time.monotonic() + PATIENCE
    with waiting("asking"):
        while "asking" not in shown:
            assert time.monotonic() < end, "nothing is shown"
            time.sleep(0.01)
            shown += capsys.readouterr().err


def test_the_summary() -> None:
    snapshot = Snapshot(
        "x",
        rows=(ROW, replace(ROW, rref="A/2", marks=("leak",))),
        silent={"D": "no answer in 1 s"},
        counters={"B": Counters(control={"Ack": 2}), "C": Counters(control={"Ack": 1})},
        cycles=(("A/1", "A/2"),),
    )
    assert totals(snapshot, snapshot.rows)["control_messages"] == 3
    text = "\n".join(line.plain for line in summary(snapshot, snapshot.rows[:1]))
    assert "1 row of 2: 1 object of 100 B" in text
    assert "D: no answer in 1 s; its references are not shown" in text
    assert "A/1 -> A/2 -> A/1" in text
    assert snapshot.match("A/2") == "A/2"


def test_numbers_are_short() -> None:
    assert [seconds_text(s) for s in (0.04, 9.94, 61, 600, 7300)] == [
        "0.0 s",
        "9.9 s",
        "61 s",
        "10 min",
        "2.0 h",
    ]
    assert [size_text(n) for n in (0, 999, 1000, 123_456, 5 * 10**12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123 kB",
        "5.0 TB",
    ]


def test_counters_add_up() -> None:
    one = Counters(references={"user": 1}, control={"Ack": 2}, packets_sent=3, refused=1)
    both = one + Counters(references={"user": 2, "owner": 1}, packets_sent=4, duplicates=5)
    assert both == Counters(
        references={"user": 3, "owner": 1},
        control={"Ack": 2},
        packets_sent=7,
        duplicates=5,
        refused=1,
    )
    assert Tally().packets_received == 0

"""The command `farref refs` on a running system: its table, its JSON, its reasons, its watch."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from farref import Counters, ReferenceInfo, RRef, Snapshot, System
from farref.commands.bar import bar
from farref.refs.choice import Choice
from farref.refs.table import COLUMNS, cells, summary, table, totals
from farref.refs.watch import _height, watch

from ..bases import default
from ..docs.pages import blocks
from ..waiting import eventually
from .kit import FARREF, Terminal, completed, in_a_terminal, without_colours
from .kit import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "shop"
PROGRAM = """
import json, sys
import farref
from farref import RRef
from farref.testing import until

KEPT = []

def keep(refs):
    KEPT[:] = refs

class Box:
    content = None

    def put(self, content):
        self.content = content

def main(base):
    with farref.System(base, name="shop", sites=True, timeout=20) as system:
        for name in ("baker", "cook"):
            system.worker(name)
        bread = farref.remote("baker", bytes, args=(5000,))
        farref.wait([bread])
        farref.rpc_sync("cook", keep, args=([bread],))
        one, other = farref.remote("baker", Box), farref.remote("cook", Box)
        one.rpc_sync().put(other)
        other.rpc_sync().put(one)
        assert until(system, lambda: all("confirmed" in r.state for r in farref.references()))
        stock = {"bread": bread, "menu": RRef({"main": [bread]}), "one": one, "other": other}
        print(json.dumps({name: str(ref.id) for name, ref in stock.items()}), flush=True)
        for line in sys.stdin:
            new = farref.remote("cook", sorted, args=("cab",)) if line == "make\\n" else None
            print("gone" if new is None else new.id, flush=True)
"""
"""References of every role, a cycle, and a value of known size."""


@dataclass(frozen=True)
class Shop:
    """The running program, its folder, and the ids of its references."""

    program: subprocess.Popen[str]
    folder: Path
    ids: dict[str, str]

    def do(self, what: str) -> str:
        """Have it "make" one more reference, or "drop" that one. Returns the id of a new one."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        print(what, file=self.program.stdin, flush=True)
        return self.program.stdout.readline().strip()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(PROGRAM, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", f"import shop; shop.main({default()!r})"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        yield Shop(program, folder, json.loads(program.stdout.readline()))


# ---- for programs


@pytest.mark.processes
def test_json(shop: Shop) -> None:
    run = command("refs", NAME, "--json", "--leak-age", "0", "--timeout", "30")
    assert (run.returncode, run.stderr) == (0, "")
    said = json.loads(run.stdout)
    assert set(said) == {"system", "rows", "silent", "cycles", "totals", "counters"}
    assert said["system"] == NAME
    assert set(said["rows"][0]) == set(ReferenceInfo.__struct_fields__)
    assert said["silent"] == {}
    ids = shop.ids
    assert said["cycles"] == [sorted([ids["one"], ids["other"]])]
    rows = {(row["worker"], row["rref"]): row for row in said["rows"]}
    bread = rows["baker", ids["bread"]]
    assert (bread["role"], bread["type"], bread["state"]) == ("owner", "bytes", "resolved")
    assert 5000 <= bread["size"] < 5200
    assert re.fullmatch(re.escape(str(shop.folder / "shop.py")) + r":\d+ in main", bread["site"])
    assert sorted(bread["forks"].values()) == ["cook", "program"]
    assert rows["cook", ids["bread"]]["handles"] == 1
    assert rows["program", ids["menu"]]["contains"] == [ids["bread"]]
    assert rows["baker", ids["one"]]["marks"] == ["cycle"]
    assert not any(row["worker"].startswith("program-") for row in said["rows"])  # the viewer
    assert said["totals"]["objects"] == 4
    assert said["totals"]["rows"] == len(said["rows"])
    assert said["counters"]["cook"]["references"] == {"owner": 1, "user": 2}


@pytest.mark.processes
def test_why_as_json_and_as_a_tree(shop: Shop) -> None:
    name = shop.ids["bread"]
    run = command("refs", NAME, "--why", name, "--json", "--timeout", "30")
    assert run.returncode == 0
    said = json.loads(run.stdout)
    assert set(said) == {"kind", "text", "where", "worker", "rref", "children"}
    assert (said["kind"], said["rref"]) == ("reference", name)
    assert {child["worker"] for child in said["children"]} == {"program", "cook"}
    tree = command("refs", NAME, "--why", name, "--timeout", "30").stdout
    assert tree.startswith(f"{name}, bytes of 5.0 kB, owned by baker, ")
    assert "global shop.KEPT[0]" in tree
    assert f"in the value of {shop.ids['menu']}, at ['main'][0]" in tree
    assert "\x1b" not in tree


@pytest.mark.processes
@pytest.mark.usefixtures("shop")
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
def test_errors_are_told(arguments: tuple[str, ...], says: str) -> None:
    run = command("refs", *arguments)
    assert (run.returncode, run.stdout) == (1, "")
    assert says in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--why", "A/1", "--watch"), ("--role", "king"), ("--state", "solid"), ("--every", "0")],
)
def test_mistakes_are_2(arguments: tuple[str, ...]) -> None:
    run = command("refs", *arguments)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.processes
@pytest.mark.usefixtures("shop")
def test_which_system_is_meant() -> None:
    assert command("refs").returncode == 0
    with System("simpleSystemBase", name=f"{NAME}-b"):
        run = command("refs")
        assert run.returncode == 1
        assert f"several of your systems run, name one: {NAME}, {NAME}-b" in run.stderr
        inside = command("refs", f"{NAME}-b")
        assert inside.returncode == 1
        assert "runs inside one program" in inside.stderr


def test_there_may_be_no_system(own_folder: Path) -> None:
    assert "no system of yours runs" in command("refs").stderr


@pytest.mark.processes
def test_names_and_ids_are_completed(shop: Shop) -> None:
    assert completed("farref refs sh") == completed("farref trace sh") == [NAME]
    ids = sorted(shop.ids.values())
    # A key press waits for one second; on a busy machine that may be too short.
    eventually(lambda: sorted(completed(f"farref refs {NAME} --why program/")) == ids)


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
            why = (*asking, "--why", "program/2")
            eventually(lambda: "program has" not in command(*why).stdout)  # it drops its handle
            told = command(*why).stdout
            table = command(*asking, "--sort", "size").stdout
        finally:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=60)
    asked = "$ farref refs --why program/2\n"
    (expected,) = (block.body for block in STORY if block.body.startswith(asked))
    assert _without_figures(asked + told) == _without_figures(expected)
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
def test_the_table_fits_and_says_more_where_there_is_room(shop: Shop, width: int) -> None:
    code, text = in_a_terminal("refs", NAME, "--leak-age", "0", width=width)
    assert code == 0
    assert "\x1b[" in text
    lines = without_colours(text)
    assert max(map(len, lines)) <= width
    head = lines[0].split()
    assert head[:4] == ["reference", "role", "at", "value"]
    assert ("known" in head) == (width >= 120)
    assert ("created" in head) == (width >= 200)
    assert ("handles" in head) == (width >= 200)
    assert any(re.fullmatch("held by: .* b loans", line) for line in lines) == (width < 200)
    (row,) = (line for line in lines if re.match(rf"{shop.ids['bread']} +owner +baker ", line))
    assert "5.0 kB" in row
    assert "resolved" in row
    assert ("shop.py" in row) == (width >= 200)


@pytest.mark.processes
@pytest.mark.usefixtures("shop")
def test_no_color_is_obeyed() -> None:
    code, text = in_a_terminal("refs", NAME, width=100, NO_COLOR="1")
    assert code == 0
    assert "38;5" not in text


@pytest.mark.processes
@pytest.mark.parametrize("width", [80, 200])
def test_watching_in_a_real_terminal(shop: Shop, tmp_path: Path, width: int) -> None:
    code, drawn = tmp_path / "code", tmp_path / "drawn"
    drawn.touch()
    run = " ".join([*FARREF, "refs", NAME, "--watch", "--every", "0.2"])
    with Terminal() as terminal:
        terminal.open("w", f"{run}; echo $? > {code}; echo left", width)
        terminal.tmux("pipe-pane", "-t", "w", f"cat > {drawn}")

        def was_drawn(text: str) -> bool:  # a mark stays on the screen for one look only
            return text in "\n".join(without_colours(drawn.read_text(errors="replace")))

        terminal.screen("Ctrl-C ends")
        shown = terminal.screen(f"{shop.ids['bread']} ")
        assert max(map(len, shown.splitlines())) <= width
        new = shop.do("make")
        eventually(lambda: was_drawn(f"+ {new} "))
        terminal.screen(f"  {new} ")
        shop.do("drop")
        eventually(lambda: was_drawn(f"- {new} "))
        terminal.tmux("send-keys", "-t", "w", "C-c")
        after = terminal.screen("left")
        assert code.read_text() == "0\n"
        assert "Traceback" not in after
        assert "Ctrl-C ends" in after  # the last table stays


@pytest.mark.processes
def test_watching_a_system_that_grows(tmp_path: Path) -> None:
    """The newest rows are on the screen; keys scroll to the others, and group them."""
    code = tmp_path / "code"
    with System(name=f"{NAME}-grows", timeout=60) as system, Terminal() as terminal:
        kept = [RRef([number]) for number in range(40)]
        words = [*FARREF, "refs", system.name, "--watch", "--every", "0.3"]
        terminal.open("w", f"{shlex.join(words)}; echo $? > {code}", 100)

        def rows() -> list[str]:
            shown = terminal.tmux("capture-pane", "-p").splitlines()
            return re.findall(r"^. (program/\d+) ", "\n".join(shown), re.MULTILINE)

        shown = terminal.screen("q quit")
        assert "s sort: new" in shown
        assert rows()[0] == str(kept[-1].id)
        for _ in range(3):
            kept.append(RRef([0]))
            eventually(lambda: rows()[0] == str(kept[-1].id))
        assert str(kept[0].id) not in rows()
        terminal.tmux("send-keys", "-t", "w", "Down")
        eventually(lambda: rows()[0] == str(kept[-2].id))
        terminal.tmux("send-keys", "-t", "w", "PageDown", "PageDown", "PageDown")
        eventually(lambda: rows()[-1] == str(kept[0].id))
        terminal.tmux("send-keys", "-t", "w", "PageUp", "PageUp", "PageUp", "PageUp")
        eventually(lambda: rows()[0] == str(kept[-1].id))
        terminal.tmux("send-keys", "-t", "w", "Tab")
        shown = terminal.screen("created at")
        assert re.search(r"^ *43 +list +program", shown, re.MULTILINE)
        terminal.tmux("send-keys", "-t", "w", "q")
        eventually(lambda: code.exists() and code.read_text() != "")
        assert code.read_text() == "0\n"


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
@pytest.mark.usefixtures("shop")
def test_an_interrupt_in_a_pipe_is_an_orderly_end() -> None:
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
    with System.attach(NAME) as system:  # this program is the fourth
        eventually(lambda: len(system.workers()) == 4)


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


def test_watching_draws_no_row_that_the_screen_has_no_room_for() -> None:
    """The whole table of many references takes longer than the time between two looks."""
    rows = [replace(ROW, rref=f"A/{number}") for number in range(100)]
    looks = iter([(Snapshot("x", rows=tuple(rows)), rows)] * 3)
    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=120, height=24)
    with pytest.raises(StopIteration):
        watch(lambda: next(looks), console, 0, "id")
    drawn = page.getvalue()
    left = [int(number) for number in re.findall(r"\.\.\. (\d+) rows more", drawn)]
    assert len(left) == 3, "each screen says how many rows it leaves out"
    assert min(left) >= len(rows) - 24
    assert drawn.count("A/99 ") == 1, "at the end the last table is printed whole"


def test_a_wait_shows_that_it_lasts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bar("asking"):
        pass
    assert capsys.readouterr().err == ""
    shown = []

    def is_shown() -> bool:
        shown.append(capsys.readouterr().err)
        return "asking" in "".join(shown)

    with bar("asking"):
        eventually(is_shown)


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
    def told(title: str, **fields: float) -> str:
        (place,) = (n for n, column in enumerate(COLUMNS) if column.title == title)
        return cells(replace(ROW, **fields))[place]

    ages, sizes = (0.04, 9.94, 61, 600, 7300), (0, 999, 1000, 123_456, 5 * 10**12)
    assert [told("age", age=each) for each in ages] == ["0.0 s", "9.9 s", "61 s", "10 min", "2.0 h"]
    assert [told("size", size=each) for each in sizes] == [
        *("0 B", "999 B", "1.0 kB", "123 kB", "5.0 TB"),
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

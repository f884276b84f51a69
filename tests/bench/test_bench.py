"""The benchmarks measure, report missing figures, and leave no process behind."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from ..actors.scripts import family
from ..waiting import eventually
from bench import page, plots, report
from bench.__main__ import _parser, main
from bench.catalogue import BENCHMARKS, BY_NAME, MB, SMALL
from bench.figures import shown
from bench.machine import machine, one_core_busy
from bench.peers import PEERS, NotOffered, PeerFailed, Spec
from bench.report import reasons
from bench.rounds import Plan, Row, Stage, _warm_up, measure
from bench.session import Session
from bench.targets import TARGETS, verdicts

ROOT = page.DOCS.parent
OURS = "farref,main,base,least"
MARK = "FARREF_BENCH_TEST"


def row(**figures: list[float]) -> Row:
    made = Row(BY_NAME["call"], 0)
    made.figures.update(figures)
    return made


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark the processes that a test starts, to tell them from others."""
    monkeypatch.setenv(MARK, str(os.getpid()))


def marked() -> list[psutil.Process]:
    """The processes that a test of this process has started, and theirs."""
    return family(str(os.getpid()), MARK)


# ---- real runs


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_quick_run_of_ours_measures_everything_and_ends_every_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--quick", "--peers", OURS, "--json", str(tmp_path / "figures.json")]) == 0
    said = capsys.readouterr().out
    figures = json.loads((tmp_path / "figures.json").read_text())
    results = {each["benchmark"]: each for each in figures["results"]}
    assert list(results) == [benchmark.name for benchmark in BENCHMARKS]
    assert all(len(each["peers"]["farref"]["rounds"]) == 2 for each in results.values())
    assert all(each["peers"]["farref"]["median"] > 0 for each in results.values())
    assert results["call"]["ours : raw"] > 0
    assert results["call"]["best peer"] is None  # ours is not compared with ours
    for variant, works in (("least", ["call", "values"]), ("main", ["call"])):
        assert [name for name in results if variant in results[name]["peers"]] == works
        assert all(results[name]["peers"][variant]["median"] > 0 for name in works)
    assert "raw messages have no references" in results["create-drop"]["without"]["base"]
    assert figures["machine"]["cores"] == os.cpu_count()
    assert [name for name in BY_NAME if BY_NAME[name].named(0).split()[0] not in said] == []
    assert marked() == []
    told = page.benchmarks(figures)
    for name, each in results.items():
        cell = shown(Row.from_json(each).median("farref"), each["unit"])
        lines = [line for line in told.splitlines() if line.startswith(f"| {each['title']} ")]
        assert [f"| {cell} ±" in " ".join(line.split()) for line in lines] == [True] * (
            name in page.SHOWN
        ), name
    lacking = "\n".join(reasons([Row.from_json(each) for each in figures["results"]]))
    assert "raw, our base: no method, methods-in-flight, chain, chain-stepwise, " in lacking


@pytest.mark.processes
def test_a_core_can_be_kept_busy_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert main(["call", "--quick", "--busy", "--peers", "base"]) == 0
    assert "another program keeps one core busy" in capsys.readouterr().out
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > before
    others = set(psutil.Process().children())
    with one_core_busy():
        assert len(set(psutil.Process().children()) - others) == 1
    assert set(psutil.Process().children()) <= others


@pytest.mark.processes
def test_a_run_measures_the_named_points_alone_and_leaves_no_benchmark_out(tmp_path: Path) -> None:
    """Ten is a point of `held`, and neither of `values` nor of `call`."""
    kept = tmp_path / "figures.json"
    quick = ["--quick", "--peers", "farref", "--json", str(kept)]
    assert main(["held", "values", "call", "--points", "10", *quick]) == 0
    results = json.loads(kept.read_text())["results"]
    found = [(each["benchmark"], each["point"]) for each in results]
    assert found == [("call", 0), ("values", 1_000), ("held", 10)]
    assert all(each["peers"]["farref"]["median"] > 0 for each in results)
    assert marked() == []


@pytest.mark.processes
def test_a_peer_that_dies_has_failed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Spec("broken", "Broken", "no_such_module", "Nothing", (), "farref")
    monkeypatch.setitem(PEERS, "broken", broken)  # not in the started process
    plan = Plan(rounds=2, quick=True)
    with Stage([broken, PEERS["base"]]) as stage:
        found = measure(BY_NAME["call"], 0, plan, stage)
    assert found.without["broken"].startswith("did not start: it ended: KeyError: 'broken'")
    assert len(found.figures["base"]) == 2
    assert marked() == []


@pytest.mark.processes
def test_a_session_refuses_what_it_does_not_offer_and_fails_when_it_is_killed() -> None:
    with Session(PEERS["base"], 2) as session:
        with pytest.raises(NotOffered, match="no references"):
            session.do("create_drop", 1, 0)
        assert session.do("call", 2, 0) > 0
        assert marked()
        os.kill(session._process.pid, 9)
        with pytest.raises(PeerFailed, match="it ended"):
            session.do("call", 1, 0)
    assert marked() == []


@pytest.mark.processes
def test_a_peer_that_is_restless_is_stopped_between_its_turns() -> None:
    def stopped() -> bool:
        peer = psutil.Process(session._process.pid)
        return all(
            process.status() == psutil.STATUS_STOPPED
            for process in (peer, *peer.children(recursive=True))
        )

    with Session(replace(PEERS["base"], restless=True), 2) as session:
        for _ in range(2):
            eventually(stopped)
            assert session.do("call", 2, 0) > 0
    assert marked() == []
    assert PEERS["torch"].restless


@pytest.mark.processes
def test_ctrl_c_ends_every_process() -> None:
    command = [sys.executable, "-m", "bench", "call", "--peers", "base"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        eventually(lambda: len(marked()) > 3, patience=60)  # it, the peer, and actors
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGINT, said
    assert marked() == []


KILLED = """
import signal
from dataclasses import replace
from bench.peers import PEERS
from bench.session import Session

session = Session(replace(PEERS["base"], restless=True), 2)
print(session.do("call", 2, 0) > 0, flush=True)
signal.pause()
"""
"""A command that has stopped a peer."""


@pytest.mark.processes
def test_a_peer_that_is_stopped_ends_when_the_command_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"True\n"
        command.kill()
    eventually(lambda: not marked(), marked, 60)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("no-such", "invalid choice: 'no-such'"),
        ("--peers no-such", "there is no peer 'no-such'"),
        ("--json no/such", "there is no folder no"),
        (
            "values references --points 1KB,2KB",
            "no point '2KB' in these benchmarks: there are "
            "1KB, 100KB, 1MB, 10MB, 100MB, 1GB (values); 1000, 100000 (references)",
        ),
        ("references --points 1KB", "no point '1KB' in these benchmarks: there are 1000, 100000"),
        ("references --points 100,000", "no point '100' in these benchmarks"),
        ("values --points 1000", "no point '1000' in these benchmarks: there are 1KB"),
        ("values --points 1KB,", "no point '' in these benchmarks: there are 1KB"),
        ("call --points 1KB", "no point '1KB' in these benchmarks: there is none"),
        (
            "values --quick --points 100KB",
            "no point '100KB' in a quick run of these: there are 1KB",
        ),
        ("--points 3KB", "1000, 100000 (references); 10 (alias-chain); 1KB, 100KB, 1MB"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments.split())
    assert exit_.value.code == 2
    told = capsys.readouterr().err
    assert re.search(rf"(error: (argument \S+: )?|; ){re.escape(said)}", told)


def test_points_are_named_as_the_tables_show_them() -> None:
    chosen = ["values", "held", "references", "call", "--points"]
    plan = Plan(named=_parser().parse_args([*chosen, "1 kb,100KB,1000"]).points)
    found = {name: plan.points(BY_NAME[name]) for name in chosen[:-1]}
    assert found == {
        "values": (1_000, 100_000),
        "held": (1_000,),
        "references": (1_000,),
        "call": (0,),
    }
    of_bytes = replace(plan, named=("1KB",))
    assert of_bytes.points(BY_NAME["references"]) == (1_000, 100_000)  # 1,000 are not 1 KB


def test_what_is_not_installed_is_skipped_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = Spec("absent", "Absent", "absent", "Absent", ("no_such_module",), "farref")
    monkeypatch.setitem(PEERS, "absent", absent)
    assert main(["call", "--peers", "absent"]) == 0
    assert "Absent: skipped, no_such_module is not installed" in capsys.readouterr().out


def test_the_list_names_every_benchmark_and_peer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    said = capsys.readouterr().out
    assert [name for name in (*BY_NAME, *PEERS) if name not in said] == []
    words = " ".join(said.split())  # without the breaks of its lines
    assert "needs new pages. Points: 1KB, 100KB, 1MB, 10MB, 100MB, 1GB. values-read" in words
    assert "Points: 1000, 100000. create-drop" in words
    assert words.count("Points:") == sum(benchmark.point != "" for benchmark in BENCHMARKS)


@pytest.mark.skipif(shutil.which("make") is None, reason="it needs make")
def test_the_busy_run_of_make_has_the_small_arrays_that_have_aims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MAKEFLAGS", raising=False)  # a make that runs this test has its own
    make = ["make", "-n", "-C", str(ROOT), "bench-plots"]
    said = subprocess.run(make, capture_output=True, text=True, check=True).stdout
    commands = said.replace("\\\n", " ").splitlines()
    (busy,) = [line for line in commands if "--busy" in line]
    options = _parser().parse_args(busy.partition("-m bench ")[2].split())
    assert options.json.name == page.RUNS["one core busy"]
    plan = Plan(named=options.points)
    measured = {name: plan.points(BY_NAME[name]) for name in options.names}
    small = {p for aim in TARGETS["values"] for p in aim.points if p < 10**6}
    assert set(measured.pop("values")) == small == {1_000, 100_000}
    assert measured.pop("references") == (1_000,)
    assert all(points == BY_NAME[name].points for name, points in measured.items())


# ---- figures


@pytest.mark.parametrize(
    ("name", "point", "figures", "found"),
    [
        (
            *("call", 0),
            {"farref": 1, "least": 0.4, "torch": 4, "ray": 5, "no-spin": 2.4, "main": 0.8},
            [
                "farref : PyTorch RPC at most 0.35: 0.25, met",
                "farref, of `__main__` : PyTorch RPC at most 0.35: 0.2, met",
                "farref, no spin : PyTorch RPC at most 0.35: 0.6, not met",
                "farref : the least call at most 1: 2.5, not met",
                "farref, of `__main__` : the least call at most 1: 2, not met",
            ],
        ),
        # More is better.
        (
            *("in-flight", 0, {"farref": 40, "torch": 10, "xoscar": 20}),
            [
                "farref : PyTorch RPC at least 2.5: 4, met",
                "farref : Xoscar at least 2.5: 2, not met",
            ],
        ),
        # The better of PyTorch's two ways counts, and at some sizes only.
        (
            *("frozen", 10**6, {"farref": 1, "torch": 40, "torch-tensor": 10, "ray": 0.6}),
            [
                "farref : Ray at most 2: 1.67, met",
                "farref : PyTorch, tensor at most 0.05: 0.1, not met",
            ],
        ),
        (
            *("frozen", 10**3, {"farref": 1, "torch": 40, "torch-tensor": 10, "ray": 0.6}),
            ["farref : Ray at most 0.5: 1.67, not met"],
        ),
        # A small array is judged as a call is, and beside the best peer.
        (
            *("values", 10**3, {"farref": 2, "torch": 8, "torch-tensor": 5, "manager": 1}),
            [
                "farref : Manager at most 0.5: 2, not met",
                "farref : PyTorch, tensor at most 0.35: 0.4, not met",
                "farref : Manager at most 2.5: 2, met",
            ],
        ),
        (
            *("values", 10**5, {"farref": 2, "torch": 8, "manager": 1}),
            ["farref : Manager at most 0.5: 2, not met"],
        ),
        # Some targets bound the figure itself.
        ("import", 0, {"farref": 0.14, "base": 1}, ["farref at most 150 ms: 140 ms, met"]),
        ("rest", 0, {"farref": 0.6}, ["farref at most 0.5 %: 0.6 %, not met"]),
        ("memory-holder", 0, {"farref": 601}, ["farref at most 600 B: 601 B, not met"]),
        ("rest-memory", 0, {"farref": 2_010}, ["farref at most 40 MB: 2.01 KB, met"]),
        ("start", 0, {"base": 0.1}, []),
    ],
)
def test_a_target_is_met_or_not(
    name: str, point: int, figures: dict[str, float], found: list[str]
) -> None:
    measured = Row(BY_NAME[name], point, {peer: [float(each)] for peer, each in figures.items()})
    told = [f"{v.compared} {v.aim}: {v.measured}, {v.said}" for v in verdicts(measured)]
    assert told == found


@pytest.mark.parametrize("name", ["call", "method", "remote-fetch", "share", "values"])
def test_without_spinning_the_bounds_are_those_of_spinning(name: str) -> None:
    figures = {"farref": [1.0], "no-spin": [2.0], "torch": [4.0], "xoscar": [5.0]}
    figures |= {"rpyc": [3.0], "manager": [2.5]}
    for point in {point for point in BY_NAME[name].points if point < MB}:
        found = verdicts(Row(BY_NAME[name], point, figures))
        spinning, not_spinning = (
            [(v.other, v.aim) for v in found if v.target.ours == ours]
            for ours in ("farref", "no-spin")
        )
        assert spinning == not_spinning != []


def test_every_target_is_of_a_benchmark_and_its_peers() -> None:
    assert TARGETS.keys() <= BY_NAME.keys()
    for name, aims in TARGETS.items():
        for aim in aims:
            assert {aim.ours, *aim.beside} <= PEERS.keys()
            assert not aim.points or set(aim.points) & set(BY_NAME[name].points)


def test_figures_are_kept_as_they_were(tmp_path: Path) -> None:
    some = [
        row(farref=[1.234567], torch=[2.0]),
        Row(BY_NAME["values"], 1_000, without={"ray": "no"}),
    ]
    specs = [PEERS[name] for name in ("farref", "torch")]
    report.save(report.as_json(some, Plan(), machine(), specs[:1]), tmp_path / "figures.json")
    kept = json.loads((tmp_path / "figures.json").read_text())
    first, second = map(Row.from_json, kept["results"])
    assert first.figures == {"farref": [1.2346], "torch": [2.0]}
    assert (second.title, second.without) == ("1 KB array, fetched", {"ray": "no"})


def test_a_hurried_plan_takes_less_of_everything() -> None:
    plan = Plan().within(14.0, 7, BY_NAME["values"], 10**6)
    assert (plan.warm, plan.patience) == (0.5, 14.0)
    assert plan.seconds * plan.rounds * 7 == pytest.approx(7.0)
    assert Plan().within(1_000.0, 7, BY_NAME["values"], 10**6) == Plan()
    assert Plan().within(-5.0, 7, BY_NAME["values"], 10**6).patience > 1.0
    small = Plan().within(-5.0, 10, BY_NAME["values"], 10**5)
    assert small == Plan().within(-5.0, 10, BY_NAME["call"], 0)  # it is judged as a call is
    assert Plan().within(-5.0, 7, BY_NAME["call"], 0).seconds > 0.2  # a few hundred calls


def printed(*tables: Any) -> str:
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(*tables)
    return console.export_text()


def test_a_target_of_fewer_than_three_rounds_says_so() -> None:
    rounds = [[1.0] * number for number in (1, 2, 3)]
    rows = [Row(BY_NAME["share"], 0, {"farref": each, "torch": each}) for each in rounds]
    found = re.findall(
        r"share, user to user(?: \((.) of 7 rounds\))?", printed(report.targets(rows, 7))
    )
    assert found == ["1", "2", ""]
    assert "rounds" not in printed(report.targets(rows[1:2], 2))  # it has all that were asked for


def test_what_a_size_decides_is_measured_with_spinning_alone() -> None:
    def measured(name: str, benchmark: str) -> list[int]:
        found = BY_NAME[benchmark]
        return [point for point in found.points if PEERS[name].does(found, point)]

    assert measured("farref", "values") == [*BY_NAME["values"].points]
    for brief in ("no-spin", "least"):
        assert measured(brief, "values") == [*SMALL]
        assert max(SMALL) < MB
        assert measured(brief, "call") == [0]
    assert measured("main", "values") == []


def test_a_benchmark_may_be_of_some_peers_only() -> None:
    names = [name for name, spec in PEERS.items() if spec.does(BY_NAME["start"], 0)]
    assert names == ["farref", "base"]
    assert not PEERS["base"].does(BY_NAME["import"], 0)


@pytest.mark.parametrize(
    ("point", "first", "each", "amount"),
    [
        # The first repetition may import modules: an array of 1 KB was once measured by one fetch.
        (1_000, 0.5, 1e-4, 3_000),
        (1_000, 5.0, 1e-4, 1),  # no import takes that long
        # The first large array writes new pages: one would tell nothing about the next ones.
        *((10**9, 0.0, 0.1, 3), (10**9, 0.0, 0.5, 3), (10**9, 0.0, 5.0, 1)),
    ],
)
def test_a_round_has_several_repetitions_unless_one_takes_seconds(
    point: int, first: float, each: float, amount: int
) -> None:
    class Peer:
        def do(self, _work: str, amount: int, _point: int) -> float:
            nonlocal first
            took, first = first or amount * each, 0.0
            return took

    peer: Any = Peer()
    assert _warm_up(peer, Row(BY_NAME["values"], point), Plan()) == amount


def test_ratios_are_of_the_same_round() -> None:
    found = row(farref=[1.0, 10.0, 1.0], ray=[2.0, 20.0, 2.0], torch=[4.0, 3.0, 4.0])
    assert found.best() == "ray"
    assert found.ratio("farref", "ray") == 0.5
    assert not found.loses
    assert found.ratio("farref", "xoscar") is None
    found.figures["xoscar"] = [0.0, 1.0, 1.0]
    assert found.ratio("farref", "xoscar") is None  # and not without end


def test_reasons_are_told_once() -> None:
    rows = [Row(BY_NAME[name], 0, without={"ray": "no"}) for name in ("call", "share")]
    assert reasons(rows) == ["Ray: no call, share (no)"]


def test_what_is_lacking_at_some_points_only_is_told_by_its_title() -> None:
    some = Row(BY_NAME["values"], 1_000, {"thespian": [1.0]})
    large = [Row(BY_NAME["values"], n, without={"thespian": "slow"}) for n in (10**8, 10**9)]
    said = "raw, Thespian: no 100 MB array, fetched, 1 GB array, fetched (slow)"
    assert reasons([some, *large]) == [said]


def test_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row(farref=[1.0, 2.0], ray=[3.0, 4.0])]
    rows += [Row(BY_NAME["references"], n, {"farref": [1.0, 2.0]}) for n in (1_000, 100_000)]
    drawn = plots.draw(rows, tmp_path)
    assert [path.name for path in drawn] == ["bench.png", "bench-story.png", "bench-scaling.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


METHODS = [(work, 3, 0) for work in ("method", "method_lent", "methods_in_flight")]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "works", "refused"),
    [
        ("farref", [*METHODS, *(("fetch_bytes", 3, point) for point in SMALL)], ()),
        ("base", [("fetch_bytes", 3, point) for point in SMALL], ()),
        ("no-spin", [("value", 3, point) for point in SMALL], ()),
        ("least", [("value", 3, point) for point in SMALL], ()),
        ("torch", METHODS, ()),
        (
            "manager",
            [("method", 2, 0), ("fetch_bytes", 2, 1_000)],
            ("share", 1, 0, "no such operation"),
        ),
        (
            "rpyc",
            [
                *(("method", 2, 0), ("methods_in_flight", 2, 0)),
                *(("value", 3, 1_000), ("fetch_bytes", 3, 1_000)),
                # It ended the connection after 600 of them or so.
                *(("value", 1_000, 1_000), ("value", 1_000, 1_000), ("value_read", 1, 100_000)),
            ],
            ("value", 1, 10**9, "compresses"),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_peer_does_its_works(name: str, works: list[tuple[str, int, int]], refused: Any) -> None:
    if why := PEERS[name].missing():
        pytest.skip(why)
    with Session(PEERS[name], 2) as session:
        for work, amount, point in [("call", 3, 0), *works]:
            assert session.do(work, amount, point) > 0, work
        if refused:
            *how, why = refused
            with pytest.raises(NotOffered, match=why):
                session.do(*how)

"""`farref bench`: it measures, tells what it could not, and leaves no process behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from farref.bench import plots
from farref.bench.catalogue import BENCHMARKS, BY_NAME, size
from farref.bench.peers import PEERS, Spec
from farref.bench.report import reasons, shown, tables
from farref.bench.rounds import Plan, Row, Stage, measure
from farref.bench.session import TOKEN, PeerFailed, PeerRefused, Session
from farref.cli import app

OURS = "farref,base"
MARK = "FARREF_BENCH_TEST"


def bench(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", *arguments], env={"COLUMNS": "150"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def row(**figures: list[float]) -> Row:
    made = Row(BY_NAME["call"], 0)
    made.figures.update(figures)
    return made


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test starts can be told from what others have started."""
    monkeypatch.setenv(MARK, str(os.getpid()))


def marked() -> list[psutil.Process]:
    """Sessions' processes that a test of this process has started."""
    found = []
    for process in psutil.process_iter():
        try:
            inherited = process.environ()
        except psutil.Error:
            continue
        if TOKEN in inherited and inherited.get(MARK) == str(os.getpid()):
            found.append(process)
    return found


# ---- real runs


@pytest.mark.processes
def test_a_quick_run_of_ours_measures_everything_and_ends_every_process(tmp_path: Path) -> None:
    code, said = bench("--quick", "--peers", OURS, "--json", str(tmp_path / "figures.json"))
    assert code == 0, said
    figures = json.loads((tmp_path / "figures.json").read_text())
    results = {each["benchmark"]: each for each in figures["results"]}
    assert list(results) == [benchmark.name for benchmark in BENCHMARKS]
    assert all(len(each["peers"]["farref"]["rounds"]) == 2 for each in results.values())
    assert all(each["peers"]["farref"]["median"] > 0 for each in results.values())
    assert results["call"]["ours : raw"] > 0
    assert results["call"]["best peer"] is None  # ours is not compared with ours
    assert "raw messages have no references" in results["create-drop"]["without"]["base"]
    assert figures["machine"]["cores"] == os.cpu_count()
    assert [name for name in BY_NAME if BY_NAME[name].named(0).split()[0] not in said] == []
    assert marked() == []


@pytest.mark.processes
def test_a_peer_that_dies_has_failed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Spec("broken", "Broken", "no_such_module", "Nothing", (), "farref")
    monkeypatch.setitem(PEERS, "broken", broken)  # not in the process that is started
    plan = Plan(rounds=2, quick=True)
    with Stage([broken, PEERS["base"]]) as stage:
        found = measure(BY_NAME["call"], 0, plan, stage, lambda: None)
    assert found.without["broken"].startswith("did not start: it ended: KeyError: 'broken'")
    assert len(found.figures["base"]) == 2
    assert marked() == []


@pytest.mark.processes
def test_a_session_refuses_what_it_does_not_offer_and_fails_when_it_is_killed() -> None:
    with Session(PEERS["base"], 2) as session:
        with pytest.raises(PeerRefused, match="no references"):
            session.do("create_drop", 1, 0)
        assert session.do("call", 2, 0) > 0
        assert marked()
        os.kill(session._process.pid, 9)
        with pytest.raises(PeerFailed, match="it ended"):
            session.do("call", 1, 0)
    assert marked() == []


@pytest.mark.processes
def test_without_colours_in_a_pipe() -> None:
    command = [sys.executable, "-m", "farref", "bench", "call", "--quick", "--peers", "base"]
    run = subprocess.run(
        command,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert "\x1b[" not in run.stdout
    assert "call, round trip" in run.stdout
    assert run.stderr == ""


# ---- the command's mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such"], "there is no benchmark 'no-such'"),
        (["--peers", "no-such"], "there is no peer 'no-such'"),
        (["--peers", ","], "no peer is named"),
        (["--rounds", "0"], "Invalid value for '--rounds'"),
        (["--json", "no/such/folder/figures.json"], "there is no folder"),
    ],
    ids=["benchmark", "peer", "nobody", "rounds", "folder"],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    code, said = bench(*arguments)
    assert code == 2
    assert message in " ".join(said.replace("│", " ").split())


def test_plots_need_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, said = bench("call", "--plots", str(tmp_path))
    assert code == 2
    assert "farref[bench]" in said


def test_what_is_not_installed_is_skipped_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Spec("absent", "Absent", "absent", "Absent", ("no_such_module",), "farref")
    monkeypatch.setitem(PEERS, "absent", absent)
    code, said = bench("call", "--peers", "absent")
    assert code == 0
    assert "Absent: skipped, no_such_module is not installed" in said


def test_the_list_names_every_benchmark_and_peer() -> None:
    code, said = bench("--list")
    assert code == 0
    assert [name for name in (*BY_NAME, *PEERS) if name not in said] == []


# ---- figures


def test_ratios_are_of_the_same_round() -> None:
    found = row(farref=[1.0, 10.0, 1.0], ray=[2.0, 20.0, 2.0], torch=[4.0, 3.0, 4.0])
    assert found.best() == "ray"
    assert found.ratio("farref", "ray") == 0.5
    assert not found.loses
    assert found.ratio("farref", "xoscar") is None


def test_more_is_better_for_a_rate() -> None:
    found = Row(BY_NAME["in-flight"], 0, {"farref": [100.0], "ray": [50.0], "torch": [200.0]})
    assert found.best() == "torch"
    assert found.loses


def test_a_losing_row_is_marked() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(*tables([row(farref=[3.0, 3.0], torch=[1.0, 1.0])], ["farref", "torch", "ray"]))
    said = console.export_text()
    assert "3 worse" in said
    assert "3 s ±0%" in said
    assert "not met" in said
    assert "Ray" not in said  # it has no figure


def test_reasons_are_told_once() -> None:
    rows = [Row(BY_NAME[name], 0, without={"ray": "no"}) for name in ("call", "share")]
    assert reasons(rows) == ["Ray: no call, share (no)"]


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.000_123_4, "seconds", "123 us"),
        (1.5, "seconds", "1.5 s"),
        (12_345.6, "per second", "12,300/s"),
        (2_010.0, "bytes", "2.01 KB"),
    ],
    ids=["us", "s", "rate", "bytes"],
)
def test_figures_have_three_digits(value: float, unit: str, said: str) -> None:
    assert shown(value, unit) == said  # type: ignore[arg-type]


def test_sizes_are_decimal() -> None:
    assert [size(number) for number in (10, 1_000, 10**8, 10**9)] == [
        "10 B",
        "1 KB",
        "100 MB",
        "1 GB",
    ]


def test_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row(farref=[1.0, 2.0], ray=[3.0, 4.0])]
    rows += [Row(BY_NAME["references"], n, {"farref": [1.0, 2.0]}) for n in (1_000, 100_000)]
    drawn = plots.draw(rows, tmp_path)
    assert [path.name for path in drawn] == ["bench.png", "bench-scaling.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)

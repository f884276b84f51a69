"""The programs of examples/: each is right, notices an error, and outlives a worker."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.progress import Progress

import farref
from farref import OwnerDiedError, System, WorkerDiedError
from farref.commands.demo import PROGRAMS
from farref.examples import harness, mapreduce

from .test_examples import python

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {
    "parameter-server": ("numpy", "sklearn"),
    "pagerank": ("networkx", "scipy"),
    "photographs": ("numpy", "sklearn", "PIL"),
}
"""The packages that each imports and farref does not need; for networkx, its pagerank's, too."""


def needs(name: str) -> Any:
    """A parameter of a test, skipped if a package that the program needs is missing."""
    missing = [each for each in NEEDS.get(name, ()) if find_spec(each) is None]
    reason = f"{', '.join(missing)} not installed: {harness.INSTALL}"
    return pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=reason))


def quiet() -> Progress:
    return Progress(disable=True)


# ---- each is right


@pytest.mark.parametrize("name", [needs(each) for each in PROGRAMS if each != "wordcount"])
def test_a_program_comes_to_the_same_as_one_process(name: str) -> None:
    # One run on the in-process base is enough; the tests of death run it on the other base.
    base = "simpleSystemBase" if name == "mapreduce" else "farrefBase"
    run = python("-m", harness.module_of(name), "--json", "--workers", "2", "--base", base)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert (told["same"], told["workers"]) == (True, 2)
    assert told.get("accuracy", 1.0) > 0.9
    assert "check" in run.stderr  # its progress bar


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_what_it_does_without_being_imported(name: str) -> None:
    sentence, rest = harness.about(name)
    assert sentence.endswith(".")
    assert len(rest.split()) > 50
    text = (ROOT / "examples" / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    assert "PROGRAM = " in text
    assert text.count("\n") < 250


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("parameter-server", lambda weights: [each + 1e-8 for each in weights]),
        ("pagerank", lambda ranks: {node: rank + 1e-7 for node, rank in ranks.items()}),
        ("mapreduce", lambda pairs: Counter(dict(pairs.most_common()[:-1]))),
        ("photographs", lambda sums: {number: each + 1e-12 for number, each in sums.items()}),
        ("photographs", lambda sums: dict(list(sums.items())[1:])),
    ],
    ids=["weights", "ranks", "pairs", "sums", "frames"],
)
def test_a_wrong_result_is_noticed(name: str, wrong: Callable[[Any], Any]) -> None:
    for each in NEEDS.get(name, ()):
        pytest.importorskip(each)
    made = harness.make(name)
    right = made.alone(quiet())
    assert made.judge(right, right).right
    assert not made.judge(wrong(right), right).right


def test_ranks_of_a_graph_in_a_file(tmp_path: Path) -> None:
    """The graph of farref's own modules and their imports: directed, and some import nothing."""
    for each in NEEDS["pagerank"]:
        pytest.importorskip(each)
    edges = set()
    for file in (ROOT / "protocol").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                edges.add(f"{file.stem} {node.module.split('.')[0]} {1 + len(node.names) / 2}")
    listed = tmp_path / "edges.txt"
    listed.write_text("\n".join(sorted(edges)), encoding="utf-8")
    run = python("-m", "farref.examples.pagerank", str(listed), "--json")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert (told["same"], told["edges"]) == (True, len({tuple(e.split()[:2]) for e in edges}))
    assert told["top"][0][0] in ("ids", "messages", "__future__", "typing", "errors")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no edge"),
        ("a b 1\nb c two\n", "is not a list of edges"),
        ("a b 1 2\n", "is not a list of edges"),
        ("a b\n# c\nc # d\n", "line 3: an edge needs two names: 'c # d'"),
        ("a b -1\n", "with a weight of 0 or less"),
        (None, "cannot be read: No such file"),
    ],
    ids=["empty", "word", "columns", "name", "negative", "missing"],
)
def test_what_is_no_graph_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    pytest.importorskip("networkx")
    pagerank = importlib.import_module("farref.examples.pagerank")
    file = tmp_path / "edges.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(harness.InputError, match=says):
        pagerank.PageRank(file)
    with pytest.raises(typer.Exit) as ended, harness.told("pagerank"):
        pagerank.PageRank(file)
    assert ended.value.exit_code == 2


def test_the_time_of_one_process_is_without_imports() -> None:
    """The modules that networkx.pagerank imports are loaded before the clock starts."""
    for each in NEEDS["pagerank"]:
        pytest.importorskip(each)
    code = "import sys; from farref.examples.pagerank import load; load(None)"
    run = python("-c", f"{code}; sys.exit('scipy.sparse' not in sys.modules)")
    assert run.returncode == 0, run.stderr


# ---- missing packages


HIDE = """
import runpy, sys
sys.modules[sys.argv[1]] = None
module, sys.argv = sys.argv[2], sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("name", "missing"),
    [("parameter-server", "numpy"), ("pagerank", "networkx"), ("photographs", "sklearn.datasets")],
)
def test_a_missing_package_is_named(name: str, missing: str) -> None:
    alone_run = python("-c", HIDE, missing, harness.module_of(name))
    listed = python("-c", HIDE, missing, "farref", "demo", name)
    if missing != "numpy":
        pytest.importorskip("numpy")
    for run in (alone_run, listed):
        assert run.returncode == 1
        assert f"this program needs {missing}, which is not installed: " in run.stderr
        assert harness.INSTALL in run.stderr
        assert "Traceback" not in run.stderr


# ---- a worker dies


def letters(word: str) -> Iterator[tuple[str, int]]:
    time.sleep(0.05)
    return ((letter, 1) for letter in word)


def total(_letter: str, numbers: list[int]) -> int:
    return sum(numbers)


def kill(name: str) -> None:
    os.kill(farref.rpc_sync(name, os.getpid), signal.SIGKILL)


class KillAt(Progress):
    """Kills a worker when the bar of the given phase has come to *completed*."""

    def __init__(self, what: str, completed: int, victim: str) -> None:
        super().__init__(disable=True)
        self.at = what, completed
        self.victim = victim
        self.killed = False

    def update(self, task_id: Any, **fields: Any) -> None:
        super().update(task_id, **fields)
        task = self.tasks[task_id]
        if (task.description, task.completed) == self.at and not self.killed:
            self.killed = True
            kill(self.victim)

    def advance(self, task_id: Any, advance: float = 1) -> None:
        self.update(task_id, advance=advance)


@pytest.mark.parametrize(("what", "completed"), [("map", 3), ("map", 20), ("reduce", 1)])
def test_what_a_dead_worker_did_is_done_again(what: str, completed: int) -> None:
    """While it maps; when only it has the results of its maps; while others reduce."""
    words = [f"{number:b} of many words" for number in range(20)]
    progress = KillAt(what, completed, "C")
    with System() as system:
        for name in "ABC":
            system.worker(name)
        found = mapreduce.map_reduce(["A", "B", "C"], words, letters, total, progress)
    assert progress.killed
    assert found == Counter(itertools.chain(*words))


def test_the_last_worker_that_dies_is_named() -> None:
    with System() as system:
        system.worker("C")
        with pytest.raises(WorkerDiedError, match="C"):
            mapreduce.map_reduce(["C"], ["a", "b"], letters, total, KillAt("map", 1, "C"))


@pytest.mark.parametrize(
    ("name", "bar", "victim"),
    [
        ("parameter-server", "train", "trainer-1"),
        ("pagerank", "rounds", "part-1"),
        ("photographs", "frames", "Edges"),
    ],
)
def test_a_program_that_loses_a_worker_ends_with_an_error(name: str, bar: str, victim: str) -> None:
    for each in NEEDS[name]:
        pytest.importorskip(each)

    class Killing(KillAt):
        def track(self, sequence: Any, *args: Any, **fields: Any) -> Any:
            for number, each in enumerate(sequence):
                if number == 2:
                    self.killed = True
                    named = [w.name for w in system.workers() if w.name.startswith(victim)]
                    kill(named[0])
                yield each

    progress = Killing(bar, 2, victim)
    made = harness.make(name)
    # Not FetchTimeoutError: the error comes without a minute's wait.
    with System() as system, pytest.raises((WorkerDiedError, OwnerDiedError)):
        made.together(system, 2, progress)
    assert progress.killed

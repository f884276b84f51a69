"""Fixtures for every test, and the check that a run of tests leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

from farref.actors.hosting import bases, directory
from farref.serialization import shared, slots

from .actors.scripts import family
from .waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "FARREF_TEST_RUN"
"""Every process of this run inherits this environment variable, and no other process has it."""
TASTE = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"),
    *("TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FARREF_LOG"),
)
"""Environment variables that change output. Tests about them set them."""


LONG = (
    *("model", "hosts", "fuzz", "simulation", "faults", "wear"),  # explorations, and machines
    *("launch", "rpc", "bench", "examples"),  # programs by the dozen
    *("docs/test_blocks.py", "docs/test_site.py", "packaging/test_types.py"),
    *("actors/cluster/test_etcd.py", "actors/cluster/test_store_troubles.py"),
    "actors/cluster/test_sharing_deaths.py",
    *("actors/limits/test_bounds.py", "base/test_elsewhere.py"),
)
"""All tests in these folders and files are marked long: `make test` leaves them to `make test-all`,
which CI runs."""
LONGEST = (
    "actors/looking/test_snapshot.py",
    "packaging/test_types.py",
    "hosts/test_deaths.py",
    "docs/test_blocks.py",
    "actors/rendezvous/test_rendezvous.py",
    "commands/test_demo.py",
    "commands/test_refs.py",
)
"""The longest files begin, then come the `LONG` ones: no long test is left alone at the end. The
first one searches all objects of pytest's process, so it comes while there are few."""
FILLING = (
    "rendezvous/test_torchrun.py",
    "wear/test_wear.py",
    "rendezvous/test_parameters.py",
    "rendezvous/test_backends.py",
    "actors/cycles/test_torch.py",
    "actors/limits/test_bounds.py",
    "model/test_explorer.py",
    "simulation/test_simulation.py",
    "model/test_random_programs.py",
    "model/test_mutants.py",
    "model/test_rendezvous.py",
    "model/test_delivery.py",
    "model/test_rendezvous_mutants.py",
)
"""The files that fill the memory come last, the longest first; some of them import torch. Each
process that a test starts is a fork of pytest's: its cost grows with pytest's memory."""


# The duration of an example depends on the machine's load, not on the tested code. Every run has
# the same examples; `--hypothesis-profile=default` draws others.
settings.register_profile(
    "farref", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("farref")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests are all in one process, except the explorer's: there those of one group."""
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = re.search(r"\[(\w+\.py): ", nodeid)
            return f"{super()._split_scope(nodeid)}{group[1] if group else ''}"

    return ByGroup(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the trace tests see into tests/traces; commit only diffs you understand",
    )
    parser.addoption(
        "--base", help="what `System()` is on in the tests that name no base: `make test-bases`"
    )


def pytest_configure(config: pytest.Config) -> None:
    for name in TASTE:  # before any import that looks at them
        os.environ.pop(name, None)
    bases.DEFAULT = config.getoption("--base") or bases.DEFAULT
    # A run in the background ignores SIGINT, and so would every program that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Thespian's TCP transport leaves it to the garbage collector to close its sockets.
    config.addinivalue_line(
        "filterwarnings", r"ignore:unclosed <socket\.socket fd=\d+, family=2:ResourceWarning"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    longest = {tests / name: place for place, name in enumerate(LONGEST)}
    filling = {tests / name: place for place, name in enumerate(FILLING)}

    def is_long(item: pytest.Item) -> bool:
        there = item.path.relative_to(tests)
        return there.parts[0] in LONG or there.as_posix() in LONG

    def place(item: pytest.Item) -> tuple[int, int, bool]:
        return filling.get(item.path, -1), longest.get(item.path, len(longest)), not is_long(item)

    for item in items:
        if is_long(item):
            item.add_marker(pytest.mark.long)
    items.sort(key=place)


@pytest.fixture(scope="session")
def rewrite(pytestconfig: pytest.Config) -> bool:
    """Whether a trace test corrects its expected output instead of comparing with it."""
    return bool(pytestconfig.getoption("--rewrite"))


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of running systems that is this test's alone."""
    # pytest's own folders have long names, and where sockets do not fit, all share one.
    with tempfile.TemporaryDirectory(prefix="farref-test-", dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield directory.folder()


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No process, listening port, directory entry or shared memory outlives the tests."""
    run = uuid.uuid4().hex
    # Not in TMPDIR: sockets need short paths, and if they do not fit, all runs share one.
    runtime = Path(tempfile.mkdtemp(prefix="farref-run-", dir="/tmp"))
    before = dict(os.environ)
    os.environ.update({RUN: run, "XDG_RUNTIME_DIR": str(runtime)})
    ports = listening_ports()
    gc.collect()
    gc.freeze()  # thousands of collected tests: many tests collect garbage, and actors inherit it
    yield
    end = time.monotonic() + PATIENCE
    while (left := family(run, RUN)) and time.monotonic() < end:
        time.sleep(0.05)
    said = [f"process {p.pid}: {' '.join(p.cmdline())[:200]}" for p in left]
    for process in left:
        process.kill()
    gc.collect()  # Thespian's TCP transport leaves the closing of its sockets to that
    said += [f"listening on port {port}" for port in listening_ports() - ports]
    said += [f"entry {path.name}" for path in (runtime / "farref").glob("*.json")]
    slots.forget()
    shared.recycler.empty()
    said += [f"shared memory {name}" for name in shared_memory()]
    os.environ.clear()
    os.environ.update(before)
    shutil.rmtree(runtime)
    assert not said, "the tests left behind:\n" + "\n".join(said)


def listening_ports() -> set[int]:
    """The ports of this very process's listeners."""
    here = psutil.Process().net_connections(kind="inet")
    return {each.laddr.port for each in here if each.status == psutil.CONN_LISTEN}


def shared_memory() -> list[str]:
    """The segments that this process has open. The last process that closes a segment frees it."""
    found = []
    for entry in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # the descriptor that reads the folder
            found.append(os.readlink(entry))
    return [name for name in found if "memfd:farref" in name]

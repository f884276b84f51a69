"""Fixtures for every test, and the check that a run of tests leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import re
import shutil
import signal
import tempfile
import uuid
import zlib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

from farref.actors.hosting import bases, directory
from farref.serialization import shared, slots

from .actors.scripts import family
from .duties import broken, checked_duties
from .waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "FARREF_TEST_RUN"
"""Every process of this run inherits this environment variable, and no other process has it."""
TASTE = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"),
    *("TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FARREF_LOG"),
)
"""Environment variables that change output. Tests about them set them."""


LONG = {
    "model": 1,
    "hosts": 5,
    "fuzz": 2,
    "simulation": 4,
    "faults": 3,
    "wear": 1,
    "launch": 5,
    "rpc": 3,
    "rendezvous/test_torchrun.py": 3,
    "bench": 4,
    "examples": 3,
    "docs/test_blocks.py": 6,
    "docs/test_site.py": 1,
    "packaging/test_types.py": 1,
    "actors/cluster/test_etcd.py": 2,
    "actors/cluster/test_store_troubles.py": 2,
    "actors/cluster/test_sharing_deaths.py": 2,
    "actors/limits/test_bounds.py": 2,
    "base/test_elsewhere.py": 2,
}
"""All tests in these folders and files are marked long: `make test` leaves them to `make test-all`,
which CI runs. Of so many in a file, one is for CI, and `make deep` runs the others."""
LONGEST = (
    "actors/inspect/test_snapshot.py",
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
    "serialization/test_tensors.py",
    "actors/cycles/test_torch.py",
    "actors/limits/test_bounds.py",
    "model/test_explorer.py",
    "simulation/test_simulation.py",
    "model/test_random_programs.py",
    "model/test_mutants.py",
    "model/test_other_machines.py",
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
            group = re.search(r"\[(\w+\.txt|delivery|rendezvous|succession): ", nodeid)
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

    def one_in(item: pytest.Item) -> int | None:
        there = item.path.relative_to(tests)
        return LONG.get(there.parts[0]) or LONG.get(there.as_posix())

    def place(item: pytest.Item) -> tuple[int, int, bool]:
        last = filling.get(item.path, -1)
        return last, longest.get(item.path, len(longest)), one_in(item) is None

    alike = defaultdict[tuple[Path, int], list[pytest.Item]](list)
    for item in items:
        number = one_in(item)
        if number is not None:
            item.add_marker(pytest.mark.long)
        if (sampled := item.get_closest_marker("sampled")) is not None:
            number = sampled.args[0]
        left_out = item.get_closest_marker("slow") or item.get_closest_marker("deep")
        if number is not None and left_out is None:
            alike[item.path, number].append(item)
    for (_, number), found in alike.items():
        # By a hash, so that each run has the same sample. It has one of each file at least.
        found.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in found[math.ceil(len(found) / number) :]:
            item.add_marker(pytest.mark.deep)
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
    with contextlib.suppress(AssertionError):
        eventually(lambda: not family(run, RUN))
    left = family(run, RUN)
    said = [f"process {p.pid}: {' '.join(p.cmdline())[:200]}" for p in left]
    for process in left:
        process.kill()
    gc.collect()  # Thespian's TCP transport leaves the closing of its sockets to that
    said += [f"listening on port {port}" for port in listening_ports() - ports]
    said += [f"entry {path.name}" for path in (runtime / "farref").glob("*.json")]
    if broken().exists():
        said.append(broken().read_text())
    slots.forget()
    shared.recycler.empty()
    said += [f"shared memory {name}" for name in shared_memory()]
    os.environ.clear()
    os.environ.update(before)
    shutil.rmtree(runtime)
    assert not said, "the tests left behind, or broke:\n" + "\n".join(said)


@pytest.fixture(scope="module", autouse=True)
def duties(request: pytest.FixtureRequest) -> Iterator[None]:
    """The duties of callers are checked, except in files that give a reason not to."""
    if hasattr(request.module, "DUTIES_UNCHECKED"):
        yield
        return
    with checked_duties():
        yield


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

"""Our own base without Linux's own features, which are switched off alone and together.

This stands for macOS and the BSDs, on which the base was never tried. ``make elsewhere`` runs more
of the tests like this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from farref import features

from ..waiting import eventually
from .kit import ROOT, alive, started

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def peereid(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library with the ``getpeereid`` of other systems."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, to make `getpeereid` with")
    library = tmp_path_factory.mktemp("library") / "elsewhere.so"
    source = Path(__file__).with_name("elsewhere.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def run(script: str, without: str, library: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, features.SWITCH: without, "LD_PRELOAD": library}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=ROOT)


SMOKE = """
    import os, signal
    import farref
    from farref import System, WorkerDiedError
    from farref.features import has
    from tests.ports import free_port

    off = os.environ["FARREF_WITHOUT"]
    assert not has("pidfd" if off == "all" else off)

    def size(array):
        return len(array)

    with System(host="127.0.0.1", port=free_port("127.0.0.1")) as system:
        system.worker("A"), system.worker("B")
        ref = farref.remote("A", list, args=("abc",))
        assert farref.rpc_sync("B", farref.RRef.to_here, (ref,)) == ["a", "b", "c"]
        assert farref.rpc_sync("B", size, (bytes(3_000_000),)) == 3_000_000
        pid = farref.rpc_sync("A", os.getpid)
        call = farref.rpc_async("A", signal.pause)
        os.kill(pid, signal.SIGKILL)
        try:
            call.result()
        except WorkerDiedError:
            print("it has died")
"""


@pytest.mark.parametrize("without", ["all", *sorted(features.LINUX_ONLY)])
def test_a_system_runs_without(without: str, peereid: str) -> None:
    done = run(SMOKE, without, peereid)
    assert (done.stdout, done.returncode) == ("it has died\n", 0), done.stderr
    [line] = done.stderr.splitlines()  # the log's line: the death is the only warning
    assert "A is gone: killed by SIGKILL" in line


def test_a_killed_program_leaves_no_process(peereid: str) -> None:
    """The reaper notices the kill without pidfds, too."""
    env = {features.SWITCH: "all", "LD_PRELOAD": peereid}
    with started("elsewhere", "fork", **env) as (program, pids):
        assert len(pids) == 3
        assert all(map(alive, pids))
        program.kill()
        eventually(lambda: not any(map(alive, pids)))


@pytest.mark.long
def test_the_tests_of_the_base_pass(peereid: str) -> None:
    """The tests of death and of actors; ``make elsewhere`` runs the others."""
    env = {**os.environ, features.SWITCH: "all", "LD_PRELOAD": peereid}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "tests/base/test_actors.py"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


NO_DEFAULT = """
    import farref
    from farref.actors.base import UnsupportedPlatform, system_base

    try:
        farref.System()
    except farref.SystemDownError as error:
        print(error)
    try:
        system_base()
    except UnsupportedPlatform as error:
        print(error)
    with farref.System("simpleSystemBase") as system:
        system.worker("A")
        print(farref.rpc_sync("A", pow, (2, 3)))
"""


def test_there_is_no_default_where_peers_are_not_known() -> None:
    """Nothing listens on every interface unless the caller names that address."""
    done = run(NO_DEFAULT, "peercred,peereid")
    assert (done.stderr, done.returncode) == ("", 0)
    first, second, third = done.stdout.splitlines()
    assert "System('simpleSystemBase')" in first
    assert "System('multiprocTCPBase')" in first
    assert "listens on every network interface" in first
    assert "Unix sockets that report the user" in second
    assert third == "8"


NO_POSIX = """
    import sys

    class Without:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, *rest):
            return None if name == "fcntl" else self.finder.find_spec(name, *rest)

    sys.meta_path[:] = map(Without, sys.meta_path)  # in some Pythons it is no file
    import farref
"""


def test_what_is_missing_on_windows_is_named() -> None:
    done = run(NO_POSIX, "")
    assert done.stderr.splitlines()[-1].startswith("ImportError: farref needs a POSIX system")


def test_an_unknown_feature_is_named() -> None:
    done = run("import farref", "epoll,warp drive")
    assert "FARREF_WITHOUT may name affinity, epoll" in done.stderr
    assert "not warp drive" in done.stderr

"""`farref run` with real processes: nodes that are loopback addresses of this machine."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from farref.launch import notes
from farref.launch.launchers import find

from ..actors.scripts import family
from ..commands.kit import FARREF, farref
from ..conftest import RUN
from ..ports import free_port
from ..waiting import eventually
from .kit import FIRST, PATIENCE, SLEEPER, Node, commands, nodes

pytestmark = pytest.mark.processes

BEFORE: set[psutil.Process] = set()
"""The processes of this test run that earlier tests keep, such as an etcd."""


@pytest.fixture(autouse=True)
def _before() -> None:
    BEFORE.clear()
    BEFORE.update(family(os.environ[RUN], RUN))


def left() -> set[psutil.Process]:
    """The processes that this test has started, and that still run."""
    return {*family(os.environ[RUN], RUN)} - BEFORE


WORK = """
    import sys
    import beside
    import farref

    if __name__ == "__main__":
        with farref.System() as system:
            print([host.address.partition(":")[0] for host in system.hosts()], flush=True)
            for rank in (1, 2):
                system.worker(f"w{rank}", on={"farref node": rank})
                print(farref.rpc_sync(f"w{rank}", beside.double, args=(rank,)))
        with farref.System() as system:
            print("again", len(system.hosts()))
            with farref.System() as inner:
                print("inner", len(inner.hosts()))
        print(sys.stdin.read(), sys.argv[1:])
        sys.exit(7)
"""


def test_the_program_has_all_nodes_and_all_end_with_its_exit_code(tmp_path: Path) -> None:
    """Its own modules can be imported on each; its input and output are untouched."""
    (tmp_path / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    with nodes(tmp_path, dedent(WORK), "--nnodes", "a b", size=3) as running:
        first, *others = running
        assert first.end("some text") == 7, first.err
        assert first.err == ""
        assert first.out.splitlines() == [
            "['127.0.0.2', '127.0.0.3', '127.0.0.4']",
            "2",
            "4",
            "again 3",
            "inner 1",
            "some text ['--nnodes', 'a b']",
        ]
        for other in others:
            assert (other.end(), other.out, other.err) == (7, "", "")
    assert left() == set()


@pytest.mark.parametrize(
    ("rank", "number"),
    [
        (1, signal.SIGTERM),
        pytest.param(0, signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(0, signal.SIGINT, marks=pytest.mark.long),
        pytest.param(1, signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_a_signal_to_any_node_ends_all(tmp_path: Path, rank: int, number: int) -> None:
    with nodes(tmp_path, SLEEPER) as running:
        first, other = running
        first.until("ready")
        running[rank].process.send_signal(number)
        assert (first.end(), other.end()) == (128 + number, 128 + number)
        assert ("KeyboardInterrupt" in first.err) == (number == signal.SIGINT)
        name = signal.Signals(number).name
        assert (f"node 1 got {name}: the program gets it" in first.err) == (rank == 1)
        assert other.err == ""
    assert left() == set()


SURVIVOR = dedent("""
    import farref
    from farref.testing import until

    if __name__ == "__main__":
        with farref.System(timeout=30) as system:
            system.worker("far", on={"farref node": 1})
            print("ready", flush=True)
            assert until(system, lambda: len(system.hosts()) == 1, 60)
            print("alone", flush=True)
            system.worker("again", on={"farref node": 1})
            print(farref.rpc_sync("again", pow, args=(2, 10)), flush=True)
""")


@pytest.mark.long
def test_with_no_kill_the_program_goes_on_and_a_node_may_come_again(tmp_path: Path) -> None:
    with nodes(tmp_path, SURVIVOR, options=("--no-kill",)) as (first, other):
        first.until("ready")
        other.process.send_signal(signal.SIGTERM)
        assert other.end() == 128 + signal.SIGTERM
        first.until("alone")
        again = Node(tmp_path, [str(word) for word in other.process.args], {})  # type: ignore[union-attr]  # a list
        assert first.end() == 0, first.err
        assert first.out.splitlines() == ["ready", "alone", "1024"]
        lost = "node 1 (127.0.0.1) is lost: it got SIGTERM; the program goes on"
        assert f"farref run: {lost}\n" in first.err
        assert (again.end(), again.err) == (0, "")


@pytest.mark.long
def test_a_program_that_starts_no_system_ends_the_others_too(tmp_path: Path) -> None:
    with nodes(tmp_path, "import sys; sys.exit('no')") as (first, other):
        assert (first.end(), first.err) == (1, "no\n")
        assert (other.end(), other.err) == (1, "")


@pytest.mark.long
def test_nodes_that_do_not_fit_together_are_told_why(tmp_path: Path) -> None:
    where = f"{FIRST}:{free_port(FIRST)}"

    def node(rank: str, nnodes: str) -> Node:
        options = ["--nnodes", nnodes, "--node-rank", rank, "--first", where, "--", "true"]
        return Node(tmp_path, [*FARREF, "run", *options], {})

    first, other = node("0", "2"), node("1", "3")
    assert (first.end(), other.end()) == (1, 1)
    assert first.err == other.err
    assert "was started for 3 nodes, and the first one for 2; give all the same" in first.err


def farref_run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*FARREF, "run", *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=os.environ | env
    )


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    where = f"{FIRST}:{free_port(FIRST)}"
    options = ["--nnodes", "3", "--first", where, "--timeout", "1"]
    first = farref_run(*options, "--node-rank", "0", "--", "true")
    assert (first.returncode, first.stdout) == (1, "")
    assert "farref run: of 3 nodes 1, 2 did not come to port" in first.stderr
    other = farref_run(*options, "--node-rank", "1", "--", "true")
    assert (other.returncode, other.stdout) == (1, "")
    assert f"farref run: the first node did not answer at {where} within 1 s" in other.stderr
    shared = ["--nnodes", "2", "--node-rank", "1", "--shared", str(tmp_path), "--timeout", "1"]
    other = farref_run(*shared, "--", "true")
    assert "it has not written that file" in other.stderr
    assert "if the nodes do not share that folder, give --shared" in other.stderr


def test_one_node_becomes_the_program() -> None:
    done = farref_run("--", sys.executable, "-c", "import os; print(os.getppid()); exit(3)")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{os.getpid()}\n", "")
    none = farref_run("--", "no-such-program")
    assert none.returncode == 127
    assert none.stderr == "farref run: cannot start no-such-program: No such file or directory\n"


@pytest.mark.long
def test_a_starter_that_ignores_its_children_changes_no_exit_code(tmp_path: Path) -> None:
    quiet = "import signal, os, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    starter = [sys.executable, "-c", f"{quiet}; os.execv(sys.argv[1], sys.argv[1:])"]
    program = "import farref, sys\nwith farref.System(): pass\nsys.exit(7)"
    running = [Node(tmp_path, [*starter, *each], {}) for each in commands(tmp_path, program)]
    assert [node.end() for node in running] == [7, 7]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    nodes = ["--nnodes", "2", "--node-rank", "1"]
    run = partial(farref, "run", *nodes)
    nowhere = run("--", "true")
    assert nowhere.returncode == 1
    missing = "the first node's address is missing in the command line"
    assert f"{missing}; give --first ADDRESS" in nowhere.stderr
    no_key = run("--first", "10.0.0.1", "--", "true")
    assert "the nodes need a shared key" in no_key.stderr
    absent = run("--first", "10.0.0.1", "--key", tmp_path / "k", "--", "true")
    assert f"cannot read the key {tmp_path / 'k'}: No such file or directory" in absent.stderr
    bad = farref_run(*nodes, "--first", "10.0.0.1", "--", "true", FARREF_KEY="a" * 64)
    assert "repeats 1 different bytes" in bad.stderr
    assert run().returncode == 2


def test_the_nodes_of_a_job_of_slurm_share_the_working_folder(tmp_path: Path) -> None:
    """There is no SLURM here: these are its variables. The first node makes the key."""
    job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    job |= {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "no-such-node-[1-2]"}
    note = notes.path_in(tmp_path, find({**job, "SLURM_PROCID": "0"}).run)
    options = ["run", "--timeout", "5", "--", "true"]
    first = Node(tmp_path, [*FARREF, *options], {**job, "SLURM_PROCID": "0"})
    eventually(
        lambda: notes.read(note) is not None or first.process.poll() is not None, patience=PATIENCE
    )
    found = notes.read(note)
    assert found is not None, first.end()
    assert len(found.key) == 32
    first.process.terminate()
    assert first.end() == 128 + signal.SIGTERM
    assert first.err == "farref run: node 0 got SIGTERM\n"
    assert not note.exists()


CAREFUL = dedent("""
    import signal, sys

    number = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, number)
    print("ready", flush=True)
    signal.sigwait(number)
    again = signal.sigtimedwait(number, 0.5)  # its own end in order takes a while
    print("once" if again is None else "again", flush=True)
    sys.exit(5)
""")


def test_a_signal_to_all_nodes_comes_once(tmp_path: Path) -> None:
    """As launchers send it to the process groups of their tasks."""
    with nodes(tmp_path, CAREFUL) as running:
        first, other = running
        first.until("ready")
        for node in running:
            os.killpg(node.process.pid, signal.SIGTERM)
        assert (first.end(), other.end()) == (5, 5), first.err
        assert first.out == "ready\nonce\n"


@pytest.mark.long
def test_the_second_signal_of_the_first_node_kills(tmp_path: Path) -> None:
    with nodes(tmp_path, CAREFUL.replace("sys.exit(5)", "signal.pause()")) as (first, other):
        first.until("ready")
        first.process.terminate()
        first.until("once")
        first.process.terminate()
        assert (first.end(), other.end()) == (128 + signal.SIGKILL, 128 + signal.SIGKILL)


@pytest.mark.long
def test_a_script_around_the_program_gets_the_signal_with_it(tmp_path: Path) -> None:
    wrapped = f"import os; os.execvp('bash', ['bash', '-c', '{sys.executable} inner.py; exit 9'])"
    (tmp_path / "inner.py").write_text("import signal; print('ready', flush=True); signal.pause()")
    with nodes(tmp_path, wrapped) as (first, other):
        first.until("ready")
        first.process.terminate()
        assert (first.end(), other.end()) == (128 + signal.SIGTERM, 128 + signal.SIGTERM)
    assert left() == set()


TYPED = dedent("""
    import signal, sys

    number = {signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, number)
    print(input(), flush=True)
    signal.sigwait(number)
    print("once" if signal.sigtimedwait(number, 0.5) is None else "again", flush=True)
    sys.exit(5)
""")


@pytest.mark.long
def test_at_a_terminal_the_program_reads_it_and_ctrl_c_comes_once(tmp_path: Path) -> None:
    mine, theirs = commands(tmp_path, TYPED)
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execv(mine[0], mine)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        other = Node(tmp_path, theirs, {})
        screen.write(b"hello\n")
        assert b"hello" in screen.readline()  # the terminal's echo
        assert screen.readline().strip() == b"hello"
        screen.write(b"\x03")
        assert b"once" in screen.readline()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        assert (other.end(), other.err) == (5, "")

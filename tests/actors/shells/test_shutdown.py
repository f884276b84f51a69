"""Nothing outlives a system: no process, port or file, however the program ends."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System, SystemDownError

from ...bases import BASES, PROCESSES
from ...conftest import listening_ports
from ...stopping import stop
from ...waiting import PATIENCE, eventually
from ..core.interrupting import Finalizing
from ..helpers import hold, until
from ..scripts import all_gone, family, run, running, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.processes


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> Iterator[str]:
    """A mark on all processes that inherit it. Afterwards there are none, and no remains."""
    mark, ports = uuid.uuid4().hex, listening_ports()
    monkeypatch.setenv("FAMILY", mark)
    yield mark
    gone = all_gone(mark)
    left = family(mark)
    for process in left:
        process.kill()
    assert gone, left
    assert not list(own_folder.glob("*.json"))
    assert listening_ports() <= ports  # the collector may close a socket of an earlier test


@pytest.mark.parametrize("base", BASES)
def test_after_shutdown(base: str, mark: str) -> None:
    system = System(base)
    system.worker("B")
    assert system.shutdown() == []
    assert all_gone(mark)
    assert system.shutdown() == []
    for use in (
        lambda: system.worker("C"),
        lambda: system.tell("B", 1),
        lambda: system.ask("B", 1),
        system.workers,
        lambda: farref.remote("B", pow, (2, 2)),
    ):
        with pytest.raises(SystemDownError):
            use()


@pytest.mark.parametrize("base", BASES)
def test_after_an_exception_in_the_body(base: str, mark: str) -> None:
    with pytest.raises(KeyError), System(base) as system:  # noqa: PT012 - the end of the block is the test
        system.worker("B")
        raise KeyError
    assert all_gone(mark)


@pytest.mark.parametrize("base", BASES)
def test_what_waits_ends_with_the_system(base: str, mark: str, gate: Path) -> None:
    with System(base) as system:
        system.worker("B")
        ref = farref.remote("B", hold, (gate,))
        future = farref.rpc_async("B", hold, (gate,))
        chained = future.then(lambda done: done.result())
        system.shutdown(timeout=0)
    with pytest.raises(SystemDownError, match="was shut down"):
        future.result()
    with pytest.raises(SystemDownError):
        chained.result()
    with pytest.raises(SystemDownError):
        ref.to_here()


@pytest.mark.parametrize("graceful", [True, False])
@pytest.mark.parametrize("base", BASES)
def test_the_calls_of_others_that_wait_for_a_thread_are_not_begun(
    base: str, graceful: bool, mark: str, gate: Path, tmp_path: Path
) -> None:
    """Neither by the pool, nor in the thread that leaves: the callers are told that it has."""
    with System(base, program="me", threads=1) as system:
        system.worker("B")
        began = tmp_path / "began"
        began.mkdir()
        farref.rpc_sync("B", _call_the_program, (20, began, gate))
        assert until(system, lambda: any(began.iterdir()))
        assert until(system, lambda: farref.counters().waiting == 19)
        system.shutdown(graceful=graceful, timeout=0)
    gate.touch()
    assert [each.name for each in began.iterdir()] == ["0"]


_calls: list[farref.Future[Any]] = []


def _call_the_program(times: int, began: Path, gate: Path) -> None:
    _calls.extend(farref.rpc_async("me", _begin, (n, began, gate)) for n in range(times))


def _begin(number: int, began: Path, gate: Path) -> None:
    (began / str(number)).touch()
    hold(gate)


@pytest.mark.parametrize("base", BASES)
def test_a_callback_that_does_not_end_holds_up_no_end(base: str, mark: str, gate: Path) -> None:
    """It goes on in a thread of its own, whether it has begun before or at the end."""
    ended = []

    def never(future: farref.Future[Any]) -> None:
        hold(gate)
        ended.append(future.exception())

    with System(base, threads=1) as system:
        system.worker("B")
        future = farref.rpc_async("B", hold, (gate,))
        for each in (future, farref.rpc_async("B", pow, (2, 3))):
            for _ in range(3):
                each.add_done_callback(never)
        chained = future.then(lambda done: str(done.exception()))
        system.shutdown(graceful=False)
        assert "was shut down" in chained.result(0)
        assert not ended
    gate.touch()
    eventually(lambda: len(ended) == 6)


@pytest.mark.parametrize("base", BASES)
def test_a_callback_may_shut_down(base: str, mark: str) -> None:
    system, ended = System(base), threading.Event()
    system.worker("B")

    def end(_: object) -> None:
        system.shutdown()
        ended.set()

    farref.rpc_async("B", pow, (2, 3)).add_done_callback(end)
    assert until(system, ended.is_set)
    assert not System.running()


@pytest.mark.parametrize("base", BASES)
def test_several_threads_shut_down_at_once(base: str, mark: str) -> None:
    """Each returns when the system has ended, and without an error."""
    system = System(base)
    system.worker("B")
    together, left = threading.Barrier(4), list[object]()

    def end(how: Callable[[], list[str]]) -> None:
        together.wait()
        try:
            how()
        except BaseException as error:
            left.append(error)
        left.extend(family(mark))

    ways = [system.shutdown, system.end, system.shutdown, lambda: system.shutdown(graceful=False)]
    threads = [threading.Thread(target=end, args=(way,)) for way in ways]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not any(each.is_alive() for each in threads)
    assert not left


WAYS_TO_END = {
    "a thread, while the interpreter exits": """
        threading.Thread(target=system.shutdown, daemon=True).start()
    """,
    "a signal handler, in the midst of it": """
        signal.signal(signal.SIGUSR1, lambda *_: system.shutdown())
        def again():
            while farref.System.running() or threading.main_thread().is_alive():
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.005)
        threading.Thread(target=again, daemon=True).start()
        system.shutdown()
        system.shutdown()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    """,
    "a finalizer": """
        class Last:
            def __del__(self):
                system.shutdown()
        last = Last()
        del last
    """,
}


@pytest.mark.parametrize("way", WAYS_TO_END)
def test_it_may_be_shut_down_by(way: str, mark: str, tmp_path: Path) -> None:
    program = f"""
        import os, signal, threading, time, farref
        system = farref.System()
        system.worker("B")
        {textwrap.indent(textwrap.dedent(WAYS_TO_END[way]), " " * 8).strip()}
        print("done")
    """
    assert run(tmp_path, program) == "done\n"
    assert all_gone(mark)


@pytest.mark.parametrize("base", PROCESSES)
def test_a_thread_that_waits_for_a_reply_is_told_why(
    base: str, mark: str, gate: Path, tmp_path: Path
) -> None:
    """It receives for the endpoint, and hears of the end in the middle of that."""
    with System(base) as system, ThreadPoolExecutor(1) as thread:
        system.worker("B")
        waits = thread.submit(farref.rpc_sync, "B", _begin, (0, tmp_path, gate))
        assert until(system, (tmp_path / "0").exists)
        system.shutdown(timeout=0)
        assert "was shut down" in str(waits.exception(PATIENCE))


@pytest.mark.parametrize("base", PROCESSES)
def test_a_function_whose_wait_ends_has_its_finally(base: str, mark: str, tmp_path: Path) -> None:
    """The process does not end before the `finally`, although an exit takes no longer."""
    began, ended = tmp_path / "began", tmp_path / "ended"
    with System(base) as system:
        system.worker("B", threads=1), system.worker("C")
        never = farref.remote("C", time.sleep, (60,))
        farref.rpc_async("B", _wait_and_say, (never, began, ended))
        assert farref.rpc_sync("B", began.exists)  # the other one waits, and has lent its thread
        system.shutdown(timeout=0)
    assert ended.exists()
    assert all_gone(mark)


def _wait_and_say(never: RRef[Any], began: Path, ended: Path) -> None:
    began.touch()
    try:
        never.to_here()
    finally:
        time.sleep(0.3)
        ended.touch()


@pytest.mark.parametrize("base", PROCESSES)
def test_with_many_workers_nothing_has_to_be_killed(base: str, mark: str) -> None:
    with System(base) as system:
        for number in range(20):
            system.worker(f"B{number}")
        assert system.shutdown() == []


@pytest.mark.parametrize("base", PROCESSES)
def test_with_a_stuck_worker(base: str, mark: str, tmp_path: Path) -> None:
    with System(base) as system:
        system.worker("B")
        farref.rpc_async("B", _spin, (tmp_path / "began",))
        assert until(system, (tmp_path / "began").exists)
        system.shutdown(timeout=0)
    assert all_gone(mark)


def _spin(began: Path) -> None:
    began.touch()
    while True:
        pass


@pytest.mark.parametrize("base", PROCESSES)
def test_with_a_stopped_worker_that_is_killed_and_named(base: str, mark: str) -> None:
    with System(base) as system:
        system.worker("B")
        pid = farref.rpc_sync("B", os.getpid)
        stop(pid)
        said = system.shutdown(graceful=False)
    assert all_gone(mark)
    assert any(str(pid) in line for line in said)


BODY = """
    import sys, time
    import farref

    with farref.System(sys.argv[1], name=sys.argv[2] if sys.argv[2:] else None) as system:
        for name in "BC":
            system.worker(name)
        ref = farref.remote("B", list, ((1,),))
        future = farref.rpc_async("C", time.sleep, (60,))
        print("ready", flush=True)
        # In one long sleep Python 3.14 would not see a signal that came a moment before.
        [time.sleep(0.1) for _ in range(600)]
"""


@pytest.mark.parametrize("base", PROCESSES)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_after_a_signal(base: str, name: str, mark: str, tmp_path: Path) -> None:
    with running(tmp_path, BODY, base) as process:
        process.send_signal(getattr(signal, name))
        process.wait(60)
        assert process.returncode != 0
        assert all_gone(mark)


@pytest.mark.parametrize("base", PROCESSES)
def test_after_the_program_just_ends(base: str, mark: str, tmp_path: Path) -> None:
    """No `with`, no shutdown: the interpreter's exit does it."""
    text = """
        import sys
        import farref
        system = farref.System(sys.argv[1])
        system.worker("B")
        print(farref.rpc_sync("B", pow, (2, 3)))
    """
    assert run(tmp_path, text, base) == "8\n"
    assert all_gone(mark)


@pytest.mark.parametrize("base", PROCESSES)
def test_a_forked_child_is_inert(base: str, mark: str, tmp_path: Path) -> None:
    """Handles that a fork inherits drop nothing there, and its exit ends nothing."""
    text = """
        import gc, os, sys, time, warnings
        import farref
        warnings.simplefilter("ignore")
        with farref.System(sys.argv[1]) as system:
            system.worker("B")
            ref = farref.remote("B", list, ((1,),))
            mine = farref.RRef([2])
            assert ref.to_here() == [1]
            pid = os.fork()
            if not pid:
                try:
                    farref.RRef(1)
                except farref.SystemDownError:
                    pass
                else:
                    os._exit(3)
                del ref, mine
                gc.collect()
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            for _ in range(50):  # what the child had sent would take effect
                assert farref.rpc_sync("B", abs, (-1,)) == 1
            assert ref.to_here() == [1]
            assert mine.local_value() == [2]
            assert len(farref.references()) == 2
            print("fine")
    """
    assert run(tmp_path, text, base) == "fine\n"
    assert all_gone(mark)


def test_a_killed_programs_name_is_free_again(mark: str, tmp_path: Path) -> None:
    name = f"again-{mark[:8]}"
    with running(tmp_path, BODY, "farrefBase", name) as process:
        with pytest.raises(SystemDownError, match="runs already"):
            System("farrefBase", name=name)
        process.kill()
        process.wait(60)
    assert all_gone(mark)
    with System("farrefBase", name=name) as system:
        system.worker("B")


def test_a_registrar_that_ends_late_leaves_the_name_to_the_new_system(
    mark: str, own_folder: Path, tmp_path: Path
) -> None:
    name = f"again-{mark[:8]}"
    with running(tmp_path, BODY, "multiprocTCPBase", name) as process:
        b = next(each for each in family(mark) if each.name() == "farref: B")
        registrar = b.parent()  # on this base
        assert registrar is not None
        stop(registrar.pid)
        process.kill()
        process.wait(60)
    with System("multiprocTCPBase", name=name) as system:
        system.worker("B")
        registrar.resume()
        eventually(lambda: registrar not in family(mark))
        assert [each.stem for each in own_folder.glob("*.json")] == [name]


def test_a_system_that_does_not_start_leaves_nothing(mark: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemDownError, match=r"did not start: cannot listen"):
            System("farrefBase", host="127.0.0.1", port=port)


@pytest.fixture
def no_haste() -> Iterator[None]:
    """No thread presses another one to give way.

    A child that C code has forked while a thread pressed waits for that thread for ever, inside
    Python: it has no chance to call any function of ours.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("no_haste")
@pytest.mark.parametrize("fork", [os.fork, ctypes.PyDLL(None).fork], ids=["Python", "C"])
def test_a_reference_in_a_forked_child_is_refused_at_once(fork: Callable[[], int]) -> None:
    """C code, a web server's for example, may fork without telling Python.

    Another thread may have a lock of the endpoint at the time. In the child nobody gives it back.
    """
    finalizing = Finalizing("/calls.py", "/core.py", "/delivery.py", "/leadership.py")
    with System() as system:
        system.worker("B")
        ref = farref.remote("B", list, ((1,),))
        assert ref.to_here() == [1]
        uses: tuple[Callable[[], object], ...] = (
            lambda: ref.to_here(timeout=30),
            lambda: farref.rpc_sync("B", pow, (2, 2)),
            lambda: farref.remote("B", pow, (2, 2)),
        )
        met = True
        for place in itertools.count(0, 9):
            there, forked, mets = threading.Event(), threading.Event(), list[bool]()

            def stay() -> None:
                there.set()  # noqa: B023 - in this round only
                forked.wait(PATIENCE)  # noqa: B023

            def call() -> None:
                mets.append(finalizing.at_place(ref.to_here, place, stay))  # noqa: B023
                there.set()  # noqa: B023

            thread = threading.Thread(target=call)
            thread.start()
            assert there.wait(PATIENCE)
            child = fork()
            if child == 0:
                os._exit(sum(map(is_refused, uses)))
            forked.set()
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(uses), place
            thread.join()
            (met,) = mets
            if not met:
                break
        assert place > 50


def is_refused(use: Callable[[], object]) -> bool:
    try:
        use()
    except farref.SystemDownError:
        return True
    except BaseException:
        os._exit(10)
    return False


INTERRUPTED = """
    import os, signal, time, farref

    def stop(number, frame):
        raise SystemExit(143)

    def interrupt(pid):
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.5)

    signal.signal(signal.SIGTERM, stop)
    with farref.System() as system:
        system.worker("B")
        try:
            farref.rpc_sync("B", interrupt, (os.getpid(),))
        finally:
            system.shutdown()
"""


def test_the_end_waits_for_a_call_whose_wait_was_interrupted(tmp_path: Path, mark: str) -> None:
    with started(tmp_path, INTERRUPTED) as program:
        out, err = program.communicate(timeout=100)
    assert (out, err, program.returncode) == ("", "", 143)  # it was not given up


STOPPED = """
    import asyncio, atexit, signal, sys, time, farref
    from pathlib import Path

    def stop(number, frame):
        raise SystemExit(128 + number)

    def begin(system):
        system.worker("B"), system.worker("C")
        farref.rpc_sync("C", atexit.register, (Path(sys.argv[1]).write_text, "ended"))
        return farref.rpc_async("B", time.sleep, (600,))

    def plain():
        with farref.System() as system:
            outstanding = begin(system)
            try:
                print("ready", flush=True)
                while True:
                    time.sleep(0.1)  # a signal that comes just before a wait does not end it
            finally:
                system.shutdown(timeout=0.5)
                print("done")

    async def in_a_loop():
        async with farref.System() as system:
            outstanding = await asyncio.to_thread(begin, system)
            try:
                print("ready", flush=True)
                await asyncio.sleep(600)
            finally:
                await asyncio.to_thread(system.shutdown, timeout=0.5)
                print("done")

    signal.signal(signal.SIGTERM, stop)  # docs/howto/containers.md
    plain() if sys.argv[2] == "plain" else asyncio.run(in_a_loop())
"""


@pytest.mark.parametrize("how", ["plain", "in a loop"])
def test_a_supervisor_ends_a_service_in_time(how: str, tmp_path: Path, mark: str) -> None:
    """By SIGTERM: a call that lasts is given up, the other worker runs its hook."""
    hook = tmp_path / "hook"
    with running(tmp_path, STOPPED, str(hook), how) as program:
        program.terminate()
        out, err = program.communicate(timeout=100)
    assert (out, program.returncode) == ("done\n", 143), err
    assert "ends without the reply of B to sleep()" in err
    assert hook.read_text() == "ended"


FIRST = """
    import os, signal, time, farref
    from pathlib import Path

    def others():
        return [entry.name for entry in Path("/proc").iterdir()
                if entry.name.isdecimal() and entry.name != "1"]

    assert os.getpid() == 1
    for _ in range(2):
        with farref.System() as system:
            system.worker("B")
            system.worker("C")
            os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
            assert farref.rpc_sync("C", pow, (2, 3)) == 8
        assert not others(), others()

    def stop(number, frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)  # docs/howto/containers.md
    with farref.System() as system:
        system.worker("B")
        try:
            farref.rpc_sync("B", os.kill, (1, signal.SIGTERM))
            time.sleep(60)
        finally:
            system.shutdown(timeout=5)
            print(others() or "nothing left")
"""
APART = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]


@pytest.mark.skipif(
    subprocess.run([*APART, "true"], capture_output=True, check=False).returncode != 0
    if shutil.which(APART[0])
    else True,
    reason="only root can make a namespace of processes, by `unshare` (Debian: util-linux)",
)
def test_the_first_process_of_a_container_reaps_them_all(tmp_path: Path) -> None:
    with started(tmp_path, FIRST, on=APART) as program:
        out, err = program.communicate(timeout=100)
    assert (out, program.returncode) == ("nothing left\n", 143), err

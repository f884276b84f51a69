"""A child that a function forks on a worker is like one that a plain Python program forks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import Actor

import farref

from ...bases import PROCESSES
from ..scripts import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import System

pytestmark = pytest.mark.processes
FORK = multiprocessing.get_context("fork")
LIFE = 60
"""Seconds that a child sleeps for. The test fails if it is not ended before."""


@pytest.fixture(params=PROCESSES, scope="module")
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with farref.System(request.param, timeout=LIFE / 2) as system:
        system.worker("B")
        yield system


def terminated() -> int | None:
    child = FORK.Process(target=time.sleep, args=(LIFE,))
    child.start()
    child.terminate()  # at once, too: the signal may come before the child runs anything
    child.join()
    return child.exitcode


def signalled(number: int) -> int:
    child = os.fork()
    if not child:
        time.sleep(LIFE)
        os._exit(0)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def pool() -> list[int]:
    with FORK.Pool(2) as workers:
        return workers.map(abs, [-1, -2, -3])


def prepared() -> int:
    child = subprocess.Popen(["sleep", str(LIFE)], preexec_fn=os.getpid)  # noqa: PLW1509
    child.terminate()
    return child.wait()


@pytest.mark.parametrize(
    ("function", "of", "result"),
    [
        *[(terminated, (), -signal.SIGTERM)] * 5,
        *[
            (signalled, (number,), -number)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM)
        ],
        *[(pool, (), [1, 2, 3])] * 5,
        (prepared, (), -signal.SIGTERM),
    ],
)
def test_a_signal_ends_it(system: System, function: Any, of: tuple[int, ...], result: Any) -> None:
    assert farref.rpc_sync("B", function, of) == result
    assert farref.rpc_sync("B", abs, (-1,)) == 1, "the worker itself goes on"


def in_a_child(look: Any) -> Any:
    """The result of *look* in a child."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=lambda: theirs.send(look()))
    child.start()
    found = ours.recv()
    child.join()
    return found


def unlike_pythons() -> list[str]:
    """The signals that do not do as at Python's start, and those that are blocked."""
    pythons = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGPIPE: signal.SIG_IGN,
        signal.SIGXFSZ: signal.SIG_IGN,
    }
    numbers = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}
    return [
        *(str(each) for each in numbers if signal.getsignal(each) != pythons.get(each, 0)),
        *map(str, signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    ]


def test_its_signals_are_pythons_own(system: System) -> None:
    assert farref.rpc_sync("B", in_a_child, (unlike_pythons,)) == []


def mine(*_: object) -> None: ...


def with_a_handler() -> Any:
    return in_a_child(lambda: getattr(signal.getsignal(signal.SIGUSR2), "__name__", ""))


class Handles(Actor):
    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message == "look":
            signal.signal(signal.SIGUSR2, mine)
            self.send(sender, with_a_handler())


def test_it_has_the_users_own_handlers(system: System) -> None:
    actor = system.create(Handles)  # a plain actor: its handlers run in the main thread
    assert system.ask(actor, "look") == "mine"


SOCKETS = """
    import os, warnings
    import farref

    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, from 3.12 on

    def sockets():
        found = set()
        for each in os.listdir("/proc/self/fd"):
            try:
                found.add(os.readlink(f"/proc/self/fd/{each}"))
            except FileNotFoundError:
                continue
        return {each for each in found if each.startswith("socket:") or "eventpoll" in each}

    def sockets_of_a_child():
        end, start = os.pipe()
        if not os.fork():
            os.write(start, repr(sockets()).encode())
            os._exit(0)
        os.wait()
        return eval(os.read(end, 1 << 16))

    if __name__ == "__main__":
        with farref.System() as system:
            system.worker("B")
            for to in (None, "B"):
                for function in (sockets, sockets_of_a_child, sockets):
                    print(len(function() if to is None else farref.rpc_sync(to, function)) > 0)
            print(farref.rpc_sync("B", abs, (-1,)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_it_keeps_no_socket_of_ours(tmp_path: Path) -> None:
    """A connection that it kept would outlive its parent, which still has them all."""
    assert run(tmp_path, SOCKETS) == 2 * "True\nFalse\nTrue\n" + "1\n"


STARTER = """
    import multiprocessing, os, signal, subprocess, sys
    import farref

    def exit_code():
        return subprocess.run([sys.executable, "-c", "raise SystemExit(3)"]).returncode

    if __name__ == "__main__":
        numbers = [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE]
        how = sys.argv[2]
        for number in numbers:
            if how == "ignored":
                signal.signal(number, signal.SIG_IGN)
        if how == "blocked":
            signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        if how == "reaped":
            signal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, os.WNOHANG))
        with farref.System(sys.argv[1]) as system:
            system.worker("B")
            print(farref.rpc_sync("B", exit_code))
            try:
                farref.rpc_sync("B", signal.raise_signal, (signal.SIGTERM,))
                farref.rpc_sync("B", signal.pause)
            except farref.WorkerDiedError:
                print("it died")
        print(multiprocessing.active_children() if sys.argv[1] == "farrefBase" else [])
"""


@pytest.mark.parametrize("base", PROCESSES)
@pytest.mark.parametrize("how", ["ignored", "blocked", "reaped"])
def test_the_starters_signals_prevent_nothing(base: str, how: str, tmp_path: Path) -> None:
    """As ``nohup`` and supervisors leave them; a handler of the program's may reap children."""
    assert run(tmp_path, STARTER, base, how) == "3\nit died\n[]\n"

"""No thread can be started for a while: work waits for one, nothing is lost, all else goes on.

A limit of the user or the container (``ulimit -u``, ``pids.max``) does that. None binds root here,
so `threading.Thread.start` raises as it does then.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import SystemDownError

from ...bases import PROCESSES
from ...waiting import PATIENCE, eventually
from ..scripts import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from farref import System

pytestmark = pytest.mark.processes
START = threading.Thread.start


def late(gate: Path, tries: Path) -> Callable[[threading.Thread], None]:
    """`Thread.start` that fails until *gate* is there; *tries* shows that a thread was wanted."""

    def start(thread: threading.Thread) -> None:
        if not gate.exists():
            tries.touch()
            raise RuntimeError("can't start new thread")
        START(thread)

    return start


def limit(gate: Path, tries: Path) -> None:
    """Start no thread in this process before *gate* is there."""
    threading.Thread.start = late(gate, tries)  # type: ignore[method-assign, assignment]


def nested(depth: int) -> int:
    """Each function waits, and lends its place."""
    return 1 + farref.rpc_sync("B", nested, (depth - 1,)) if depth else 0


async def asynchronous() -> int:
    return 7


def slowly(number: int, seen: Path) -> int:
    """Not before *seen* is there: so it needs a thread of its own."""
    eventually(seen.exists)
    return number


@pytest.fixture(params=PROCESSES)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with farref.System(request.param, timeout=PATIENCE) as system:
        system.worker("B", threads=8)
        yield system


@pytest.fixture
def tries(tmp_path: Path) -> Path:
    return tmp_path / "tries"


def several(_system: System, seen: Path) -> list[farref.Future[int]]:
    return [farref.rpc_async("B", slowly, (n, seen)) for n in range(6)]


WAYS: dict[str, tuple[Callable[[System, Path], list[Any]], list[Any]]] = {
    "several at once": (several, [*range(6)]),
    "nested": (lambda _s, _p: [farref.rpc_async("B", nested, (5,))], [5]),
    "async": (lambda _s, _p: [farref.rpc_async("B", asynchronous) for _ in range(3)], [7] * 3),
    "a creation": (
        lambda _s, _p: [farref.remote("B", list, ("ab",)).rpc_async().copy()],
        [["a", "b"]],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_requests_wait_for_a_thread(system: System, gate: Path, tries: Path, way: str) -> None:
    start, results = WAYS[way]
    farref.rpc_sync("B", limit, (gate, tries))
    futures = start(system, tries)
    if way != "a creation":
        eventually(tries.exists)
    gate.touch()
    assert [each.result() for each in futures] == results
    assert farref.rpc_sync("B", abs, (-1,)) == 1


def test_what_needs_no_further_thread_goes_on(system: System, gate: Path, tries: Path) -> None:
    mine = farref.remote("B", list, ("abc",))
    assert mine.to_here() == ["a", "b", "c"]
    farref.rpc_sync("B", limit, (gate, tries))
    waiting = several(system, gate)
    eventually(tries.exists)
    beside = farref.RRef([1])
    assert beside.to_here() == [1]
    assert system.workers()
    gate.touch()
    assert [each.result() for each in waiting] == [*range(6)]
    assert mine.to_here() == ["a", "b", "c"]


def call_back(number: int) -> int:
    answer: int = farref.rpc_sync("program", slowly_here, (number,))
    return answer


def slowly_here(number: int) -> int:
    return -number


def test_a_program_serves_when_it_gets_a_thread(
    system: System, gate: Path, tries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", late(gate, tries))
    futures = [farref.rpc_async("B", call_back, (n,)) for n in range(4)]
    eventually(tries.exists)
    gate.touch()
    assert [each.result() for each in futures] == [0, -1, -2, -3]
    assert system.workers()


BEGINS = """
    import os, sys, threading
    from collections import Counter
    import farref

    program, start, refused = os.getpid(), threading.Thread.start, Counter()

    def late(thread):
        here = os.getpid()
        if here != program and refused[here] < 10:
            refused[here] += 1
            raise RuntimeError("can't start new thread")
        start(thread)

    class Echo(farref.RefActor):
        def receiveMsg_str(self, message, sender):
            self.send(sender, message)

    if __name__ == "__main__":
        threading.Thread.start = late
        with farref.System(sys.argv[1]) as system:
            system.worker("B")
            print(farref.rpc_sync("B", pow, (2, 3)))
            print(system.ask(system.create(Echo), "echo"))
"""


@pytest.mark.parametrize("base", PROCESSES)
def test_workers_and_actors_begin_without_threads(base: str, tmp_path: Path) -> None:
    with started(tmp_path, BEGINS, base) as program:
        out, said = program.communicate(timeout=60)
    assert (program.returncode, out) == (0, "8\necho\n"), said
    assert "its work waits until one can be started" in said
    assert "`pids.max`" in said


@pytest.mark.parametrize("base", PROCESSES)
def test_a_system_that_gets_no_thread_says_so(
    base: str, monkeypatch: pytest.MonkeyPatch, gate: Path, tries: Path
) -> None:
    monkeypatch.setattr(threading.Thread, "start", late(gate, tries))
    with pytest.raises(SystemDownError, match=r"did not start: can't start new thread"):
        farref.System(base)
    monkeypatch.undo()
    with farref.System(base) as system:
        assert system.worker("B").name == "B"

"""`get` and `wait`, as in Ray, over several references."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, RRef, System

from ...waiting import eventually
from ..helpers import hold, until

if TYPE_CHECKING:
    from pathlib import Path


_met: defaultdict[str, list[int]] = defaultdict(list)


def meet(where: str, number: int, count: int) -> int:
    """*number*, as soon as *count* of these calls run at once."""
    _met[where].append(number)
    eventually(lambda: len(_met[where]) == count)
    return number


def test_get_takes_one_or_many_references_and_nothing_else(system: System) -> None:
    refs = [farref.remote(name, pow, (2, n)) for n, name in enumerate(["B", "C", "B"])]
    assert farref.get(refs[2]) == 4
    for many in (refs, tuple(refs), (ref for ref in refs)):
        assert farref.get(many) == [1, 2, 4]
    assert farref.get([]) == []
    with pytest.raises(TypeError, match="must hold only RRefs"):
        farref.get([refs[0], 3])  # type: ignore[arg-type]  # wrong on purpose
    assert farref.wait((ref for ref in refs), 3) == (refs, [])


def test_get_fetches_in_parallel(system: System) -> None:
    refs = [farref.remote("B", meet, (system.name, n, 8)) for n in range(8)]
    assert farref.get(refs) == list(range(8))


def test_get_raises_the_first_error_and_ends_in_time(system: System, gate: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        farref.get([farref.remote("B", pow, (2, 2)), farref.remote("B", divmod, (1, 0))])
    with pytest.raises(FetchTimeoutError):
        farref.get([farref.remote("B", hold, (gate, 1))], timeout=0.05)


FAIL: dict[str, Any] = {
    "a call": lambda: farref.remote("C", divmod, (1, 0)),
    "an alias": lambda: farref.remote("C", farref.remote, ("C", divmod, (1, 0))),
    "its owner's": lambda: RRef(None).remote().nothing(),
}


@pytest.mark.parametrize("fail", FAIL)
def test_get_raises_an_error_behind_a_call_that_hangs(
    system: System, gate: Path, fail: str
) -> None:
    hangs = farref.remote("B", hold, (gate, 1))
    with pytest.raises((ZeroDivisionError, AttributeError)):
        farref.get([hangs, FAIL[fail]()], timeout=60)
    assert farref.wait([hangs], timeout=0) == ([], [hangs])
    gate.touch()
    assert farref.get([hangs, hangs]) == [1, 1]


def test_wait_returns_the_ready_ones_in_order(system: System, gate: Path) -> None:
    slow = farref.remote("B", hold, (gate, 1))
    quick = [farref.remote("C", pow, (2, n)) for n in range(2)]
    assert farref.wait([slow, *quick], num_returns=2) == (quick, [slow])
    assert farref.wait([slow], timeout=0) == ([], [slow])  # it polls
    fewer = [quick[0]], [slow]
    assert until(system, lambda: farref.wait([slow, quick[0]], 2, timeout=0.2) == fewer)
    gate.touch()
    assert farref.wait([slow, *quick], num_returns=3) == ([slow, *quick], [])
    assert farref.wait([slow], timeout=0) == ([slow], [])


@pytest.mark.parametrize(("function", "args"), [(divmod, (1, 0)), (threading.Lock, ())])
def test_wait_fetches_no_value(system: System, function: Any, args: Any) -> None:
    """An error is ready, too, and so is what cannot be pickled."""
    ref = farref.remote("B", function, args)
    assert farref.wait([ref]) == ([ref], [])


@pytest.mark.parametrize("count", [0, -1, 2])
def test_wait_checks_its_count(system: System, count: int) -> None:
    ref = farref.remote("B", pow, (1, 1))
    with pytest.raises(ValueError, match="num_returns must be between 1 and 1"):
        farref.wait([ref], num_returns=count)


def test_polling_leaves_one_question_at_the_owner(system: System, gate: Path) -> None:
    slow = farref.remote("B", hold, (gate, 1))
    for _ in range(10):
        farref.wait([slow], timeout=0)
    assert until(system, lambda: _pending() == 1)
    gate.touch()
    assert until(system, lambda: _pending() == 0)
    assert slow.to_here() == 1


def _pending() -> int:
    return sum(row.tasks for row in farref.references())


def test_fetches_that_timed_out_leave_nothing_queued_at_the_owner(
    system: System, gate: Path
) -> None:
    slow = farref.remote("B", hold, (gate, 1))
    for _ in range(10):
        with pytest.raises(FetchTimeoutError):
            slow.to_here(timeout=0.01)
    assert until(system, lambda: _pending() == 0)
    gate.touch()
    assert slow.to_here() == 1


def test_the_future_of_a_call_is_refused_with_what_to_write(system: System) -> None:
    future: Any = farref.rpc_async("B", pow, (2, 3))
    for wrong in (future, [future]):
        for ask in (farref.get, farref.wait):
            with pytest.raises(TypeError, match=r"future\.wait\(\).* call by `remote` in place"):
                ask(wrong)
    assert future.wait() == 8


def test_wait_keeps_a_handle_that_is_given_twice(system: System) -> None:
    ref = farref.remote("B", pow, (2, 3))
    ready, rest = farref.wait([ref, ref], 1)
    assert [len(ready), len(rest)] == [1, 1]


@pytest.mark.processes
def test_what_a_get_learns_meanwhile_does_not_confuse_it(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer that it is an alias comes before the fetch is recorded."""
    fetch = RRef._fetch

    def slow(self: RRef[Any], *args: Any, **kwargs: Any) -> Any:
        future = fetch(self, *args, **kwargs)
        future.exception()
        return future

    alias = farref.remote("B", _made_at, ("C",))
    monkeypatch.setattr(RRef, "_fetch", slow)
    assert farref.get([alias, alias]) == [8, 8]


def _made_at(name: str) -> Any:
    return farref.remote(name, pow, (2, 3))


@pytest.mark.processes
def test_wait_says_ready_of_what_is_known_to_be_lost(process_system: System) -> None:
    for name in "BC":
        process_system.worker(name)
    lost, there = farref.remote("B", pow, (2, 3)), farref.remote("C", pow, (2, 3))
    lost.to_here()
    os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
    assert until(process_system, lambda: "B" not in {w.name for w in process_system.workers()})
    assert farref.wait([lost, there], 2) == ([lost, there], [])


class Slow:
    def wait(self, gate: Path) -> None:
        hold(gate)


def test_a_remote_proxys_timeout_is_that_of_its_result(system: System, gate: Path) -> None:
    ref = farref.remote("B", Slow)
    with pytest.raises(ValueError, match="timeout"):
        ref.remote(timeout=-1)
    made = ref.remote(timeout=0.1).wait(gate)
    with pytest.raises(FetchTimeoutError, match=r"within (0\.\d+|1) s"):  # 1 s if we ask late
        made.to_here()
    gate.touch()
    assert made.to_here(timeout=20) is None

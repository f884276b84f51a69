"""The work of each operation: the Python functions at each end, and the messages.

A process counts in the one thread that does all of the work when the processes have nothing else to
do. The bounds are the counts of Python 3.11 and a few more; other versions make fewer calls. A
later change that makes an operation dearer is seen here, on any machine.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.actors.core import brief
from farref.actors.core.brief import BRIEF
from farref.testing import assert_nothing_held, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.processes
TIMES, FEW = 200, 10


class Functions:
    """Counts the Python functions that the thread that made it calls, until it is told to end."""

    def __init__(self) -> None:
        self.count = 0
        sys.setprofile(self._called)

    def _called(self, _frame: object, event: str, _argument: object) -> None:
        self.count += event == "call"

    def end(self) -> int:
        sys.setprofile(None)
        return self.count


_functions: list[Functions] = []
"""At the worker."""


def begin() -> None:
    _functions.append(Functions())


def end() -> int:
    return _functions.pop().end()


def nothing(*_: object) -> None:
    pass


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System("farrefBase", timeout=20) as system:
        system.worker("B")
        system.worker("C")
        yield system


def call() -> None:
    farref.rpc_sync("B", nothing)


def create() -> None:
    farref.remote("B", nothing).to_here()


THEIRS: list[RRef[Any]] = []
MINE: list[RRef[Any]] = []


def fetch() -> None:
    THEIRS[0].to_here()


def lend() -> None:
    farref.rpc_sync("B", nothing, (MINE[0],))


@pytest.fixture
def operands(system: System) -> Iterator[None]:
    THEIRS.append(farref.remote("B", bytes, (1_000,)))
    MINE.append(RRef([1]))
    THEIRS[0].to_here()
    yield
    THEIRS.clear()
    MINE.clear()
    assert_nothing_held(system)


def counted(operation: Callable[[], None]) -> float:
    """The functions for each *operation* in this thread, without what other work adds."""
    for _ in range(TIMES):
        operation()
    counts = []
    for _ in range(TIMES // FEW):
        functions = Functions()
        try:
            for _ in range(FEW):
                operation()
        finally:
            counts.append(functions.end() / FEW)
    return min(each for each in counts if each > max(counts) / 2)  # or another thread has received


@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize(
    ("operation", "most"), [(call, 61), (fetch, 72), (create, 204), (lend, 117)]
)
def test_functions_of_the_caller(operation: Callable[[], None], most: int) -> None:
    assert counted(operation) <= most


def test_functions_of_the_callee(system: System) -> None:
    counts = []
    for _ in range(TIMES // FEW):
        farref.rpc_sync("B", begin)
        for _ in range(FEW):
            call()
        counts.append(farref.rpc_sync("B", end) / FEW)
    assert 30 < min(each for each in counts if each > max(counts) / 2) <= 76


SOME, MANY = 10, 50
"""References in a call. There is one loop for all, so each one more adds as much as any other."""


def lend_many(number: int) -> None:
    assert farref.rpc_sync("B", len, (THEIRS[:number],)) == number


def slope(count: Callable[[int], int]) -> float:
    """What one more reference adds to *count*, of a number of references."""

    def least(number: int) -> int:
        counts = [count(number) for _ in range(TIMES // FEW)]
        return min(each for each in counts if each > max(counts) / 2)  # or another thread ran it

    for _ in range(TIMES):
        lend_many(SOME)
    return (least(MANY) - least(SOME)) / (MANY - SOME)


@pytest.fixture
def many(system: System) -> Iterator[None]:
    THEIRS.extend(farref.rpc_sync("C", own, (MANY,)))
    yield
    THEIRS.clear()
    assert_nothing_held(system)


def be_patient(seconds: float) -> None:
    """Take jobs of so many seconds for brief ones."""
    brief.BRIEF = seconds


def own(number: int) -> list[RRef[int]]:
    return [RRef(each) for each in range(number)]


@pytest.mark.usefixtures("many")
def test_functions_for_each_of_many_references(system: System) -> None:
    """The program lends references to C's objects to B. It called 15 functions for each, B 22."""

    def caller(number: int) -> int:
        functions = Functions()
        try:
            lend_many(number)
        finally:
            count = functions.end()
        return count

    def callee(number: int) -> int:
        farref.rpc_sync("B", begin)
        lend_many(number)
        count: int = farref.rpc_sync("B", end)
        return count

    farref.rpc_sync("B", be_patient, (10.0,))  # its mailbox thread runs them all
    assert slope(caller) <= 2.3
    found = slope(callee)
    farref.rpc_sync("B", be_patient, (BRIEF,))
    assert 5 < found <= 10.3


KEPT: list[list[RRef[Any]]] = []


def keep(refs: list[RRef[Any]]) -> None:
    KEPT.append(refs)


def let_go() -> None:
    KEPT.clear()


@pytest.mark.usefixtures("many")
def test_messages_of_many_references_that_are_not_kept(system: System) -> None:
    """B asked C to count those that it had let go of, if there were more than a step settles."""
    extra = farref.rpc_sync("C", own, (5_000,))
    until(system, lambda: False, 0.2)
    before = system.counters()["B"].control
    assert farref.rpc_sync("B", len, (extra,)) == 5_000
    assert system.counters()["B"].control == before


@pytest.mark.usefixtures("many")
def test_packets_of_many_references_that_are_kept(system: System) -> None:
    """Their requests, acknowledgements and deletes travel together: a handful of packets."""
    until(system, lambda: False, 0.2)
    before = system.counters()
    farref.rpc_sync("B", keep, (THEIRS,))
    farref.rpc_sync("B", let_go)
    asked = {"ForkRequest": MANY, "ChildAck": MANY, "Delete": MANY}

    def more() -> Counter[str]:
        return Counter(system.counters()["B"].control) - Counter(before["B"].control)

    assert until(system, lambda: more() == asked)
    after = system.counters()
    assert after["B"].messages_received - before["B"].messages_received >= MANY
    assert after["B"].packets_sent - before["B"].packets_sent < 20


def switches() -> int:
    """How often a thread of this process has waited so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def test_no_second_thread_is_woken(system: System) -> None:
    """An end waits once for each call. A second thread would wait once more, and be waited for."""
    for _ in range(TIMES):
        call()
    here, there = [], []
    for _ in range(TIMES // FEW):
        before = switches(), farref.rpc_sync("B", switches)
        for _ in range(TIMES):
            call()
        after = switches(), farref.rpc_sync("B", switches)
        here.append((after[0] - before[0]) / TIMES)
        there.append((after[1] - before[1]) / TIMES)
    assert min(here) < 1.8
    assert min(there) < 1.8


MESSAGES = {
    call: ({"Call": 1}, {"Reply": 1}),
    fetch: ({"Fetch": 1}, {"Reply": 1}),
    create: ({"Create": 1, "Fetch": 1, "Delete": 1}, {"Ack": 1, "Reply": 1}),
    lend: ({"Call": 1}, {"Reply": 1}),
}
"""The messages that each operation makes the program, and B, send."""


@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize("operation", MESSAGES)
def test_messages(system: System, operation: Callable[[], None]) -> None:
    until(system, lambda: False, 0.2)  # what was made before is deleted
    before = sent(system)
    for _ in range(TIMES):
        operation()
    each = [Counter({kind: n * TIMES for kind, n in one.items()}) for one in MESSAGES[operation]]
    expected = [one + more for one, more in zip(before, each, strict=True)]
    assert until(system, lambda: sent(system) == expected)


def sent(system: System) -> list[Counter[str]]:
    """The messages that the program, and B, have sent so far, by kind."""
    both = system.counters()
    return [Counter(both[name].user) + Counter(both[name].control) for name in ("program", "B")]

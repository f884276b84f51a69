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
    ("operation", "most"), [(call, 39), (fetch, 38), (create, 104), (lend, 50)]
)
def test_functions_of_the_caller(operation: Callable[[], None], most: int) -> None:
    assert counted(operation) <= most


@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize(("operation", "most"), [(call, 54), (lend, 75)])
def test_functions_of_the_callee(operation: Callable[[], None], most: int) -> None:
    for _ in range(TIMES):
        operation()
    counts = []
    for _ in range(TIMES // FEW):
        farref.rpc_sync("B", begin)
        for _ in range(FEW):
            operation()
        counts.append(farref.rpc_sync("B", end) / FEW)
    assert 30 < min(each for each in counts if each > max(counts) / 2) <= most


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

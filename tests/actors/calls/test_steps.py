"""The work of each operation: the Python functions at each end, and the messages.

A process counts in the one thread that does all of the work when the processes have nothing else to
do. The bounds are the counts of Python 3.11 and a few more; other versions make fewer calls. A
later change that makes an operation dearer is seen here, on any machine.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import farref
from farref import RRef, System
from farref.actors.wire import codec
from farref.testing import assert_nothing_held, until

from ...counting import one_thread_works
from ...marks import COUNTED
from ...stopping import stopped
from ..helpers import come_to_rest
from .test_functions import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

DUTIES_UNCHECKED = "it counts functions"

pytestmark = pytest.mark.processes
TIMES, FEW = 200, 10
MANY = 200
"""The most rounds of a count. Most counts need few."""
ANEW = MANY // (TIMES // FEW)
"""How often a count of fewer rounds may begin anew, to have as many."""
BLOCK = farref.Future._block.__code__
FLYING = 50
"""The calls that are in flight together."""


class Functions:
    """Counts the Python functions that the thread that made it calls, until it is told to end."""

    def __init__(self) -> None:
        self.count = 0
        self.blocked = 0
        """How often the thread had to wait for a future."""
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self.count += 1
            self.blocked += frame.f_code is BLOCK

    def end(self) -> int:
        sys.setprofile(None)
        return self.count - 1  # without this one


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
    with pytest.MonkeyPatch.context() as patched:
        one_thread_works(patched)
        with System("farrefBase", timeout=20) as system:
            for name in "BC":
                system.worker(name)
            yield system


def call() -> None:
    farref.rpc_sync("B", nothing)


BY_VALUE = main(
    """
    scale = 1
    cache = {}

    def helper(x):
        return scale * x

    def by_value(x):
        cache[x] = 1
        return helper(x)
    """
)
"""A function that is sent by value, once. It runs a helper, and its globals are compared."""


def call_by_value() -> None:
    farref.rpc_sync("B", BY_VALUE.by_value, (1,))


def create() -> None:
    farref.remote("B", nothing).to_here()


def fly() -> None:
    """Many calls in flight."""
    futures = [farref.rpc_async("B", nothing) for _ in range(FLYING)]
    for future in futures:
        future.result()


THEIRS: list[RRef[Any]] = []
MINE: list[RRef[Any]] = []


def array(size: int) -> Any:
    return np.ones(size, np.uint8)


def fetch_next(refs: Iterator[RRef[Any]]) -> None:
    next(refs).to_here()


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


@pytest.fixture(params=[1_000, 100_000, 300_000])
def size(request: pytest.FixtureRequest) -> int:
    """Bytes of an array: one crosses in the message, one in a slot, one in a segment of its own."""
    return int(request.param)


@pytest.fixture
def fetch_first(system: System, size: int) -> Iterator[Callable[[], None]]:
    """The first fetch of an array of *size* at B; each time of another one."""
    refs = [farref.remote("B", array, (size,)) for _ in range(2 * TIMES)]
    farref.wait(refs, len(refs))
    yield partial(fetch_next, iter(refs))
    refs.clear()  # pytest keeps the iterator
    assert_nothing_held(system)


def counts_of(
    operation: Callable[[], None], few: int, rounds: int, block: int = 0
) -> Iterator[float]:
    """The functions for each *operation* in this thread: in each round a mean of *few*.

    *block*: that many in each wait for a future do not count.
    """
    for _ in range(TIMES):
        operation()
    for _ in range(rounds):
        functions = Functions()
        try:
            for _ in range(few):
                operation()
        finally:
            count = functions.end()
        yield (count - block * functions.blocked) / few


def whole(counts: Iterable[float], least: float) -> Iterator[float]:
    """Those of *counts* above *least*. In other rounds another thread did a part of the work."""
    return (count for count in counts if count > least)


def low(counts: Iterable[float], most: float, enough: int) -> float:
    """The *enough*-th lowest of *counts*, or the first such that is at most *most*.

    Some work is due after a time, such as an acknowledgement. On a busy machine a round takes long,
    so most rounds contain such work. The bound is for the calls alone: a few rounds without other
    work show their cost. Infinite if in each round another thread did a part of the work.
    """
    found: list[float] = []
    for count in counts:
        found = sorted([*found, count])[:enough]
        if len(found) == enough and found[-1] <= most:
            break
    return found[-1] if found else math.inf


def counted(
    operation: Callable[[], None], least: float, most: float, rounds: int = TIMES // FEW
) -> float:
    """The functions for each *operation* in this thread, without what other work adds.

    A thread that sleeps before the answer comes takes one or two more: the bounds allow for them.
    On a busy machine each tenth operation does more, as something is overdue.
    """
    return low(whole(counts_of(operation, FEW // 2, 2 * rounds), least), most, 1)


class Most(NamedTuple):
    """What an operation costs at most, at the caller and at the callee."""

    functions: tuple[int, int]
    size: tuple[int, int]
    """The bytes that each writes on the wire: frames without the length and kind before each. A
    number takes one to nine of them."""
    messages: tuple[dict[str, int], dict[str, int]] = {"Call": 1}, {"Reply": 1}
    """What each sends: no more, and no less."""


COSTS = {
    call: Most((50, 53), (113, 46)),
    call_by_value: Most((68, 70), (76, 46)),
    fetch: Most((55, 46), (45, 1_062), ({"Fetch": 1}, {"Reply": 1})),
    create: Most(
        (151, 122), (178, 88), ({"Create": 1, "Fetch": 1, "Delete": 1}, {"Ack": 1, "Reply": 1})
    ),
    lend: Most((71, 80), (206, 46)),
}


@COUNTED
@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize("operation", COSTS)
def test_functions_of_the_caller(operation: Callable[[], None]) -> None:
    most = COSTS[operation].functions[0]
    assert counted(operation, 0.8 * most, most, MANY) <= most


@pytest.mark.usefixtures("system")
def test_functions_of_the_caller_of_many() -> None:
    """Of each of them.

    B begins when all calls are there. So this thread takes nearly all replies. If B answers
    meanwhile, another thread takes some, and this one runs one or two functions less. On a busy
    machine it waits more often, and each time takes 18 functions.
    """
    pid = farref.rpc_sync("B", os.getpid)

    def fly_together() -> None:
        counter = sys.getprofile()
        sys.setprofile(None)  # the functions that stop B do not count
        with stopped(pid):
            sys.setprofile(counter)
            futures = [farref.rpc_async("B", nothing) for _ in range(FLYING)]
            sys.setprofile(None)
        sys.setprofile(counter)
        for future in futures:
            future.result()

    counts = sorted(whole(counts_of(fly_together, 1, TIMES, block=18), 20 * FLYING))
    assert counts, "in each round another thread did a part of the work"
    assert counts[len(counts) // 10] / FLYING <= 50


def counts_there(operation: Callable[[], None], rounds: int) -> Iterator[float]:
    """The functions for each *operation* in the thread of B's that does the work."""
    for _ in range(TIMES):
        operation()
    for _ in range(rounds):
        farref.rpc_sync("B", begin)
        for _ in range(FEW):
            operation()
        yield farref.rpc_sync("B", end) / FEW


def counted_there(
    operation: Callable[[], None], least: float, most: float, rounds: int = TIMES // FEW
) -> float:
    """The same, without what other work adds: in some rounds that thread does less."""
    return low(whole(counts_there(operation, rounds), least), most, 3)


@COUNTED
@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize("operation", COSTS)
def test_functions_of_the_callee(operation: Callable[[], None]) -> None:
    most = COSTS[operation].functions[1]
    assert counted_there(operation, 0.7 * most, most, MANY) <= most


@pytest.mark.usefixtures("system")
def test_functions_of_the_callee_of_many() -> None:
    assert counted_there(fly, 20 * FLYING, 48 * FLYING) / FLYING <= 48


FIRST = {1_000: (66, 53), 100_000: (77, 62), 300_000: (94, 132)}
"""The most functions of a first fetch of an array with so many bytes, at the user and the owner.

It travels as other small values do. Shared memory takes 23 functions more. A frame that is read in
two parts takes 7 more; a large one may always be.
"""


@COUNTED
@pytest.mark.parametrize("there", [False, True], ids=["user", "owner"])
def test_functions_of_a_first_fetch(
    size: int, fetch_first: Callable[[], None], there: bool
) -> None:
    most = FIRST[size][there]
    count, least = (counted_there, 30) if there else (counted, 0.8 * most)
    assert count(fetch_first, least, most) <= most


@pytest.mark.parametrize(
    ("size", "most"), [(1_000, (72, 69)), (10_000, (72, 69)), (100_000, (95, 75))]
)
def test_functions_of_a_first_fetch_of_a_frozen_array(
    system: System, size: int, most: tuple[int, int]
) -> None:
    """It travels as a copy does, or its memory is named. The user keeps it.

    There is not enough memory for as many of them as the other counts have rounds, so they are made
    anew for some rounds at a time.
    """
    for count, bound in zip((counted, counted_there), most, strict=True):
        found: list[float] = []
        while len(found) < ANEW and not (found and min(found) <= bound):
            refs = [farref.remote("B", array, (size,), frozen=True) for _ in range(2 * TIMES)]
            farref.rpc_sync("B", nothing)
            found.append(count(partial(fetch_next, iter(refs)), 0.8 * bound, bound))
            refs.clear()
        assert min(found) <= bound
    assert_nothing_held(system)


class Thing:
    pass


def make(number: int) -> list[RRef[Thing]]:
    return [RRef(Thing()) for _ in range(number)]


def lend_all(refs: list[RRef[Thing]]) -> None:
    farref.rpc_sync("B", nothing, (refs,))


@pytest.mark.parametrize(("count", "most"), [(counted, 0.4), (counted_there, 1.4)])
def test_functions_for_each_of_many_references(
    system: System, count: Callable[..., float], most: float
) -> None:
    """None at the caller, and one at the callee: the end of the handle.

    A busy machine adds a few hundred for the whole call.
    """
    few, many = (partial(lend_all, farref.rpc_sync("C", make, (each,))) for each in (100, 1_000))
    first = count(few, 50, 0)
    assert (count(many, 50, first + most * 900) - first) / 900 <= most
    few.args[0].clear()
    many.args[0].clear()
    assert_nothing_held(system)


@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize("operation", COSTS)
def test_messages(system: System, operation: Callable[[], None]) -> None:
    check_messages(system, operation, COSTS[operation].messages)


_written: list[int] = []
_encode = codec.encode


def begin_written() -> None:
    """From now on this process notes the size of each packet with messages that it writes."""

    def noted(*of: Any) -> Any:
        made = _encode(*of)
        if of[2].messages:  # or it only acknowledges, as it was time to
            _written.append(len(made[0]))
        return made

    _written.clear()
    codec.encode = noted  # type: ignore[assignment]  # it takes the same


def end_written() -> int:
    """The bytes of all that was written since."""
    codec.encode = _encode
    return sum(_written)


@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize("operation", COSTS)
def test_bytes(operation: Callable[[], None]) -> None:
    """Beside the payloads, an incarnation of 9 bytes for each end is most of a frame."""
    operation()
    farref.rpc_sync("B", begin_written)
    begin_written()
    try:
        for _ in range(TIMES):
            operation()
    finally:
        written, read = end_written(), farref.rpc_sync("B", end_written)
    found, most = (written / TIMES, read / TIMES), COSTS[operation].size
    assert all(0.7 * bound < it <= bound for it, bound in zip(found, most, strict=True)), found


def spent(operation: Callable[[], None]) -> tuple[int, int]:
    """The calls that *operation* makes this program send, and the bytes of their payloads."""
    before = farref.counters()
    operation()
    now = farref.counters()
    return now.user["Call"] - before.user.get("Call", 0), now.payload_bytes - before.payload_bytes


@pytest.mark.usefixtures("system")
def test_a_function_is_sent_again_only_if_it_has_changed() -> None:
    it = main("cache, scale = {}, 1\ndef by_value(x):\n    return len(cache) and scale * x\n")
    by_value = partial(farref.rpc_sync, "B", it.by_value, (1,))
    first, theirs = spent(by_value), spent(partial(farref.rpc_sync, "B", int, (1,)))
    assert first[1] > 500, "the function counts"
    again = spent(by_value)
    assert again[0] == theirs[0] == 1, "one message"
    assert again[1] < theirs[1], "its place is shorter than a name"
    assert spent(by_value) == spent(by_value) == again
    it.cache["large"] = "x" * 100_000
    assert spent(by_value) == again, "a change inside a dict is not seen"
    it.scale = 2
    assert spent(by_value)[1] > 100_000
    assert spent(by_value) == again


@COUNTED
def test_messages_and_bytes_of_a_first_fetch(
    system: System, size: int, fetch_first: Callable[[], None]
) -> None:
    """One request and one reply, which has the array's pickle and no other bytes of the user's."""
    before = system.counters()["B"].payload_bytes
    check_messages(system, fetch_first, COSTS[fetch].messages)
    each = (system.counters()["B"].payload_bytes - before) / TIMES
    assert size < each < size + 200


def check_messages(
    system: System, operation: Callable[[], None], expect: tuple[dict[str, int], dict[str, int]]
) -> None:
    come_to_rest(system)  # what was made before is deleted
    before = sent(system)
    for _ in range(TIMES):
        operation()
    each = [Counter({kind: n * TIMES for kind, n in one.items()}) for one in expect]
    expected = [one + more for one, more in zip(before, each, strict=True)]
    assert until(system, lambda: sent(system) == expected)


def sent(system: System) -> list[Counter[str]]:
    """The messages that the program, and B, have sent so far, by kind."""
    both = system.counters()
    return [Counter(both[name].user) + Counter(both[name].control) for name in ("program", "B")]


def waits() -> dict[str, int]:
    """How often each thread of this process has waited so far."""
    return {
        status.parent.name: int(
            status.read_text().rpartition("\nvoluntary_ctxt_switches:")[2].split()[0]
        )
        for status in Path("/proc/self/task").glob("*/status")
    }


def beside(before: dict[str, int], after: dict[str, int]) -> float:
    """The waits for each call in all threads but that with the most."""
    each = sorted(count - before.get(thread, 0) for thread, count in after.items())
    return sum(each[:-1]) / TIMES


@pytest.mark.usefixtures("operands")
@pytest.mark.parametrize("operation", [call, fetch, lend])
def test_no_second_thread_is_woken(operation: Callable[[], None]) -> None:
    """At each end one thread does all. Another one that is woken waits again afterwards."""
    for _ in range(TIMES):
        operation()
    before = waits(), farref.rpc_sync("B", waits)
    for _ in range(TIMES):
        operation()
    after = waits(), farref.rpc_sync("B", waits)
    assert beside(before[0], after[0]) < 0.05
    assert beside(before[1], after[1]) < 0.05


def call_often(slowly: float) -> tuple[str, float]:
    """At a worker: call C. The name of this thread, and the waits of the others for each call."""
    time.sleep(slowly)
    for _ in range(TIMES):
        farref.rpc_sync("C", nothing)
    before = waits()
    for _ in range(TIMES):
        farref.rpc_sync("C", nothing)
    return threading.current_thread().name, beside(before, waits())


def test_no_second_thread_is_woken_by_a_function_that_calls(system: System) -> None:
    for _ in range(2):  # so long that B's receiving thread does not run the next one
        farref.rpc_sync("B", call_often, (1.1,))
    thread, woken = farref.rpc_sync("B", call_often, (0.0,))
    assert thread == "farref B"  # of the pool, as the function is not brief
    assert woken < 0.05

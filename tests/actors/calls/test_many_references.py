"""The work, the messages and the memory for each of many references, at the ends of a real call.

`tests/protocol/test_many_references.py` has the machines' part of it.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.actors.calls import unasked
from farref.actors.core import brief
from farref.actors.core.brief import BRIEF
from farref.testing import assert_nothing_held, until

from ...counting import functions
from ..helpers import come_to_rest

if TYPE_CHECKING:
    from collections.abc import Iterator

DUTIES_UNCHECKED = "it counts functions"

pytestmark = pytest.mark.processes
FEW, MANY = 100, 1_000
CALLER, CALLEE = 0.4, 1.4
"""The most Python functions of the caller, and of the callee, for each reference that is lent.

They are 0 and 1, the end of the handle. A busy machine adds a few hundred for the whole call.
"""
HELD = 600
"""The most bytes of a reference at its holder."""
TRACKED = 2
"""The objects of it that Python's collector tracks: the handle, and the handle's count."""


class Thing:
    pass


def make(number: int) -> list[RRef[Thing]]:
    return [RRef(Thing()) for _ in range(number)]


def nothing(*_: object) -> None:
    pass


def same(refs: list[RRef[Thing]]) -> list[RRef[Thing]]:
    return refs


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System("farrefBase", timeout=20) as system:
        system.worker("B"), system.worker("C")
        yield system


def functions_of(refs: list[RRef[Thing]]) -> int:
    """The functions that this thread calls while it passes *refs* to C and waits."""
    # Of a lower number than the highest, another thread has received the reply.
    call = partial(farref.rpc_sync, "C", nothing, (refs,))
    return max(functions(call) for _ in range(10))


def test_functions_of_the_caller(system: System) -> None:
    few, many = farref.rpc_sync("B", make, (FEW,)), farref.rpc_sync("B", make, (MANY,))
    for refs in (few, many):
        farref.rpc_sync("C", nothing, (refs,))
    first = functions_of(few)
    assert first > 50
    assert (functions_of(many) - first) / (MANY - FEW) <= CALLER
    del refs, few, many
    assert_nothing_held(system)


_counts: dict[int, int] = {}
"""The functions that a thread of the callee has called since `begin`, by the thread."""


def _called(_frame: object, event: str, _argument: object) -> None:
    _counts[threading.get_ident()] += event == "call"


def begin() -> None:
    brief.BRIEF = 10.0  # so that this thread runs the next call, too, however long it takes
    _counts[threading.get_ident()] = 0
    sys.setprofile(_called)


def end() -> int | None:
    """The count of this thread; None if another one has begun."""
    brief.BRIEF = BRIEF
    if threading.get_ident() not in _counts:
        return None
    sys.setprofile(None)
    return _counts.pop(threading.get_ident())


def test_functions_of_the_callee(system: System) -> None:
    def counted(number: int) -> int:
        refs, counts = farref.rpc_sync("B", make, (number,)), list[int]()
        for _ in range(100):  # on a busy machine another thread may run each of the first ones
            farref.rpc_sync("C", begin)
            farref.rpc_sync("C", nothing, (refs,))
            count = farref.rpc_sync("C", end)
            if count is not None and count > number:  # or another thread has run the call
                counts.append(count)
            if len(counts) == 5:
                break
        return min(counts)  # a higher one has other work in it

    more = (counted(MANY) - counted(FEW)) / (MANY - FEW)
    assert more <= CALLEE
    assert_nothing_held(system)


def test_what_is_not_kept_is_not_asked_for(system: System) -> None:
    """The callee asked the owner to count all that it had let go of, beyond the first thousand."""
    refs = farref.rpc_sync("B", make, (5_000,))
    come_to_rest(system)
    before = system.counters()["C"].control
    farref.rpc_sync("C", nothing, (refs,))
    come_to_rest(system)
    assert system.counters()["C"].control == before
    del refs
    assert_nothing_held(system)


KEPT: list[list[RRef[Thing]]] = []


def keep(refs: list[RRef[Thing]]) -> None:
    KEPT.append(refs)


def let_go() -> None:
    KEPT.clear()


def test_the_messages_of_what_is_kept_travel_together(system: System) -> None:
    """The requests, their acknowledgements and the deletes: a handful of messages in all."""
    refs = farref.rpc_sync("B", make, (MANY,))
    come_to_rest(system)
    before = system.counters()
    farref.rpc_sync("C", keep, (refs,))
    farref.rpc_sync("C", let_go)

    def more() -> Counter[str]:
        return Counter(system.counters()["C"].control) - Counter(before["C"].control)

    assert until(
        system, lambda: more() == dict.fromkeys(("ForkRequest", "ChildAck", "Delete"), MANY)
    )
    received = before["B"].messages_received + 2 * MANY
    assert until(system, lambda: system.counters()["B"].messages_received >= received)
    after = system.counters()
    for name in ("program", "B", "C"):
        assert after[name].packets_sent - before[name].packets_sent < 60
    del refs
    assert_nothing_held(system)


def sent(system: System) -> tuple[Any, Any]:
    counters = system.counters()
    return counters["program"], counters["C"]


@pytest.mark.parametrize("function", [nothing, same])
@pytest.mark.parametrize("mine", [True, False])
def test_one_call_and_one_reply(system: System, function: Any, mine: bool) -> None:
    """However many references there are. Those that the callee does not keep send no message.

    The reply that gave loans back once had their handles until it had left. So they looked kept,
    and each of them sent four messages.
    """
    refs = make(MANY) if mine else farref.rpc_sync("B", make, (MANY,))
    come_to_rest(system)
    before, there = sent(system)
    farref.rpc_sync("C", function, (refs,))
    come_to_rest(system)
    after, here = sent(system)
    assert dict(after.user) == {**before.user, "Call": before.user["Call"] + 1}
    assert here.user["Reply"] == there.user.get("Reply", 0) + 1
    assert after.control == before.control
    assert here.control == there.control
    del refs
    assert_nothing_held(system)


def test_the_memory_of_a_held_reference(system: System) -> None:
    held = [farref.rpc_sync("B", make, (MANY,))]
    come_to_rest(system)
    tracemalloc.start(1)
    try:
        gc.collect()
        size, tracked = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        held += [farref.rpc_sync("B", make, (MANY,)) for _ in range(20)]
        come_to_rest(system)
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] - size
        tracked = len(gc.get_objects()) - tracked
    finally:
        tracemalloc.stop()
    assert size / (20 * MANY) <= HELD
    assert round(tracked / (20 * MANY), 1) <= TRACKED
    held.clear()
    assert_nothing_held(system)


BEFORE: list[int] = []
"""The objects that the collector of this process looked at before the requests."""


def begin_to_count() -> None:
    gc.collect()
    gc.disable()
    BEFORE[:] = [len(gc.get_objects())]


def end_of_count() -> int:
    gc.enable()
    return len(gc.get_objects()) - BEFORE[0]


def test_the_collector_does_not_look_at_what_is_held(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request leaves nothing that the collector would look at, so it does not begin."""
    # The latest creations stay. Before the count begins, as many of them have stayed as ever will.
    monkeypatch.setattr(unasked, "MOST_PLACES", 100)
    held = farref.rpc_sync("B", make, (20 * MANY,))

    def act() -> None:
        farref.rpc_sync("B", nothing)
        farref.rpc_sync("B", nothing, args=(held[5],))
        farref.remote("B", int, args=(1,)).to_here()

    for _ in range(MANY):
        act()
    begin_to_count()
    farref.rpc_sync("B", begin_to_count)
    for _ in range(2 * MANY):
        act()
    for more in (farref.rpc_sync("B", end_of_count), end_of_count()):
        assert more < MANY / 2  # if one object of each round stayed, 2 * MANY
    held.clear()
    assert_nothing_held(system)

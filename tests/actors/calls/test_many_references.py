"""The messages and the memory for each of many references, at the ends of a real call.

`test_steps` counts the functions, and `tests/protocol/test_many_references.py` the machines' part.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.testing import assert_nothing_held, until

from ..helpers import come_to_rest
from .test_steps import Thing, make, nothing

if TYPE_CHECKING:
    from collections.abc import Iterator

DUTIES_UNCHECKED = "it counts functions"

pytestmark = pytest.mark.processes
MANY = 1_000
HELD = 600
"""The most bytes of a reference at its holder."""
TRACKED = 2
"""The objects of it that Python's collector tracks: the handle, and the handle's count."""


def same(refs: list[RRef[Thing]]) -> list[RRef[Thing]]:
    return refs


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System("farrefBase", timeout=20) as system:
        system.worker("B"), system.worker("C")
        yield system


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


@pytest.mark.parametrize(
    ("function", "mine", "number"),
    [(nothing, True, MANY), (nothing, False, 5 * MANY), (same, True, MANY), (same, False, MANY)],
)
def test_one_call_and_one_reply(system: System, function: Any, mine: bool, number: int) -> None:
    """However many references there are. Those that the callee does not keep send no message.

    It once asked the owner to count all that it had let go of, beyond the first thousand. And the
    reply that gave loans back once had their handles until it had left: so they looked kept.
    """
    refs = make(number) if mine else farref.rpc_sync("B", make, (number,))
    come_to_rest(system)
    before = system.counters()
    farref.rpc_sync("C", function, (refs,))
    come_to_rest(system)
    after = system.counters()
    for name, kind in (("program", "Call"), ("C", "Reply")):
        sent = Counter(after[name].user) - Counter(before[name].user)
        assert sent == {kind: 1}
        assert after[name].control == before[name].control
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

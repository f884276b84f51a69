"""Searches cost nothing where there is no ring.

The messages, the bytes and the Python functions of calls, shares and drops are the same with them.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from farref import Counters, RRef, System, remote, rpc_sync
from farref.actors.core import links
from farref.actors.cycles import collector, exact, kinds, reading, scan
from farref.protocol import cycles, search, survey
from farref.protocol.delivery import Packet
from farref.testing import until

from ...packets import written

if TYPE_CHECKING:
    from types import FrameType

    from farref.actors.wire.settings import CycleMode

DUTIES_UNCHECKED = "it counts functions"

pytestmark = pytest.mark.processes
ABOUT_SEARCHES = {"WhoHolds", "Holders", "Cut"}
TIMES = 100
FILES = {each.__file__ for each in (collector, exact, kinds, reading, scan, cycles, search, survey)}


SIZES: Counter[str] = Counter()
"""The bytes of the messages that this process has sent, by kind, as packets carry them."""


def nothing(*_: object) -> None:
    pass


def note_sizes(patch: pytest.MonkeyPatch) -> None:
    """Note the bytes of each message but those of searches, here and in processes forked here."""
    queue = links.Links.send

    def send(self: Any, to: Any, message: Any, *args: Any, **how: Any) -> Any:
        kind = type(message).__name__
        if kind not in ABOUT_SEARCHES:
            SIZES[kind] += len(written(Packet(1, (message,), 1))[0])
        return queue(self, to, message, *args, **how)

    patch.setattr(links.Links, "send", send)


def sizes() -> Counter[str]:
    return Counter(SIZES)


def work(system: System) -> None:
    """Calls, shares, drops, and objects that hold each other in a row."""
    first = RRef([1])
    for _ in range(TIMES):
        rpc_sync("B", nothing, args=(first,))
        made = remote("B", list, args=([first],))
        made.to_here()
        remote("C", list, args=([made],)).to_here()


def cost(mode: CycleMode) -> tuple[Counter[str], int, Counter[str]]:
    """The messages of `work` by kind, the bytes of payload, and those of the messages by kind."""
    SIZES.clear()
    with System(timeout=20, cycles=mode) as system:
        for name in "BC":
            system.worker(name)
        until(system, lambda: False, 0.5)
        encoded, total = all_sizes(), all_counters(system)
        work(system)
        until(system, lambda: False, 0.5)
        more = all_counters(system)  # first: the calls that ask for the sizes do not count
        size = more.payload_bytes - total.payload_bytes
        return kinds_of(more) - kinds_of(total), size, all_sizes() - encoded


def all_sizes() -> Counter[str]:
    return sum((rpc_sync(name, sizes) for name in "BC"), start=sizes())


def all_counters(system: System) -> Counters:
    return sum(system.counters().values(), start=Counters())


def kinds_of(counters: Counters) -> Counter[str]:
    return Counter(counters.user) + Counter(counters.control)


def test_messages_and_bytes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    note_sizes(monkeypatch)
    cost("off")  # the first call of a function in a process goes the general way
    without = cost("off")
    monkeypatch.setattr(collector, "IDLE", 0.05)
    monkeypatch.setattr(scan, "AGE", 0.05)
    kinds, size, encoded = cost("collect")
    for each in ABOUT_SEARCHES:
        kinds.pop(each, None)
    assert (kinds, size, encoded) == without
    assert encoded["Call"] > TIMES


def functions(mode: CycleMode) -> set[str]:
    """The functions of searches that calls, shares and drops call, in any thread of the program."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in FILES:
            called.add(frame.f_code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with System("farrefBase", timeout=20, cycles=mode) as system:
            for name in "BC":
                system.worker(name)
            called.clear()
            work(system)
            return called.copy()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_functions_are_equal() -> None:
    """A thread that is to sleep asks for the time of the next search: nothing else is added."""
    assert functions("collect") == functions("off") == {"Collector.deadline", "Collector.look"}

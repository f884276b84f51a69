"""Searches cost nothing where there is no ring: no message, no content of one, no function."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal

import pytest

from farref import Counters, RRef, System, remote, rpc_sync
from farref.trace.records import load

from ..helpers import come_to_rest

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    CycleMode = Literal["collect", "off"]

DUTIES_UNCHECKED = "it counts functions"

pytestmark = pytest.mark.processes
ABOUT_SEARCHES = {"WhoHolds", "Holders", "Cut"}
OF_A_STEP = {"at", "kind", "time", "peer", "number", "by", "relays"}
"""What a record says of the sending, not of the message."""
TIMES = 100


def is_of_searches(file: str) -> bool:
    """Whether *file* has code of searches for rings."""
    here, _, name = file.removesuffix(".py").rpartition("/")
    return here.endswith("/farref/actors/cycles") or (
        here.endswith("/farref/protocol") and name in ("cycles", "search", "holders")
    )


def nothing(*_: object) -> None:
    pass


def work() -> None:
    """Calls, shares, drops, and objects that hold each other in a row."""
    first = RRef([1])
    for _ in range(TIMES):
        rpc_sync("B", nothing, args=(first,))
        made = remote("B", list, args=([first],))
        made.to_here()
        remote("C", list, args=([made],)).to_here()


def cost(mode: CycleMode, folder: Path) -> tuple[Counter[str], int, Counter[tuple[str, ...]]]:
    """Of `work`: messages by kind, bytes of payload, and for each message what it contains."""
    with System(timeout=20, cycles=mode, trace=folder) as system:
        for name in "BC":
            system.worker(name)
        come_to_rest(system)
        before = sum(system.counters().values(), start=Counters())
        work()
        come_to_rest(system)
        after = sum(system.counters().values(), start=Counters())
    steps = (step for steps in load(folder).steps.values() for step in steps if step.kind == "send")
    contents = Counter((step.message, *sorted(step.fields.keys() - OF_A_STEP)) for step in steps)
    kinds = Counter(after.user) + Counter(after.control)
    kinds -= Counter(before.user) + Counter(before.control)
    return kinds, after.payload_bytes - before.payload_bytes, contents


@pytest.mark.usefixtures("hasty")
def test_messages_and_their_contents_are_equal(tmp_path: Path) -> None:
    cost("off", tmp_path / "first")  # the first call of a function in a process sends more
    without = cost("off", tmp_path / "off")
    kinds, size, contents = cost("collect", tmp_path / "collect")
    for each in ABOUT_SEARCHES:
        kinds.pop(each, None)
    contents = Counter({each: n for each, n in contents.items() if each[0] not in ABOUT_SEARCHES})
    assert (kinds, size, contents) == without
    assert kinds["Call"] >= TIMES


def functions(mode: CycleMode) -> set[str]:
    """The functions of searches that `work` calls, in any thread of the program."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and is_of_searches(frame.f_code.co_filename):
            called.add(frame.f_code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with System("farrefBase", timeout=20, cycles=mode) as system:
            for name in "BC":
                system.worker(name)
            called.clear()
            work()
            return called.copy()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_functions_are_equal() -> None:
    """A thread that is to sleep asks for the time of the next search: nothing else is added."""
    assert functions("collect") == functions("off") == {"Collector.deadline", "Collector.look"}

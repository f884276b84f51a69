"""A function that is pickled by value costs, after its first call, as much as an importable one."""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from farref import System, rpc_sync
from farref.actors.core import brief
from farref.actors.core.current import frame
from farref.actors.wire import codec

from ...counting import functions
from .test_functions import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DUTIES_UNCHECKED = "it counts functions"

CODE = """
scale = 1
cache = {}

def helper(x):
    return scale * x

def by_value(x):
    cache[x] = 1
    return helper(x)
"""
WARM = 30


def importable(x: int) -> int:
    return x


def calls_at_both_ends(function: Any) -> int:
    """The Python functions that one call makes: the usual number of some tries."""
    call = partial(rpc_sync, "B", function, (1,))
    return statistics.mode(functions(call) for _ in range(20))


def test_python_calls_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process and one thread, so the count is exact."""
    monkeypatch.setattr(
        brief, "BRIEF", 60.0
    )  # on a busy machine one may seem long, and go to the pool
    with System("simpleSystemBase") as system:
        system.worker("B")
        function = main(CODE).by_value
        for each in (function, importable):
            for _ in range(WARM):
                rpc_sync("B", each, (1,))
        # The function itself calls its helper.
        ours, theirs = calls_at_both_ends(function) - 1, calls_at_both_ends(importable)
        assert ours <= 1.15 * theirs, (ours, theirs)


@pytest.fixture(scope="module")
def processes() -> Iterator[System]:
    with System(timeout=20) as system:
        system.worker("B")
        yield system


def traffic(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> tuple[int, int]:
    """The packets with messages that *call* makes this program send, and their bytes."""
    sizes: list[int] = []

    encode = codec.encode

    def noted(*args: Any) -> Any:
        made = encode(*args)
        if args[2].messages:
            sizes.append(len(made[0]))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(codec, "encode", noted)
        call()
    return len(sizes), sum(sizes)


@pytest.mark.processes
def test_messages_and_bytes(processes: System, monkeypatch: pytest.MonkeyPatch) -> None:
    it = main(CODE)
    first = traffic(monkeypatch, lambda: rpc_sync("B", it.by_value, (1,)))
    theirs = traffic(monkeypatch, lambda: rpc_sync("B", importable, (1,)))
    for _ in range(3):
        again = traffic(monkeypatch, lambda: rpc_sync("B", it.by_value, (1,)))
        assert again[0] == theirs[0] == 1, "one message"
        assert again[1] < theirs[1] < first[1], "its place is shorter than a name"
    it.cache["large"] = "x" * 100_000
    same = traffic(monkeypatch, lambda: rpc_sync("B", it.by_value, (1,)))
    assert same[1] < theirs[1], "a change inside a dict is not seen"
    it.scale = 2
    anew = traffic(monkeypatch, lambda: rpc_sync("B", it.by_value, (1,)))
    assert anew[1] > 100_000
    last = traffic(monkeypatch, lambda: rpc_sync("B", it.by_value, (1,)))
    assert last[1] < theirs[1]


@pytest.mark.processes
def test_a_function_is_counted_as_sent(processes: System) -> None:
    tally: Any = frame().core.outlet
    before = tally.tally.payload_bytes
    rpc_sync("B", main(CODE).by_value, (1,))
    assert tally.tally.payload_bytes - before > 500

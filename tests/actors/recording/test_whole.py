"""A trace has each step: the machines agree with its rows."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import farref
from farref import System
from farref.actors.core import current
from farref.actors.core.intake import NOTED
from farref.trace.merge import merge
from farref.trace.records import load
from farref.trace.replay import Player
from farref.tracetest.show import table_lines

if TYPE_CHECKING:
    from pathlib import Path

    from farref import RRef

pytestmark = pytest.mark.processes

IN_FLIGHT = 60
"""So many calls in flight gather, and several leave in one row."""
LARGE = 1 << 15
"""The numbers of an array that goes into shared memory."""


def looked(*_: object) -> None:
    """Lets go of what it gets."""


_kept: list[object] = []


def keep(thing: object) -> None:
    _kept.append(thing)


def failing() -> None:
    raise LookupError


def work() -> list[RRef[Any]]:
    """Send plain messages of each kind, and others between them. Returns the held references."""
    mine: RRef[list[int]] = farref.RRef([1])
    large: RRef[Any] = farref.remote("B", np.arange, (LARGE,))
    for _ in range(2):  # a function goes the general way once
        assert farref.rpc_sync("B", abs, (-1,)) == 1
        assert farref.rpc_sync("B", lambda number: -number, (-1,)) == 1  # it travels by value
        for text in ("a text", "a text" * NOTED):
            flying = [farref.rpc_async("B", len, (text,)) for _ in range(IN_FLIGHT)]
            assert {each.result() for each in flying} == {len(text)}
        made: RRef[list[str]] = farref.remote("B", list, ("abc",))
        assert made.to_here() == made.to_here() == ["a", "b", "c"]
        assert len(large.to_here()) == LARGE
        for rref in (mine, made):
            farref.rpc_sync("B", looked, (rref,))
        with suppress(LookupError):
            farref.rpc_sync("B", failing)
        del made, rref
        farref.rpc_sync("B", looked)
    farref.rpc_sync("B", keep, (mine,))
    return [mine, large]


def tables() -> list[str]:
    """The tables of the endpoint of the calling code."""
    core = current.frame().core
    with core.lock:
        return table_lines(core.context)


def rows(folder: Path) -> list[list[Any]]:
    """Each row of each endpoint, without its time; an endpoint is its name.

    And without the number of its message: calls in flight are answered in any order.
    """

    def plain(part: Any) -> Any:
        if not isinstance(part, list):
            return part
        if len(part) == 2 and isinstance(part[0], str) and isinstance(part[1], int):
            return part[0]
        return [plain(each) for each in part]

    found = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            kind, _, *fields = json.loads(line)
            if kind in ("send", "receive"):
                del fields[2]
            found.append([kind, *map(plain, fields)])
    return found


def test_the_machines_agree_with_a_trace(tmp_path: Path) -> None:
    with System(trace=str(tmp_path)) as system:
        system.worker("B")
        held = work()
        found = repr(rows(tmp_path))
        there, here = farref.rpc_sync("B", tables), tables()
        player = Player()
        for record in merge(load(tmp_path)):
            player.take(record)
        assert player.broken == {}
        assert len(held) == 2
        for lane, mine in player.contexts.items():
            assert table_lines(mine) == (there if lane.startswith("B@") else here)
    for kind in ("Call", "Reply", "Create", "Ack", "Fetch", "Delete"):
        assert kind in found


def test_a_handle_that_ends_in_two_steps_has_one_row(tmp_path: Path) -> None:
    with System(trace=str(tmp_path)):
        handle = farref.RRef([1])
        core = current.frame().core
        handle.__del__()  # it tells of the end
        core.step(list)  # another thread makes a step before the callback of the weak reference
        assert not core.discards.holds
        with core.lock:
            del handle
            assert core.discards.ended, "the second time"
        core.step(list)
        drops = [row for row in rows(tmp_path) if row[0] == "drop"]
    assert drops == [["drop", "program", [["program", 1]]]]

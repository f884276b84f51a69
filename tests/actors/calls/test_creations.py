"""Objects made at a worker by `remote`: their values, and their ends."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import farref
from farref import System

from ...waiting import eventually
from ..helpers import hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes
TRIES = 50


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=20) as system:
        system.worker("B")
        yield system


class Thing:
    """Its end is noted."""

    ends = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        Thing.ends += 1


def ends() -> int:
    gc.collect()
    return Thing.ends


def test_each_way_to_make_one(system: System) -> None:
    held = farref.remote("B", int, (1,))
    assert held.to_here() == 1
    made = [
        farref.remote("B", int, ("11",), {"base": 2}),
        farref.remote("B", int, (held,), resolve=True),
        farref.remote("B", int, (3,), frozen=True),
        farref.remote("B", int, (3,), serial=False),
        farref.remote("B", len, ([1, 2, 3],)),
    ]
    assert [each.to_here() for each in made] == [3, 1, 3, 3, 3]


def test_values_end_with_their_handles(system: System) -> None:
    before = farref.rpc_sync("B", ends)
    for number in range(TRIES):
        assert farref.remote("B", Thing, (number,)).rpc_async().number.get().result() == number
    eventually(lambda: farref.rpc_sync("B", ends) == before + TRIES)


def test_fetches_wait_for_a_creation(system: System, gate: Path) -> None:
    ref = farref.remote("B", hold, (gate, 7))
    with ThreadPoolExecutor(3) as threads:
        fetches = [threads.submit(ref.to_here) for _ in range(3)]
        assert not any(each.done() for each in fetches)
        gate.touch()
        assert [each.result() for each in fetches] == [7] * 3


def test_very_many_at_once(system: System) -> None:
    refs = [farref.remote("B", int, (number,)) for number in range(3000)]
    assert farref.get(refs) == list(range(3000))
    del refs
    eventually(lambda: not farref.counters().references)

"""Objects made at a worker by `remote`: their values, and their ends."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import farref
from farref import System
from farref.actors.core.current import frame

from ...waiting import eventually
from .test_functions import main

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("by", ["name", "value"])
def test_each_message_has_a_part_of_its_own(system: System, sent: Counter[str], by: str) -> None:
    function = int if by == "name" else main("def f(x): return x").f
    assert farref.remote("B", function, (1,)).to_here() == 1  # a new one has the general part
    sent.clear()
    for number in range(TRIES):
        assert farref.remote("B", function, (number,)).to_here() == number
    assert sent["Create"] >= 0.9 * TRIES, sent
    assert sent["Fetch"] >= 0.9 * TRIES, sent
    assert sent["Delete"] >= 0.8 * TRIES, sent


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
        assert farref.remote("B", Thing, (number,)).rpc_sync().number.get() == number
    eventually(lambda: farref.rpc_sync("B", ends) == before + TRIES)


def test_a_fetch_waits_for_its_creation(system: System) -> None:
    assert farref.remote("B", nap, (0.1,)).to_here() == 0.1
    ref = farref.remote("B", nap, (0.3,))
    fetched: list[float] = []
    threads = [threading.Thread(target=lambda: fetched.append(ref.to_here())) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert fetched == [0.3] * 3


def test_an_error_takes_the_place_of_the_value(system: System) -> None:
    ref = farref.remote("B", int, ("no number",))
    for _ in range(2):
        with pytest.raises(ValueError, match="no number"):
            ref.to_here()


def test_very_many_at_once(system: System) -> None:
    refs = [farref.remote("B", int, (number,)) for number in range(3000)]
    assert farref.get(refs) == list(range(3000))
    del refs
    core = frame().core
    eventually(lambda: not core.context.users)

"""Values that travel in a call: lambdas, closures, definitions of ``__main__``, NumPy's arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import farref

from ...bases import BASES
from ..scripts import run

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System


from typing import TYPE_CHECKING

import numpy as np

from farref import RRef

if TYPE_CHECKING:
    from farref import System


def test_lambdas_and_closures(system: System) -> None:
    factor = 3
    inner = [1, 2]

    def closure(value: int) -> list[int]:
        return [factor * value * each for each in inner]

    assert farref.rpc_sync("B", lambda value: factor * value, (2,)) == 6
    assert farref.rpc_sync("B", closure, (2,)) == [6, 12]
    assert farref.remote("B", lambda: closure).to_here()(1) == [3, 6]


def test_classes_of_a_function(system: System) -> None:
    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

        def twice(self) -> int:
            return 2 * self.value

    ref = farref.remote("B", Local, (4,))
    assert ref.rpc_sync().twice() == 8
    copy: Any = ref.to_here()
    assert copy.twice() == 8


MAIN = """
    import asyncio, sys
    from dataclasses import dataclass
    import farref
    from farref import RefActor, RRef, System

    @dataclass
    class Point:
        x: int
        def shifted(self, by): return Point(self.x + by)

    class Unlucky(Exception):
        pass

    class Holder(RefActor):
        async def receiveMsg_Point(self, message, sender):
            self.send(sender, RRef(message.shifted(1)))

    def make(x): return Point(x)
    async def later(ref): return (await ref).shifted(10)
    def fail(): raise Unlucky("of main")

    with System(sys.argv[1]) as system:
        system.worker("B")

        class Late(Holder):
            "Defined after the system has started."

        ref = farref.remote("B", make, (1,))
        assert ref.to_here() == Point(1)
        assert ref.rpc_sync().shifted(2) == Point(3)
        assert farref.rpc_sync("B", later, (ref,)) == Point(11)
        for kind in (Holder, Late):
            assert system.ask(system.create(kind), Point(5)).to_here() == Point(6)
        try:
            farref.rpc_sync("B", fail)
        except Unlucky as error:
            assert str(error) == "of main"
            print("done")
"""


@pytest.mark.processes
@pytest.mark.parametrize("base", BASES)
def test_functions_and_classes_of_main(base: str, tmp_path: Path) -> None:
    assert run(tmp_path, MAIN, base) == "done\n"


def double(array: Any) -> Any:
    array *= 2  # the receiver's own copy, which is writable
    return array


@pytest.mark.parametrize("shape", [(0,), (3,), (1000, 1000), (2, 3, 4)])
def test_an_array_is_copied_there_and_back(system: System, shape: tuple[int, ...]) -> None:
    array = np.arange(float(np.prod(shape))).reshape(shape)
    before = array.copy()
    result = farref.rpc_sync("B", double, (array,))
    assert np.array_equal(result, 2 * before)
    assert np.array_equal(array, before)
    result += 1


def test_a_fetched_array_is_a_fresh_writable_copy(system: System) -> None:
    ref = farref.remote("B", np.arange, (100_000,))
    first, second = ref.to_here(), ref.to_here()
    first[:] = 0
    assert second[-1] == 99_999
    assert ref.to_here()[-1] == 99_999
    mine = RRef(np.zeros(10))
    copy = mine.to_here()
    copy[:] = 1
    assert not mine.local_value().any()


def test_what_is_not_contiguous_travels_in_band(system: System) -> None:
    array = np.arange(100).reshape(10, 10)
    for view in (array[::2], array[:, 1], array.T, np.asfortranarray(array)):
        assert np.array_equal(farref.rpc_sync("B", np.copy, (view,)), view)


def test_the_sender_may_write_at_once(system: System) -> None:
    array = np.zeros(100_000)
    future = farref.rpc_async("B", np.sum, (array,))
    array[:] = 1
    assert future.result() == 0


def test_arrays_and_references_in_one_message(system: System) -> None:
    array, ref = np.ones(1000), RRef(np.zeros(3))
    got, back = farref.rpc_sync("B", _swap, (array, ref))
    assert back == ref
    assert got.sum() == 1000


def _swap(array: Any, ref: Any) -> tuple[Any, Any]:
    return array, ref

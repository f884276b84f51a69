"""Values that travel in a call: definitions of ``__main__``, arrays, references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import farref
from farref import RRef

from ...bases import BASES
from ..scripts import run

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System


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


def test_arrays_and_references_in_one_message(system: System) -> None:
    array, ref = np.ones(1000), RRef(np.zeros(3))
    got, back = farref.rpc_sync("B", same, (array, ref))
    assert back == ref
    assert got.sum() == 1000


def same(*args: Any) -> tuple[Any, ...]:
    return args


def kinds(*args: Any) -> list[str]:
    return [type(each).__name__ for each in args]


def values(refs: list[RRef[Any]]) -> list[Any]:
    return [each.to_here() for each in refs]


def are_one(one: RRef[Any], other: RRef[Any]) -> bool:
    return one is other


def itself(ref: RRef[Any]) -> RRef[Any]:
    return ref


def test_references_among_other_arguments(chain_system: System) -> None:
    theirs, mine = farref.remote("B", int, (7,)), RRef([1])
    alias = farref.remote("C", itself, (theirs,))
    expected = ["int", "RRef", "list", "tuple", "NoneType"]
    for _ in range(3):
        assert farref.rpc_sync("C", kinds, (1, theirs, [mine], (mine,), None)) == expected
        assert farref.rpc_sync("C", kinds, (1, theirs, [mine], None)) == [*expected[:3], "NoneType"]
        assert farref.rpc_sync("C", are_one, (theirs, theirs))
        assert farref.rpc_sync("D", values, ([mine, theirs],)) == [[1], 7]
        assert farref.rpc_sync("D", values, ([alias],)) == [7]
        assert farref.rpc_sync("D", values, ([alias, theirs],)) == [7, 7]


def test_a_message_introduces_an_owner_that_its_receiver_has_not_heard_of(
    own_system: System,
) -> None:
    own_system.worker("B")
    for made in (RRef(8), farref.remote(own_system.worker("C"), int, (8,))):
        for _ in range(3):
            assert farref.rpc_sync("B", values, ([made],)) == [8]

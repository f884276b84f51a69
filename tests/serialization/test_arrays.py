"""The pickle of an array is the same, whether pickle makes it or an earlier one is filled anew."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from farref.serialization import arrays
from farref.serialization.arrays import Alone, dumps, dumps_apart

from ..actors.core.interrupting import Interrupting

SHAPES: list[tuple[int, ...]] = [
    *((size,) for size in (0, 1, 255, 256, 1_000, 65_000, 65_535, 65_536, 131_071)),
    *((), (1, 1), (2, 3, 4), (3, 0, 2)),
]
"""Pickle has a short way for few read-only bytes, and one without a frame for 64 KiB or more."""


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    for known in (arrays._around, arrays._apart):
        known.cache_clear()


def filled(shape: tuple[int, ...], kind: str, step: int) -> Any:
    numbers = np.arange(np.prod(shape, dtype=int)) * step % 100
    return np.array(numbers.astype(kind)).reshape(shape)


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("kind", ["?", "u1", "i8", "f2", "f8", "c16"])
def test_the_pickle_is_the_same_each_time(kind: str, writable: bool) -> None:
    for shape in SHAPES:
        for step in (1, 3):
            array = filled(shape, kind, step)
            array.flags.writeable = writable
            made = dumps(array)
            assert made == pickle.dumps(Alone.of(array), 5)
            again = pickle.loads(made)
            assert np.array_equal(again, array)
            assert (again.dtype, again.shape) == (array.dtype, array.shape)
            assert again.flags.writeable == writable
    assert arrays._around.cache_info().currsize == (len(SHAPES) if writable else 0)


def test_kinds_that_are_equal_have_one_name() -> None:
    for kind in ("l", "q", "=i8"):
        array = np.ones(3, kind)
        assert dumps(array) == pickle.dumps(Alone.of(array), 5)
    assert arrays._around.cache_info().currsize == 1


@pytest.mark.parametrize("known", [False, True])
def test_an_array_that_only_seems_to_be_writable(known: bool) -> None:
    """To ask NumPy for the flag of this one gives a warning."""
    array: Any
    array, _ = np.broadcast_arrays(np.arange(6.0).reshape(2, 3), np.ones((1, 2, 3)))
    assert array.flags.c_contiguous
    assert memoryview(array).readonly
    if known:
        dumps(np.ones((1, 2, 3)))
    made = dumps(array)
    assert made == pickle.dumps(Alone.of(array), 5)
    assert not pickle.loads(made).flags.writeable


def restored(pickled: bytes | tuple[bytes, memoryview]) -> Any:
    if isinstance(pickled, bytes):
        return pickle.loads(pickled)
    data, view = pickled
    return pickle.loads(data, buffers=[bytearray(view.cast("B"))])


@pytest.mark.parametrize("dump", [dumps, dumps_apart])
def test_another_thread_gives_an_array_another_shape(dump: Callable[[Any], Any]) -> None:
    """At any place. A wrong pickle that is remembered would spoil all later arrays."""
    array = np.ones((2, 3))

    def turn(*_: object) -> None:
        array.resize(array.shape[::-1], refcheck=False)

    places = 0
    for place in Interrupting("/arrays.py", handler=turn).at_every_place(lambda: dump(array)):
        for shape in ((2, 3), (3, 2)):
            assert restored(dump(np.ones(shape))).shape == shape, place
        for known in (arrays._around, arrays._apart):
            known.cache_clear()
        places = place
    assert places > 3

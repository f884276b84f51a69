"""NumPy arrays travel out of band, and arrive as writable copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import farref
from farref import RRef

if TYPE_CHECKING:
    from farref import System


def double(array: Any) -> Any:
    array *= 2  # a copy of the receiver's own: it may be written
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

"""Large buffers travel beside the bytes, are copied once, and arrive as writable as they were."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from .endpoint import TinyEndpoint


def there_and_back(value: Any) -> tuple[Any, Any]:
    a, b = TinyEndpoint("A"), TinyEndpoint("B")
    payload, descriptors = a.pack(value, b)
    return payload, b.unpack(a, payload, descriptors)


def test_an_array_goes_out_of_band() -> None:
    array = np.arange(10_000.0)
    payload, back = there_and_back([array])
    assert len(payload.data) < 1000
    assert [len(each) for each in payload.buffers] == [array.nbytes]
    assert payload.size == len(payload.data) + array.nbytes
    assert np.array_equal(back[0], array)
    back[0][:] = 0
    assert array[1] == 1


def test_what_is_read_only_stays_read_only() -> None:
    array = np.arange(10)
    array.flags.writeable = False
    payload, back = there_and_back(array)
    assert isinstance(payload.buffers[0], bytes)
    assert not back.flags.writeable


def test_the_payload_is_inert_and_may_be_pickled_again() -> None:
    payload, _ = there_and_back({"array": np.ones(100), "text": "x"})
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(payload))))
    assert again == payload


def test_what_is_not_contiguous_goes_in_band() -> None:
    array = np.arange(100).reshape(10, 10)[::2, 1::2]
    _, back = there_and_back(array)
    assert np.array_equal(back, array)

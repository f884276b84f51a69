"""A NumPy array of numbers that is a whole value: pickled and unpickled in half the time.

NumPy's own way names its function and the parts of the ``dtype`` in each pickle. This one names the
``dtype`` by its short name, such as ``<f8``. Two writable arrays of one ``dtype`` and one shape
have the same pickle but for their bytes. So `dumps` remembers the rest, and copies only the bytes:
in a quarter of the time. Loading this module loads NumPy.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from pickle import PickleBuffer
from typing import Any

from numpy import frombuffer, zeros

MOST_KINDS = 1_000
"""The most pairs of a ``dtype`` and a shape that are remembered."""
_HEAD = b"\x96"
"""The opcode before the bytes of a writable buffer; their number follows, in 8 bytes."""


class Alone:
    """Pickled in place of an array, which has a built-in ``dtype`` and no gaps, row by row."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Any) -> None:
        """*parts* are the arguments of `restored`."""
        self._parts = parts

    @classmethod
    def of(cls, array: Any) -> Alone:
        return cls(PickleBuffer(array), array.dtype.str, array.shape)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return restored, self._parts


def restored(data: Any, kind: str, shape: tuple[int, ...]) -> Any:
    """The array again. It is read-only if *data* is, as it is for read-only arrays and mappings."""
    array = frombuffer(data, kind)
    return array if len(shape) == 1 else array.reshape(shape)


def as_kind(array: Any, dtype: Any) -> Any:
    """The bytes of *array*, of another *dtype*. Read-only if *array* is."""
    return array.view(dtype)


def dumps(array: Any) -> bytes:
    """The pickle of *array*, with its bytes in it."""
    view = memoryview(array)
    if view.readonly:  # NumPy calls some of these writable, with a warning
        return pickle.dumps(Alone.of(array), 5)
    before, after = _around(array.dtype, view.shape)
    return b"".join((before, view, after))


def dumps_apart(array: Any) -> tuple[bytes, memoryview]:
    """The pickle of *array* with a buffer beside it, and the buffer: its bytes."""
    own = array.view()  # another thread may give the array another shape meanwhile
    view = memoryview(own)
    return _apart(own.dtype, view.shape, view.readonly), view


@lru_cache(MOST_KINDS)
def _around(dtype: Any, shape: tuple[int, ...]) -> tuple[bytes, bytes]:
    """The pickle of a writable array before its bytes, and after them."""
    array = zeros(shape, dtype)
    pickled = pickle.dumps(Alone.of(array), 5)
    head = _HEAD + array.nbytes.to_bytes(8, "little")
    begin = pickled.index(head) + len(head)
    return pickled[:begin], pickled[begin + array.nbytes :]


@lru_cache(MOST_KINDS)
def _apart(dtype: Any, shape: tuple[int, ...], readonly: bool) -> bytes:
    """The pickle of an array without its bytes."""
    buffer = PickleBuffer(b"" if readonly else bytearray())
    alone = Alone(buffer, dtype.str, shape)
    return pickle.dumps(alone, 5, buffer_callback=lambda _: None)

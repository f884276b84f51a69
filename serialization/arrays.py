"""A NumPy array of numbers that is a whole value: pickled and unpickled in half of the time.

NumPy's own way names its function and the parts of the ``dtype`` in each pickle. This one names the
``dtype`` by its short name, such as ``<f8``, which has all that a built-in one needs. The bytes are
a buffer in both: within the pickle, or beside it. Loading this module loads NumPy.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import Any

from numpy import frombuffer


class Alone:
    """Pickles *array*, which has a built-in ``dtype`` and no gaps, row by row."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __reduce__(self) -> tuple[Any, tuple[PickleBuffer, str, tuple[int, ...]]]:
        array = self._array
        return restored, (PickleBuffer(array), array.dtype.str, array.shape)


def restored(data: Any, kind: str, shape: tuple[int, ...]) -> Any:
    """The array again. Read-only if *data* is: that of a read-only array, or mapped."""
    return frombuffer(data, kind).reshape(shape)

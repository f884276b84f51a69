"""Plain values: pickle alone gives the same values as cloudpickle, in a tenth of the time.

A plain value has few parts. It consists only of numbers, texts, NumPy's arrays of numbers, plain
containers, and functions and classes that cloudpickle pickles by their import names. It contains no
reference and no address. Most calls have only plain values. Arrays may be large: then their buffers
are beside the pickle. Those of smaller ones are in it, so that the message has one part only.
"""

from __future__ import annotations

import pickle
import sys
from functools import cache
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

import cloudpickle

from . import shared
from .by_value import is_shared_main
from .failures import pass_on

ATOMS = frozenset({NoneType, bool, int, float, complex, str})
_all_atoms = ATOMS.issuperset
NAMED = frozenset({FunctionType, BuiltinFunctionType, type})
MOST_PARTS = 64
"""The most parts of a plain value; for a larger one cloudpickle costs little more."""
SHORT = 4096
"""A message of so few bytes is never too large. An array of so few bytes may have gaps."""
IN_BAND = (1 << 17) - 1
"""The most bytes of buffers that go into the pickle itself. Copying them once more costs less than
a buffer of their own: a tenth of a fetch."""
SOON = range(max(IN_BAND + 1, shared.IN_SLOT.stop))
"""The sizes of arrays that are pickled soon."""
USER = 24
"""NumPy's dtypes have lower numbers; those of other packages are higher."""
MOST_NAMES = 10_000
"""The most functions and classes that are remembered."""

_BYTES_APART = pickle.dumps(pickle.PickleBuffer(b""), 5, buffer_callback=lambda _: False)
"""The pickle of `bytes` that are a buffer beside it."""

# Not by the public function, which copies the set at each call.
_BY_VALUE: set[str] = cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES
"""The modules with functions that cloudpickle is to pickle by value; mostly none."""

BY_NAME: dict[Any, bool] = {}
"""Functions and classes that cloudpickle pickles by their names. Their modules keep them alive
anyway."""


def dumps_call(
    function: Any, args: tuple[Any, ...], holes: list[Any] | None = None
) -> bytes | None:
    """A call, pickled, if one look at each of its parts shows that it is plain; else None.

    *function* is a function that is remembered as pickled by its name, the name of a method, or
    None if the function travels apart from its arguments. Each argument is a number or a text;
    with *holes*, *args* come from `holed`. For None as a result, `dumps_plain` looks closer.
    """
    if args and holes is None and not _all_atoms(map(type, args)):
        return None
    if (
        type(function) is not str
        and function is not None
        and (
            type(function) not in NAMED
            or not BY_NAME.get(function)
            or _BY_VALUE
            or function.__module__ == "__main__"
        )
    ):
        return None
    try:
        beside = None if holes is None else holes.append
        return pickle.dumps((function, args, {}), 5, buffer_callback=beside)
    except pickle.PicklingError:  # its name means something else by now
        return None


def dumps_plain(value: object) -> tuple[bytes, list[memoryview]] | None:
    """*value*, pickled, and the buffers beside that; None unless it is plain."""
    kind: Any = type(value)
    if kind in ATOMS:
        return pickle.dumps(value, 5), []
    room = min(IN_BAND, shared.THRESHOLD - 1)
    array = _alone(value)
    if array is not None:
        if array.nbytes <= room:
            return _arrays().dumps(array), []
        data, view = _arrays().dumps_apart(array)
        return data, [pickle.PickleBuffer(view).raw()]
    parts, arrays = [value], False
    for _ in range(MOST_PARTS):
        if not parts:
            break
        part: Any = parts.pop()
        kind = type(part)
        if kind is tuple or kind is list or kind is dict:
            if len(part) >= MOST_PARTS:
                return None
            if not _all_atoms(map(type, part)):
                parts += part
            if kind is dict and part:
                parts += part.values()
        elif kind in ATOMS:
            continue
        elif kind is bytes:
            if len(part) > room:
                return None
        elif kind not in NAMED:
            if kind.__module__ != "numpy" or not _is_of_numbers(part, kind):
                return None
            arrays = True
        elif kind is BuiltinFunctionType and type(part.__self__) is not ModuleType:
            return None  # a method, of an object that may be anything
        elif BY_NAME.get(part) and not _BY_VALUE and part.__module__ != "__main__":
            continue  # nearly always; it was asked about before
        elif not is_by_name(part):
            return None
    else:
        return None
    views: list[memoryview] = []

    def in_band(buffer: pickle.PickleBuffer) -> bool:
        nonlocal room
        view = buffer.raw()
        if view.nbytes > room:
            views.append(view)
            return False
        room -= view.nbytes
        return True

    try:
        return pickle.dumps(value, 5, buffer_callback=in_band if arrays else None), views
    except pickle.PicklingError:  # its name means something else by now
        return None


def dumps_soon(value: object) -> tuple[bytes, Any] | None:
    """*value*, pickled, if that takes microseconds, and a buffer beside that or None.

    Values are numbers, texts, bytes and NumPy's arrays of numbers without gaps, up to `IN_BAND`. If
    the value `fits_slot`, its bytes are the buffer. None if it may take longer. Runs none of the
    user's code, and raises nothing.
    """
    kind: Any = type(value)
    try:
        if kind is bytes and len(value) in shared.IN_SLOT:  # type: ignore[arg-type]  # it is bytes
            return _BYTES_APART, value
        if kind in ATOMS or kind is bytes:
            if sys.getsizeof(value) > IN_BAND:
                return None
            return pickle.dumps(value, 5), None
        array = _alone(value, SOON)
        if array is None:
            return None
        if array.nbytes in shared.IN_SLOT:
            return _arrays().dumps_apart(array)  # type: ignore[no-any-return]  # a module's attribute
        if array.nbytes > min(IN_BAND, shared.THRESHOLD - 1):
            return None
        return _arrays().dumps(array), None
    except Exception as error:  # as for want of memory; `dumps_plain` meets the error again
        pass_on(error)
        return None


def fits_slot(value: Any) -> bool:
    """Whether *value* is for a slot (`slots`): bytes or an array of numbers, of such a size."""
    if type(value) is bytes:
        return len(value) in shared.IN_SLOT
    return _alone(value, shared.IN_SLOT) is not None


def size_class(value: object) -> int:
    """About the logarithm of the bytes to copy, if *value*'s type gives it; else 0.

    Runs none of the user's code.
    """
    kind: Any = type(value)
    if kind is bytes or kind is bytearray or kind is str:
        return len(value).bit_length()  # type: ignore[arg-type]  # one of these
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is getattr(numpy, "ndarray", None):
        return int(value.nbytes).bit_length()  # type: ignore[attr-defined]  # it is one
    return 0


@cache
def _arrays() -> ModuleType:
    """`arrays`. It loads NumPy, which most programs need not have."""
    from . import arrays  # noqa: PLC0415 - when NumPy is there

    return arrays


def _alone(value: Any, sizes: range = range(sys.maxsize)) -> Any:
    """*value*, if it is an array of numbers without gaps, of one of these *sizes*; else None."""
    numpy = sys.modules.get("numpy")
    if type(value) is not getattr(numpy, "ndarray", None) or value.nbytes not in sizes:
        return None
    return value if value.flags.c_contiguous and _is_numeric(value.dtype) else None


def _is_of_numbers(part: Any, kind: type) -> bool:
    """Whether it is an array of numbers, small or without gaps, or a number, of NumPy's own."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not (kind is numpy.ndarray or issubclass(kind, numpy.generic)):
        return False
    if not _is_numeric(part.dtype):
        return False
    return bool(part.nbytes <= SHORT or part.flags.c_contiguous or part.flags.f_contiguous)


def _is_numeric(dtype: Any) -> bool:
    """Whether *dtype* is one of NumPy's own of numbers, in the machine's byte order.

    Not by `isbuiltin`: that is 0 for the copy of a dtype that an unpickled array has.
    """
    return bool(
        dtype.kind in "biufc" and dtype.num < USER and dtype.isnative and dtype.metadata is None
    )


def is_by_name(thing: Any) -> bool:
    """Whether *thing*, a function or a class, is pickled by its name.

    False if it has not been asked about before and there is no room left to remember it.
    """
    if is_shared_main(thing):
        return True
    if "<" in thing.__qualname__ or thing.__module__ == "__main__":  # a lambda, or a closure
        return False
    if _BY_VALUE:  # a program may add to it at any time
        BY_NAME.clear()
        return False
    known = BY_NAME.get(thing)
    if known is None:
        try:
            # In this order: pickle refuses a nameless object at once, whatever its contents.
            named = pickle.dumps(thing, 5)
            known = cloudpickle.dumps(thing, 5) == named
        except Exception as error:  # cloudpickle will report the error
            pass_on(error)
            return False
        if known and len(BY_NAME) < MOST_NAMES:
            BY_NAME[thing] = known
    return known

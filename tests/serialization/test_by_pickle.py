"""A value pickled by pickle alone equals cloudpickle's version of it."""

from __future__ import annotations

import operator
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

from farref.serialization import shared
from farref.serialization.by_pickle import (
    IN_BAND,
    MOST_PARTS,
    SHORT,
    dumps_plain,
    dumps_soon,
    size_class,
)
from farref.serialization.pickling import Reference
from farref.serialization.shared import IN_SLOT

from .passing import limited


def known(number: int) -> int:
    return number


PLAIN: list[Any] = [
    None,
    (int, (), {}),
    (known, (1, 2.5, 1j, "text", b"bytes", True), {"key": [None, {"a": (1,)}]}),
    (len, ([1, 2],), {}),
    (operator.add, (1, 2), {}),
]
SAME = "one and the same"


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_it_is_the_same(value: Any) -> None:
    made = dumps_plain(value)
    assert made is not None
    pickled, buffers = made
    assert cloudpickle.loads(pickled) == value
    assert not buffers


ARRAYS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: np.arange(7.0),
    "small, with gaps": lambda: np.arange(100).reshape(10, 10)[::2, ::3],
    "Fortran's order": lambda: np.asfortranarray(np.arange(SHORT).reshape(64, -1)),
    "no dimension": lambda: np.array(2j),
    "nothing": lambda: np.empty((0, 3), np.int8),
    "the largest in the pickle": lambda: np.ones(IN_BAND, np.uint8),
    "large": lambda: np.ones(IN_BAND + 1, np.uint8),
    "one number": lambda: np.float32(1.5),
    "a truth": lambda: np.bool_(True),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_an_array_is_the_same(kind: str, writable: bool, alone: bool) -> None:
    value = ARRAYS[kind]()
    if isinstance(value, np.ndarray):
        value.flags.writeable = writable
    made = dumps_plain(value if alone else [value, value])
    assert made is not None
    pickled, views = made
    assert [view.nbytes for view in views] == ([value.nbytes] if value.nbytes > IN_BAND else [])
    got = pickle.loads(pickled, buffers=[bytearray(view) for view in views])
    one, other = (got, got) if alone else got
    assert (type(one), one.dtype, one.shape) == (type(value), value.dtype, value.shape)
    assert np.array_equal(one, value)
    assert one is other
    theirs = cloudpickle.loads(cloudpickle.dumps(value, 5))
    assert str(one.flags) == str(theirs.flags)


def test_an_array_that_has_come_is_as_plain_as_a_new_one() -> None:
    """NumPy's dtypes are other objects after unpickling, and say less of themselves."""
    come = pickle.loads(pickle.dumps(np.arange(3)))
    assert come.dtype.isbuiltin != np.arange(3).dtype.isbuiltin
    assert dumps_plain(come) is not None


def test_several_arrays_are_in_the_pickle_as_far_as_there_is_room() -> None:
    sizes = [IN_BAND // 2, IN_BAND, IN_BAND // 2, IN_BAND // 2]
    made = dumps_plain([np.full(size, size % 7, np.uint8) for size in sizes])
    assert made is not None
    pickled, views = made
    assert [view.nbytes for view in views] == [IN_BAND, IN_BAND // 2]
    assert 0 < len(pickled) - 2 * (IN_BAND // 2) < 1000
    arrays = pickle.loads(pickled, buffers=[bytearray(view) for view in views])
    assert all((a == size % 7).all() for a, size in zip(arrays, sizes, strict=True))


def test_what_is_to_be_shared_is_never_in_the_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "THRESHOLD", 1000)
    made = dumps_plain([np.zeros(1000, np.uint8), np.zeros(999, np.uint8)])
    assert made is not None
    assert [view.nbytes for view in made[1]] == [1000]
    assert dumps_plain(bytes(1000)) is None
    assert dumps_plain(bytes(999)) is not None


class Number(int):
    """Not an `int`, though it looks like one."""


def cyclic() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


OTHERS: dict[str, Callable[[], object]] = {
    "a lambda": lambda: (lambda: 1, (), {}),
    "a closure": lambda: lambda value=SAME: value,
    "a local class": lambda: type("Local", (), {}),
    "a subclass": lambda: Number(3),
    "a reference": lambda: (known, (Reference(),), {}),
    "long bytes": lambda: bytes(IN_BAND + 1),
    "bytes that change": lambda: bytearray(b"x"),
    "a set": lambda: {1},
    "many parts": lambda: list(range(MOST_PARTS)),
    "a cycle": cyclic,
    "a method": lambda: "text".upper,
    "an exception": lambda: ValueError("x"),
    "an array of objects": lambda: np.array([Reference()], dtype=object),
    "an array of structures": lambda: np.zeros(3, dtype=[("a", "i4")]),
    "an array of texts": lambda: np.array(["text"]),
    "another byte order": lambda: np.zeros(3, np.dtype(np.int32).newbyteorder()),
    "a masked array": lambda: np.ma.array([1, 2]),
    "a large one with gaps": lambda: np.zeros(2 * SHORT)[::2],
    "numbers with metadata": lambda: np.zeros(3, np.dtype("f8", metadata={"a": Reference()})),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_not_plain(kind: str) -> None:
    assert dumps_plain(OTHERS[kind]()) is None


def test_what_a_closure_holds_is_not_pickled_to_find_out() -> None:
    pickled: list[int] = []

    class Held:
        def __reduce__(self) -> tuple[type[int], tuple[int, ...]]:
            pickled.append(1)
            return int, ()

    held = Held()
    assert dumps_plain((lambda: held, (), {})) is None
    assert not pickled


def test_what_is_to_travel_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may register a module for this at any time, and take that back."""
    module = types.ModuleType("a_module_of_ours")
    exec("def function(): return 1", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert dumps_plain(module.function) is not None
    cloudpickle.register_pickle_by_value(module)
    try:
        assert dumps_plain(module.function) is None
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert dumps_plain(module.function) is not None


def test_a_name_that_means_something_else_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    old = known
    assert dumps_plain(old) is not None
    monkeypatch.setattr(sys.modules[__name__], "known", len)
    assert dumps_plain(old) is None


SOON: list[Any] = [
    None,
    True,
    -(2**80),
    1.5,
    1j,
    "text",
    b"bytes",
    "x" * (IN_BAND // 2),
    np.arange(6.0).reshape(2, 3),
    np.ones(IN_SLOT[0] - 1, np.uint8),
    bytes(IN_SLOT[0] - 1),
]


@pytest.mark.parametrize("value", SOON, ids=range(len(SOON)))
def test_what_is_pickled_soon_is_the_same(value: Any) -> None:
    made, plainly = dumps_soon(value), dumps_plain(value)
    assert plainly is not None
    assert made == (plainly[0], None)
    assert not plainly[1]


LATER: list[Any] = [
    "x" * IN_BAND,
    "\N{SNOWMAN}" * (IN_BAND // 2),
    bytes(IN_SLOT.stop),
    1 << (9 * IN_BAND),
    np.ones(IN_SLOT.stop, np.uint8),
    np.arange(100).reshape(10, 10)[::2],
    np.array(["text"]),
    np.ma.masked_array([1]),
    np.float32(1.5),
    [1],
    Number(1),
    bytearray(1),
]


@pytest.mark.parametrize("value", LATER, ids=range(len(LATER)))
def test_what_may_take_longer_is_not_pickled_soon(value: Any) -> None:
    assert dumps_soon(value) is None


def test_what_cannot_be_pickled_now_is_left_to_the_general_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread may be importing NumPy."""
    monkeypatch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))
    assert dumps_soon([1]) is None
    assert dumps_plain([1]) is not None


def test_no_descriptor_is_left_to_load_the_module_for_arrays() -> None:
    code = """
        assert "farref.serialization.arrays" not in sys.modules
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = [os.dup(0) for _ in range(len(os.listdir("/proc/self/fd")) - 1, 64)]
        assert dumps_soon(np.ones(1)) is None
        for each in held:
            os.close(each)
        assert dumps_soon(np.ones(1)) is not None
    """
    limited(__name__, code)


def test_how_much_there_is_to_copy() -> None:
    """The amount in values that tell their size without running user code."""
    for size in (0, 1000, 1 << 20):
        for value in (bytes(size), bytearray(size), "x" * size, np.zeros(size, np.uint8)):
            assert size_class(value) == size.bit_length()

    class Sly(np.ndarray[Any, Any]):
        @property
        def nbytes(self) -> int:
            raise AssertionError("the user's code")

    assert size_class(np.zeros(3).view(Sly)) == size_class([b"x"]) == 0

"""What is pickled by pickle alone is what cloudpickle would have made of it."""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from farref.serialization.pickling import Reference
from farref.serialization.plain import MOST_PARTS, SHORT, dumps_plain


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
    assert cloudpickle.loads(made) == value


def test_one_object_stays_one() -> None:
    shared = [1]
    made = dumps_plain((known, (shared, shared), {}))
    assert made is not None
    _, (first, second), _ = cloudpickle.loads(made)
    assert first is second


class Number(int):
    """Not an `int`, whatever it looks like."""


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
    "long bytes": lambda: bytes(SHORT + 1),
    "bytes that change": lambda: bytearray(b"x"),
    "a set": lambda: {1},
    "many parts": lambda: list(range(MOST_PARTS)),
    "a cycle": cyclic,
    "a method": lambda: "text".upper,
    "an exception": lambda: ValueError("x"),
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
    """A program may say so of a module at any time, and take it back."""
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

"""The references that a value contains, found without running the user's code."""

from __future__ import annotations

import collections
import functools
import gc
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pytest

from farref.serialization.contains import Contents, references_in

from .endpoint import TinyEndpoint, TinyHandle

MY_GLOBAL: Any = None


def handle() -> TinyHandle:
    return TinyEndpoint("A").own()


class Plain:
    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def method(self) -> None: ...


class Slots:
    __slots__ = ("__weakref__", "inside")

    def __init__(self, inside: Any) -> None:
        self.inside = inside


class BothKinds(Slots):
    """Has slots and a `__dict__`."""

    def __init__(self, inside: Any) -> None:
        super().__init__(None)
        self.more = inside


@dataclass(frozen=True, slots=True)
class Data:
    inside: Any


class ListOfMine(list[Any]):
    pass


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda ref: ref,
    "list": lambda ref: [1, ref],
    "tuple": lambda ref: ("x", ref),
    "dict value": lambda ref: {"k": ref},
    "dict key": lambda ref: {ref: 1},
    "set": lambda ref: {ref},
    "frozenset": lambda ref: frozenset({ref}),
    "deque": lambda ref: collections.deque([ref]),
    "ordered dict": lambda ref: collections.OrderedDict(k=ref),
    "default dict": lambda ref: collections.defaultdict(list, k=[ref]),
    "chain map": lambda ref: collections.ChainMap({}, {"k": ref}),
    "instance": Plain,
    "slots": Slots,
    "slots and dict": BothKinds,
    "dataclass": Data,
    "subclass of list": lambda ref: ListOfMine([ref]),
    "attribute of a subclass of list": lambda ref: _with_attribute(ListOfMine(), ref),
    "closure": lambda ref: lambda: lambda: ref,
    "default": lambda ref: lambda first=ref, *, other=None: (first, other),
    "keyword default": lambda ref: lambda *, other=ref: other,
    "bound method": lambda ref: Plain(ref).method,
    "partial": lambda ref: functools.partial(print, ref),
    "error": lambda ref: ValueError("text", ref),
    "iterator": lambda ref: iter([ref]),
    "generator": lambda ref: (each for each in [ref]),
    "namespace": lambda ref: types.SimpleNamespace(k=ref),
    "mapping proxy": lambda ref: types.MappingProxyType({"k": ref}),
}


def _with_attribute(obj: Any, ref: Any) -> Any:
    obj.note = ref
    return obj


@pytest.mark.parametrize("kind", HOLDERS)
def test_it_looks_into(kind: str) -> None:
    ref = handle()
    assert references_in(HOLDERS[kind](ref)) == Contents((ref,), complete=True)


@pytest.mark.parametrize("value", [None, 1, "text", [], {}, object(), [1, ["x"]], int, sys, print])
def test_nothing_in_it(value: Any) -> None:
    assert references_in(value) == Contents((), complete=True)


def test_each_handle_once_the_outermost_first() -> None:
    endpoint = TinyEndpoint("A")
    inner, outer = endpoint.own(), endpoint.own()
    twin = TinyHandle(inner.rref)
    value: list[Any] = [[inner, [[twin, inner, outer]]], outer]
    value.append(value)
    found = references_in(value).references
    assert [id(each) for each in found] == [id(outer), id(inner), id(twin)]


def test_it_goes_to_any_depth() -> None:
    ref = handle()
    value: Any = ref
    for _ in range(30_000):
        value = Plain([value])
    assert references_in(value) == Contents((ref,), complete=True)


def test_it_stops_at_the_limit_and_says_so() -> None:
    near, far = handle(), handle()
    value: Any = far
    for _ in range(1_000):
        value = [value]
    assert references_in([near, value], limit=1_000) == Contents((near,), complete=False)
    assert references_in([near, value], limit=1_001) == Contents((near, far), complete=True)


def test_numbers_and_strings_count_for_nothing() -> None:
    ref = handle()
    value = [*range(200_000), *map(str, range(200_000)), (1, 2), ref]
    assert references_in(value, limit=2).references == (ref,)


def test_it_does_not_enter_modules_classes_or_references() -> None:
    global MY_GLOBAL  # noqa: PLW0603 - a function refers to it, and does not contain it
    MY_GLOBAL = handle()
    inside, inner = handle(), handle()
    vars(inside)["hidden"] = inner
    a_class: Any = type("AClass", (Plain,), {"of_the_class": handle()})
    try:
        value = [test_nothing_in_it, sys.modules[__name__], a_class(inside), a_class, handle]
        assert references_in(value) == Contents((inside,), complete=True)
    finally:
        MY_GLOBAL = None


def test_it_enters_the_globals_that_a_pickled_function_brought_along() -> None:
    """They belong to no module: only the function keeps them."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def function(): return KEPT", namespace)
    namespace["KEPT"] = [1]
    function = cloudpickle.loads(cloudpickle.dumps(namespace["function"]))
    ref = handle()
    function.__globals__["KEPT"].append(ref)
    assert references_in(function).references == (ref,)


class Shell:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


def test_it_does_not_enter_what_is_opaque() -> None:
    ref = handle()
    value = [Plain(Shell(handle())), ref]
    assert references_in(value, opaque=(Shell,)) == Contents((ref,), complete=True)
    assert references_in(Shell(ref), opaque=(Shell,)).references == ()


def test_what_is_only_referred_to_weakly_is_not_in_it() -> None:
    other = Plain(handle())
    assert references_in([weakref.ref(other), weakref.WeakSet([other])]).references == ()


class Touched(BaseException):
    pass


def _touch(*args: Any, **kwargs: Any) -> Any:
    raise Touched


def untouchable(inside: Any) -> tuple[Any, Any]:
    """An object and a module; every access to them, and to their classes, runs user code."""

    class Meta(type):
        __getattribute__ = __instancecheck__ = __subclasscheck__ = __eq__ = __hash__ = _touch

    class Mine(metaclass=Meta):
        def __init__(self, inside: Any) -> None:
            object.__setattr__(self, "inside", inside)

        __class__ = property(_touch)
        __dict__ = property(_touch)
        __getattribute__ = __setattr__ = __eq__ = __hash__ = __len__ = __iter__ = _touch
        __repr__ = __reduce_ex__ = __sizeof__ = __contains__ = __getitem__ = __dir__ = _touch

    class Module(types.ModuleType):
        __getattribute__ = _touch

    return Mine(inside), Module("a_module")


def test_it_runs_none_of_the_users_code(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = handle()
    mine, module = untouchable([ref])
    with monkeypatch.context() as patch:  # afterwards pytest's plugins look at every module
        patch.setitem(sys.modules, "a_module", module)
        patch.setitem(sys.modules, "no_module", mine)
        for value in (mine, [mine, Plain(mine), module]):
            found = references_in(value)
            assert [id(each) for each in found.references] == [id(ref)]
            assert found.complete


def test_it_leaves_nothing_behind() -> None:
    value = Plain([handle()])
    watch = weakref.ref(value)
    assert len(references_in(value).references) == 1
    gc.disable()
    try:
        del value
        assert watch() is None
    finally:
        gc.enable()


def test_it_may_run_while_others_change_the_value() -> None:
    value: dict[int, Any] = {n: [Plain(n)] for n in range(1_000)}
    ends = time.monotonic() + 0.3

    def change() -> None:
        n = 0
        while time.monotonic() < ends:
            n += 1
            value[n % 1_000] = [Plain(handle())]
            value.pop((n * 7) % 1_000, None)

    thread = threading.Thread(target=change)
    thread.start()
    while thread.is_alive():
        assert references_in(value).complete
    thread.join()
    held = sum(isinstance(each[0].inside, TinyHandle) for each in value.values())
    assert len(references_in(value).references) == held

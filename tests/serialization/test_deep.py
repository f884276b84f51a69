"""Values nested to any depth are pickled; what the deep pickler writes is what the other means."""

from __future__ import annotations

import collections
import copyreg
import datetime
import enum
import functools
import io
import pickle
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farref import SerializationError
from farref.serialization import deep
from farref.serialization.failures import Failure

from .endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Node:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


class Slotted:
    __slots__ = ("inside",)

    def __init__(self, inside: Any) -> None:
        self.inside = inside


@dataclass(frozen=True)
class Frozen:
    inside: Any


class Pair(NamedTuple):
    inside: Any
    number: int


def _cell(inside: Any) -> Callable[[], Any]:
    return lambda: inside


NESTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list": (lambda v: [v], lambda v: v[0]),
    "tuple": (lambda v: (v,), lambda v: v[0]),
    "long tuple": (lambda v: (1, 2, 3, v), lambda v: v[3]),
    "dict": (lambda v: {"inside": v}, lambda v: v["inside"]),
    "frozenset": (lambda v: frozenset({Frozen((v,))}), lambda v: next(iter(v)).inside[0]),
    "deque": (lambda v: collections.deque([v]), lambda v: v[0]),
    "instance": (Node, lambda v: v.inside),
    "slots": (Slotted, lambda v: v.inside),
    "dataclass": (Frozen, lambda v: v.inside),
    "named tuple": (lambda v: Pair(v, 1), lambda v: v.inside),
    "closure": (_cell, lambda v: v()),
    "partial": (lambda v: functools.partial(print, v), lambda v: v.args[0]),
    "error": (ValueError, lambda v: v.args[0]),
}

AT_MOST = {
    "frozenset": 300,  # its hash calls itself
    "closure": 2_000,  # a function pickled by value takes 0.1 ms
}


@pytest.mark.parametrize("depth", [300, 1_000, 20_000])
@pytest.mark.parametrize("kind", NESTS)
def test_a_reference_below_a_deep_nest(kind: str, depth: int) -> None:
    depth = min(depth, AT_MOST.get(kind, depth))
    outside, inside = NESTS[kind]
    a, b = Endpoint("A"), Endpoint("B")
    ref = a.own()
    value: Any = ref
    for _ in range(depth):
        value = outside(value)
    before = sys.getrecursionlimit(), threading.stack_size()
    threads = set(threading.enumerate())  # one of another test's may end meanwhile
    payload, descriptors = a.pack(value, b)
    assert (sys.getrecursionlimit(), threading.stack_size()) == before
    assert set(threading.enumerate()) <= threads
    assert a.forks(ref) == len(descriptors) == 1
    back = b.unpack(a, payload, descriptors)
    for _ in range(depth):
        back = inside(back)
    assert back == ref


def test_it_leaves_no_fork_at_whatever_depth_the_first_pickler_gives_up() -> None:
    """The first attempt ends in the midst of something; with 3.11 also in Python code."""
    a, b = Endpoint("A"), Endpoint("B")
    ref = a.own()
    value: Any = ref
    for depth in range(1, 800):
        value = [value]
        if depth > 200:
            a.pack(value, b)
            assert a.forks(ref) == depth - 200


def test_an_unpicklable_value_below_a_deep_nest_forks_nothing() -> None:
    a, b = Endpoint("A"), Endpoint("B")
    ref = a.own()
    value: Any = [ref, threading.Lock()]
    for _ in range(5_000):
        value = [value]
    with pytest.raises(SerializationError, match="lock"):
        a.pack([ref, value], b)
    assert a.forks(ref) == 0


class Endless:
    def __reduce__(self) -> Any:
        return Endless, (Endless(),)


def test_an_endless_value_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "MAX_DEPTH", 50_000)
    a, b = Endpoint("A"), Endpoint("B")
    ref = a.own()
    with pytest.raises(SerializationError, match=r"RecursionError.*deeper than 50,000"):
        a.pack([ref, Endless()], b)
    assert a.forks(ref) == 0


class Loops:
    def __reduce__(self) -> Any:
        return self.__reduce__()


def test_a_recursion_of_the_values_own_is_an_error() -> None:
    a, b = Endpoint("A"), Endpoint("B")
    with pytest.raises(SerializationError, match="RecursionError"):
        a.pack(Loops(), b)


def test_buffers_below_a_deep_nest_go_out_of_band_once() -> None:
    array = np.arange(10_000.0)
    value: Any = array
    for _ in range(5_000):
        value = [value]
    a, b = Endpoint("A"), Endpoint("B")
    payload, _ = a.pack(value, b)
    assert [len(each) for each in payload.buffers] == [array.nbytes]
    back = b.unpack(a, payload, ())
    for _ in range(5_000):
        back = back[0]
    assert np.array_equal(back, array)


def test_an_exception_with_a_deep_argument_comes_back() -> None:
    value: Any = 7
    for _ in range(5_000):
        value = [value]
    error = Failure.of(ValueError("deep", value), "B", "there()").rebuild()
    assert type(error) is ValueError
    back = error.args[1]
    for _ in range(5_000):
        back = back[0]
    assert back == 7


# ---- the deep pickler writes what the one in C writes, with the same meaning


class Colour(enum.Enum):
    RED = 1


class Meta(type):
    pass


class WithMeta(metaclass=Meta):
    pass


class NewArguments(int):
    def __new__(cls, *, value: int) -> NewArguments:
        return super().__new__(cls, value)

    def __getnewargs_ex__(self) -> Any:
        return (), {"value": int(self)}


class Dict(collections.OrderedDict[str, int]):
    note = ""


class SetState:
    """Reduces to all six parts."""

    def __init__(self) -> None:
        self.state: Any = None

    def __reduce__(self) -> Any:
        return SetState, (), self.state, None, None, _set_state


def _set_state(obj: SetState, state: Any) -> None:
    obj.state = state


class Registered:
    pass


copyreg.pickle(Registered, lambda _: (Registered, ()))


class Global:
    def __reduce__(self) -> str:
        return "A_GLOBAL"


A_GLOBAL = Global()

PLAIN: list[Any] = [
    None,
    True,
    0,
    -1,
    255,
    70_000,
    -(2**31),
    2**200,
    1.5,
    float("inf"),
    1j,
    "",
    "text",
    "\ud800",
    "x" * 100_000,
    b"",
    b"bytes",
    b"y" * 100_000,
    bytearray(b"array"),
    (),
    (1,),
    (1, 2, 3, 4),
    [],
    [1, "x"],
    list(range(3_000)),
    {},
    {"k": [1]},
    dict.fromkeys(range(3_000)),
    set(),
    {1, 2},
    frozenset(),
    frozenset({1, 2}),
    slice(1, 2),
    range(3),
    ...,
    NotImplemented,
    type(None),
    type(...),
    int,
    len,
    Colour.RED,
    Colour,
    WithMeta,
    Frozen(3),
    Pair(1, 2),
    NewArguments(value=3),
    collections.deque([1, 2], maxlen=4),
    collections.Counter("abca"),
    collections.defaultdict(list, a=[1]),
    Dict(a=1, b=2),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    A_GLOBAL,
    np.float64(2.5),
    np.dtype("int32"),
    collections.OrderedDict.fromkeys,
    "abc".upper,
]


def deeply(value: Any) -> Any:
    file = io.BytesIO()
    deep.DeepPickler(file).dump(value)
    return pickle.loads(file.getvalue())


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}-{value!r:.20}")
def test_what_it_writes_is_equal(value: Any) -> None:
    back = deeply([value, value])
    assert type(back[0]) is type(value)
    if value != "abc".upper:  # two bound methods of equal objects
        assert back[0] == value
    assert back[0] is back[1] or back[0] == back[1]
    assert deeply(collections.OrderedDict(a=value))["a"] == back[0] or value == "abc".upper


def test_identities_are_kept() -> None:
    shared = [1]
    first, second = deeply((shared, {"again": shared}))
    assert first is second["again"]


def _cycles() -> Iterator[tuple[Any, Callable[[Any], bool]]]:
    a_list: list[Any] = []
    a_list.append(a_list)
    yield a_list, lambda v: v[0] is v
    a_dict: dict[str, Any] = {}
    a_dict["self"] = a_dict
    yield a_dict, lambda v: v["self"] is v
    for others in ((), (1, 2, 3)):
        a_tuple: tuple[Any, ...] = ([], *others)
        a_tuple[0].append(a_tuple)
        yield a_tuple, lambda v: v[0][0] is v
    node = Node(None)
    node.inside = [node]
    yield node, lambda v: v.inside[0] is v
    a_set = frozenset({(member := Node(None))})
    member.inside = a_set
    yield a_set, lambda v: next(iter(v)).inside is v
    queue: collections.deque[Any] = collections.deque()
    queue.append(queue)
    yield queue, lambda v: v[0] is v
    six = SetState()
    six.state = [six]
    yield six, lambda v: v.state[0] is v
    error = ValueError([])
    error.args[0].append(error)
    yield error.args[0], lambda v: v[0].args[0] is v


@pytest.mark.parametrize("number", range(9))
def test_cycles_are_kept(number: int) -> None:
    value, holds = list(_cycles())[number]
    assert holds(pickle.loads(pickle.dumps(value, 5)))
    assert holds(deeply(value))


def test_functions_and_classes_by_value() -> None:
    factor = 3

    class Local:
        """Defined in a function, so it is pickled by value."""

        count = factor

        def times(self, number: int) -> int:
            return number * self.count

    def again(number: int) -> int:
        return again(number - 1) * factor if number else 1

    local, function = deeply((Local(), again))
    assert local.times(2) == 6
    assert type(local).__doc__ == Local.__doc__
    assert function(2) == 9
    assert isinstance(deeply(Registered()), Registered)


class Wrong:
    def __init__(self, reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Any:
        return self.reduced


def _newobj(cls: type) -> Any: ...


_newobj.__name__ = "__newobj__"


@pytest.mark.parametrize(
    "reduced", [None, (), (int,), (int, [1]), (1, ()), (int, (), 1, 1, 1, 1, 1), (_newobj, (int,))]
)
def test_what_reduces_to_nonsense_is_refused(reduced: Any) -> None:
    for refuse in (deeply, pickle.dumps):
        with pytest.raises((pickle.PicklingError, TypeError)):
            refuse(Wrong(reduced))


_LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
_VALUES = st.recursive(
    _LEAVES,
    lambda inside: (
        st.lists(inside)
        | st.lists(inside).map(tuple)
        | st.dictionaries(_LEAVES, inside)
        | st.frozensets(_LEAVES)
        | inside.map(Frozen)
        | inside.map(lambda value: [value, value])
        | st.lists(inside).map(collections.deque)
    ),
    max_leaves=30,
)


@given(_VALUES)
def test_any_value_comes_back(value: Any) -> None:
    back = deeply(value)
    assert back == value
    assert pickle.dumps(back, 5) == pickle.dumps(pickle.loads(pickle.dumps(value, 5)), 5)

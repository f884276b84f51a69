"""`rref.rpc_sync()`, `rpc_async()` and `remote()`: methods of the object, where it lives."""

from __future__ import annotations

import asyncio
import math
import operator
import time
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, SelfWaitError

from ..helpers import Box, hold, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from farref import System


class Counter:
    def __init__(self) -> None:
        self.value = 0
        self.running = 0

    def add(self, amount: int, *, times: int = 1) -> int:
        self.running += 1
        assert self.running == 1, "two methods of one object ran at once"
        before = self.value
        time.sleep(0.001)
        self.value = before + amount * times
        self.running -= 1
        return self.value

    async def add_later(self, amount: int) -> int:
        self.value += amount
        value = self.value
        await asyncio.sleep(0.001)  # others begin meanwhile
        return value

    def me(self) -> Counter:
        return self

    def fail(self) -> None:
        raise KeyError("no such thing")


def test_a_method_runs_at_the_owner_in_each_way(system: System) -> None:
    ref = farref.remote("B", Counter)
    assert ref.rpc_sync().add(2, times=3) == 6
    assert ref.rpc_async().add(2).result() == 8
    result = ref.remote().add(5)
    assert (result.owner_name(), result.to_here()) == ("B", 13)
    assert farref.on(ref).rpc_sync(Counter.add_later, 2) == 15
    assert ref.to_here().value == 15


def test_methods_begin_in_the_order_sent_and_plain_ones_run_one_at_a_time(system: System) -> None:
    ref = farref.remote("B", Counter)
    futures = [ref.rpc_async().add(1) for _ in range(20)]
    futures += [ref.rpc_async().add_later(1) for _ in range(20)]
    assert [future.result() for future in futures] == list(range(1, 41))


def test_a_method_call_before_the_object_exists_waits_for_it(system: System, gate: Path) -> None:
    called = farref.remote("B", _late_counter, (gate,)).rpc_async().add(1)
    gate.touch()
    assert called.result() == 1


def _late_counter(gate: Path) -> Counter:
    hold(gate)
    return Counter()


@pytest.mark.parametrize(
    ("made", "method", "error", "match"),
    [
        ((Counter,), "fail", KeyError, "no such thing"),
        ((Counter,), "nothing", AttributeError, r"Counter.*nothing"),
        ((divmod, (1, 0)), "anything", ZeroDivisionError, "division"),
    ],
)
def test_an_error_of_a_method_is_raised_and_leaves_the_object_usable(
    system: System, made: Any, method: str, error: type[Exception], match: str
) -> None:
    ref = farref.remote("B", *made)
    with pytest.raises(error, match=match):
        getattr(ref.rpc_sync(), method)()
    with pytest.raises(error, match=match):
        getattr(ref.remote(), method)().to_here()
    if made == (Counter,):
        assert ref.rpc_sync().add(1) == 1


def test_a_proxy_is_not_the_object(system: System) -> None:
    ref: RRef[Any] = RRef(Box())
    proxy = ref.rpc_sync()
    assert "RRef(" in repr(proxy)
    with pytest.raises(AttributeError):
        proxy.__fspath__  # noqa: B018 - the access is the test


# ---- items and attributes


def test_items_are_set_and_deleted_at_the_owner(system: System) -> None:
    ref = farref.remote("B", dict)
    ref.rpc_sync()["a"] = 1
    ref.rpc_async()["b"] = 2  # in order with the requests after it
    ref.remote()["c"] = 3
    assert ref.rpc_async().__setitem__("d", 4).result() is None
    del ref.rpc_sync()["a"]
    assert ref.to_here() == {"b": 2, "c": 3, "d": 4}
    with pytest.raises(KeyError, match="nothing"):
        del ref.rpc_sync()["nothing"]


def test_attributes_are_set_and_deleted_at_the_owner(system: System) -> None:
    ref: RRef[Any] = farref.remote("B", Counter)
    ref.rpc_sync().value = 5
    assert ref.rpc_sync().value.get() == 5
    ref.rpc_async().other = 6
    assert ref.rpc_sync().other.get() == 6
    assert ref.rpc_async().__setattr__("other", 7).result() is None
    del ref.rpc_sync().other
    with pytest.raises(AttributeError, match="other"):
        ref.rpc_sync().other.get()


def test_the_length_the_truth_and_the_members_of_an_object(system: System) -> None:
    ref = farref.remote("B", list, ([3, 4],))
    proxy = ref.rpc_sync()
    assert len(proxy) == 2
    assert proxy
    assert 4 in proxy
    assert 5 not in proxy
    assert [2 * each for each in proxy] == [6, 8]
    proxy.clear()
    assert not proxy


def test_an_iteration_is_one_call(system: System) -> None:
    ref = farref.remote("B", dict, ([("a", 1), ("b", 2)],))
    before = farref.rpc_sync("B", farref.counters).served
    assert [each for each in ref.rpc_sync()] == ["a", "b"]  # noqa: C416 - `list` asks for the length
    assert farref.rpc_sync("B", farref.counters).served - before == 2  # and the question itself


def test_an_iteration_never_uses_the_object_up(system: System) -> None:
    ref = farref.remote("B", iter, ([0, 1],))
    with pytest.raises(TypeError, match="use it up"):
        list(ref.rpc_sync())
    assert next(ref.rpc_sync()) == 0


def test_answers_that_python_needs_at_once_need_rpc_sync(system: System) -> None:
    ref = farref.remote("B", list, ([3, 4],))
    asked: list[Callable[[Any], object]] = [
        *(list, len, bool, int, float, complex, reversed, operator.index),
        *(lambda p: 3 in p, lambda p: p < 3, lambda p: p >= 3, entered),
    ]
    for proxy in (ref.rpc_async(), ref.remote()):
        for ask in asked:
            with pytest.raises(TypeError, match=r"__\(\): use `rref.rpc_sync\(\)`"):
                ask(proxy)
    with pytest.raises(TypeError, match=r"__aenter__.*use `rref.rpc_async\(\)`"):
        asyncio.run(entered_later(ref.rpc_sync()))
    assert ref.rpc_async().__len__().result() == 2
    assert ref.remote().__contains__(3).to_here() is True


def entered(proxy: Any) -> object:
    with proxy as found:
        return found


async def entered_later(proxy: Any) -> object:
    async with proxy as found:
        return found


OPERATIONS = """
    p+2  2+p  p-2  2-p  p*2  p/2  6/p  p//2  7//p  p%2  7%p  divmod(p,2)  divmod(7,p)  p**2  2**p
    pow(p,2,5)  p<<1  1<<p  p>>1  8>>p  p&2  2&p  p|4  4|p  p^1  1^p  -p  +p  ~p  abs(p)  round(p)
    math.floor(p)  math.ceil(p)  math.trunc(p)
"""
AT_ONCE = "int(p)  float(p)  complex(p)  operator.index(p)  bool(p)  p<4  p<=3  4>p  p>=4"


def of(operation: str, p: Any) -> Any:
    return eval(operation, {"p": p, "math": math, "operator": operator})


def test_operators_work_where_the_object_has_them(system: System) -> None:
    ref = farref.remote("B", int, ("3",))
    for operation in OPERATIONS.split():
        result = of(operation, 3)
        assert of(operation, ref.rpc_sync()) == result
        assert of(operation, ref.rpc_async()).result() == result
        assert of(operation, ref.remote()).to_here() == result
    for operation in AT_ONCE.split():
        assert of(operation, ref.rpc_sync()) == of(operation, 3)
    matrix = farref.remote("B", Matrix)
    assert matrix.rpc_sync() @ 2 == ("M", 2)
    assert 2 @ matrix.rpc_sync() == (2, "M")
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = farref.remote("B", dict).rpc_sync() + 1  # type: ignore[operator]  # this is the test
    assert len({ref.rpc_sync(), ref.rpc_sync()}) == 2, "equality and hashes are the proxies' own"


class Matrix:
    def __matmul__(self, other: object) -> tuple[object, object]:
        return "M", other

    def __rmatmul__(self, other: object) -> tuple[object, object]:
        return other, "M"


def test_an_object_is_changed_in_place(system: System) -> None:
    ref = farref.remote("B", list, ([1],))
    for how in (ref.rpc_sync, ref.rpc_async, ref.remote):
        proxy = how()
        proxy += [2]
        assert repr(proxy) == repr(how()), "the name still stands for the proxy"
    proxy = ref.rpc_sync()
    proxy *= 2
    assert ref.to_here() == [1, 2, 2, 2] * 2
    number = farref.remote("B", int, ("3",)).rpc_sync()
    with pytest.raises(TypeError, match=r"int .*cannot be changed in place"):
        number += 1
    frozen = farref.remote("B", list, ([1],), frozen=True).rpc_sync()
    with pytest.raises(TypeError, match="frozen"):
        frozen += [2]


def test_an_iterator_gives_one_item_after_the_other(system: System) -> None:
    ref = farref.remote("B", iter, ([1, 2, 3],))
    assert next(ref.rpc_sync()) == 1
    assert next(ref.rpc_async()).result() == 2
    assert ref.rpc_sync().__next__() == 3
    assert next(ref.rpc_sync(), "no more") == "no more"
    with pytest.raises(StopIteration):
        next(ref.rpc_sync())
    assert list(reversed(farref.remote("B", list, ([1, 2],)).rpc_sync())) == [2, 1]


class Door:
    """A context, and an asynchronous one."""

    def __init__(self, quiet: bool = False, other: object = None) -> None:
        self.open = False
        self.seen: object = None
        self.quiet, self.other = quiet, other
        self.left = 2

    def __enter__(self) -> object:
        self.open = True
        return self if self.other is None else self.other

    def __exit__(self, kind: object, error: object, where: object) -> bool:
        self.open, self.seen = False, (kind, repr(error), where)
        return self.quiet

    async def __aenter__(self) -> object:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> bool:
        return self.__exit__(*error)

    def __aiter__(self) -> Door:
        return self

    async def __anext__(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise StopAsyncIteration
        return self.left


def test_a_context_is_entered_and_left_at_the_owner(system: System) -> None:
    ref: RRef[Any] = farref.remote("B", Door)
    with ref.rpc_sync() as door:
        assert door.open.get()
    assert not ref.rpc_sync().open.get()
    assert ref.rpc_sync().seen.get() == (None, "None", None)
    with pytest.raises(KeyError, match="x"), ref.rpc_sync():
        raise KeyError("x")
    assert ref.rpc_sync().seen.get() == (KeyError, "KeyError('x')", None)
    with farref.remote("B", Door, (True, "key")).rpc_sync() as found:
        assert found == "key"
        _ = dict[str, int]()["x"]
    ref.rpc_async().__enter__().result()  # by name, on any proxy
    assert ref.rpc_sync().open.get()


def test_an_asynchronous_context_and_iteration(system: System) -> None:
    ref: RRef[Any] = farref.remote("B", Door)

    async def main() -> list[int]:
        async with ref.rpc_async() as door:
            assert await door.open.get()
            with pytest.raises(KeyError):
                async with ref.rpc_async():
                    raise KeyError("x")
            return [each async for each in ref.rpc_async()]

    assert asyncio.run(main()) == [1, 0]
    assert not ref.rpc_sync().open.get()


def test_a_frozen_object_takes_no_change(system: System) -> None:
    ref: RRef[Any] = farref.remote("B", dict, frozen=True)
    with pytest.raises(TypeError, match="frozen"):
        ref.rpc_sync()["a"] = 1
    with pytest.raises(TypeError, match="frozen"):
        ref.rpc_sync().a = 1
    assert ref.rpc_sync().get("a") is None


# ---- resolve=True


def test_a_method_gets_values_for_references(system: System) -> None:
    ref = farref.remote("B", Counter)
    two = farref.remote("C", int, ("2",))
    assert ref.rpc_sync(resolve=True).add(two) == 2
    assert ref.rpc_async(resolve=True).add(two, times=two).result() == 6
    assert ref.remote(resolve=True).add(two).to_here() == 8
    assert RRef([1, 2]).rpc_sync(resolve=True).index(two) == 1


def test_a_call_whose_arguments_are_fetched_keeps_its_turn(system: System, gate: Path) -> None:
    ref = farref.remote("B", Counter)
    late = farref.remote("C", hold, (gate, 5))
    first = ref.rpc_async(resolve=True).add(late)
    second = ref.rpc_async().add(1)
    assert not second.done()
    gate.touch()
    assert (first.result(), second.result()) == (5, 6)


def test_the_error_of_an_argument_is_the_error_of_the_method(system: System) -> None:
    ref = farref.remote("B", Counter)
    bad = farref.remote("C", divmod, (1, 0))
    with pytest.raises(ZeroDivisionError):
        ref.rpc_sync(resolve=True).add(bad)
    with pytest.raises(ZeroDivisionError):
        ref.remote(resolve=True, frozen=True).add(bad).to_here()
    assert ref.rpc_sync().add(1) == 1


def test_an_earlier_result_of_the_same_object_is_resolved(system: System) -> None:
    ref = farref.remote("B", Counter)
    earlier = ref.remote().add(3)
    assert ref.rpc_sync(resolve=True).add(earlier) == 6


def test_an_argument_that_is_the_object_itself_is_no_deadlock(system: System) -> None:
    ref = farref.remote("B", Counter)
    with pytest.raises(SelfWaitError):
        ref.rpc_sync(resolve=True).add(ref)


def test_a_ring_through_an_argument_is_found(system: System, gate: Path) -> None:
    ref = farref.remote("B", Counter)
    late = farref.remote("C", _add_when_open, (gate, ref))
    first = ref.rpc_async(resolve=True).add(late)
    # It waits for `late`, and has the turn for which `late` is going to wait.
    assert until(system, lambda: farref.rpc_sync("C", _asked) == 1)
    gate.touch()
    with pytest.raises(SelfWaitError, match="ring"):
        first.result()
    assert ref.rpc_sync().add(0) in {0, 1}


def _asked() -> int:
    """The number of requests that wait here for objects that are being made."""
    return sum(row.tasks for row in farref.references())


def _add_when_open(gate: Path, ref: RRef[Counter]) -> int:
    hold(gate)
    added: int = ref.rpc_sync().add(1)
    return added
